//! Decides by simulation: lint reports only what walked packets confirm.

use super::change::{AdvisedChange, Configured, Redundant};
use super::difference::Difference;
use super::probes::each_probe;
use crate::explain::{PodContext, RuleView, declared_addresses, item_texts};
use mesh::limit::Limit;
use mesh::sources::Raw;
use mesh::{Capture, Setting};
use rules::simulate::Work;
use rules::simulate::{At, Matched, Observer, Packet, Reachability, Step, Trace, Verdict, walk};
use rules::{Checked, Family};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Rules met by packets and compared with each other, in all: some tenths of a second.
pub(super) const MAX_WORK: usize = 20_000_000;

/// The most items of a list that are left out by way of trial: each trial makes all rules again.
pub(super) const MAX_TRIALS: usize = 64;

/// Compares what becomes of packets in a configuration and in another one, as long as there is work left.
pub(super) struct LintComparison<'a> {
    pub(super) raw: &'a Raw,
    pub(super) capture: &'a Capture,
    configured: Configured,
    /// The configuration after all advice so far, if there was any.
    after_change: Option<AfterChange>,
    pod: PodContext,
    /// The rules that the configuration makes, one set a family.
    pub(super) rules: Vec<Checked>,
    /// The same to be walked through, from the first time that a packet is: most configurations give no cause.
    rule_views: OnceCell<Vec<RuleView>>,
    /// The hooks that lead to those rules, likewise.
    reachability: OnceCell<Vec<Reachability>>,
    pub(super) work: Work,
    /// Whether a list has more than [`MAX_TRIALS`] items to try.
    pub(super) is_cut: bool,
}

impl<'a> LintComparison<'a> {
    pub(super) fn new(raw: &'a Raw, capture: &'a Capture, work: Work) -> Self {
        let pod =
            PodContext::with_placeholders(declared_addresses(raw).unwrap_or_default(), Some(&**capture));
        let rules = capture.families().map(|family| capture.rules(family)).collect();
        let configured = Configured::new(capture.clone(), raw.clone());
        let (rule_views, reachability) = (OnceCell::new(), OnceCell::new());
        let is_cut = false;
        Self {
            raw,
            capture,
            configured,
            after_change: None,
            pod,
            rules,
            rule_views,
            reachability,
            work,
            is_cut,
        }
    }

    /// How many rules the configuration makes, of both families.
    pub(super) fn size(&self) -> usize {
        self.rules.iter().map(|rules| rules.rules().statements.len()).sum()
    }

    /// Those pieces of advice after which every packet ends as before, whether each is followed alone or all are; the first
    /// of those that are equal.
    pub(super) fn confirmed(&mut self, candidates: Vec<Redundant>) -> Vec<Redundant> {
        let mut seen = BTreeSet::new();
        let mut redundant = Vec::new();
        let mut trials: BTreeMap<Setting, usize> = BTreeMap::new();
        for candidate in candidates {
            let AdvisedChange { setting, item, .. } = &candidate.change;
            if !seen.insert((*setting, item.clone())) {
                continue;
            }
            let trials = trials.entry(*setting).or_default();
            *trials += 1;
            if *trials > MAX_TRIALS {
                self.is_cut = true;
                continue;
            }
            if self.is_redundant(&candidate.change) {
                redundant.push(candidate);
            } else if self.work.is_spent() {
                break;
            }
        }
        redundant
    }

    /// Whether every packet ends as before once this advice is followed, alone or after all that was given before; then
    /// it counts as given. False, if there is not enough work left, or if the settings do not determine the outcome.
    pub(super) fn is_redundant(&mut self, change: &AdvisedChange) -> bool {
        let Self { capture, configured, after_change, pod, rules, rule_views, reachability, work, .. } = self;
        let rule_views = rule_views.get_or_init(|| views_of(rules, capture, pod));
        let reachability =
            reachability.get_or_init(|| rules.iter().map(|rules| Reachability::of(rules.rules())).collect());
        let baseline = Baseline { capture, rules, rule_views, reachability };
        let mut check = EquivalenceCheck { probe_rules: rules, pod, work };
        let alone = change.follow(configured).and_then(|after| check.if_equivalent(&baseline, after));
        let all = match (&alone, &after_change) {
            // After all advice so far packets end as before, so that it is enough to compare with what was made of it.
            (Some(_), Some(so_far)) => change
                .follow(&so_far.configured)
                .and_then(|after| check.if_equivalent(&so_far.baseline(), after)),
            (Some(_), None) | (None, _) => alone,
        };
        let is_redundant = all.is_some();
        if is_redundant {
            *after_change = all;
        }
        is_redundant
    }

    /// Whether any of the selected packets is captured once this is removed. False, if there is not enough work left, or
    /// if the settings do not determine the outcome.
    pub(super) fn captures_without(
        &mut self,
        change: &AdvisedChange,
        is_selected: impl Fn(&Packet) -> bool,
    ) -> bool {
        let Some(after) = change.follow(&self.configured) else { return false };
        let mut comparison = LintComparison::new(&after.raw, &after.capture, self.work);
        let captures = comparison.captures(is_selected);
        self.work = comparison.work;
        captures && !self.work.is_spent()
    }

    /// Whether any of the selected packets is captured. True, if there is not enough work left.
    pub(super) fn captures(&mut self, is_selected: impl Fn(&Packet) -> bool) -> bool {
        let Self { capture, pod, work, rules, .. } = self;
        let rule_views = self.rule_views.get_or_init(|| views_of(rules, capture, pod));
        rule_views.iter().zip(rules.iter()).any(|(rule_view, rules)| {
            let mut stop_if_captured = |packet: &Packet| {
                if !is_selected(packet) {
                    return ControlFlow::Continue(());
                }
                match verdict(rule_view, packet, work) {
                    Some(Verdict::Pass | Verdict::Drop) => ControlFlow::Continue(()),
                    Some(Verdict::Redirect(_) | Verdict::Tproxy(_) | Verdict::Unknown) | None => {
                        ControlFlow::Break(())
                    }
                }
            };
            each_probe(rules, &pod.addresses, rule_view.family, &[], &mut stop_if_captured).is_break()
        })
    }
}

impl LintComparison<'_> {
    /// The limits of the mesh's rules that some probe reaches, in the mesh's order, each with the values of the rules that it
    /// meets then; incomplete if the work is spent.
    pub(super) fn limits_reached(&self, mut work: Work) -> Vec<(&'static Limit, Vec<String>)> {
        let Self { capture, pod, rules, .. } = self;
        let limits = capture.mesh().reasons().limits();
        if limits.is_empty() {
            return Vec::new();
        }
        let mut met: Vec<BTreeMap<(Family, At), String>> = vec![BTreeMap::new(); limits.len()];
        let rule_views = self.rule_views.get_or_init(|| views_of(rules, capture, pod));
        for (rule_view, rules) in rule_views.iter().zip(rules.iter()) {
            let mut note = |packet: &Packet| {
                let mut trace = Trace::default();
                walk(&rule_view.view, &rule_view.routing, packet, &mut trace);
                if work.spend(trace.0.len()).is_none() {
                    return ControlFlow::Break(());
                }
                for step in &trace.0 {
                    let Some(rule) = rule_view.view.rule(step.at) else { continue };
                    let name = rule.origin.map(|origin| origin.name);
                    for (limit, found) in limits.iter().zip(&mut met) {
                        let has_limit = name == Some(limit.reason.name());
                        if has_limit && (limit.concerns)(packet, step.matched == Matched::Yes) {
                            let about = || item_texts(&rule.conditions).join(",");
                            found.entry((rule_view.family, step.at)).or_insert_with(about);
                        }
                    }
                }
                ControlFlow::Continue(())
            };
            // What is found in time is reported.
            let _ = each_probe(rules, &pod.addresses, rule_view.family, &[], &mut note);
        }
        let distinct = |rules: BTreeMap<_, String>| {
            let mut about: Vec<String> = Vec::new();
            for item in rules.into_values() {
                if !about.contains(&item) {
                    about.push(item);
                }
            }
            about
        };
        let met = limits.iter().zip(met).filter(|(_, rules)| !rules.is_empty());
        met.map(|(limit, rules)| (limit, distinct(rules))).collect()
    }
}

/// A configuration and its rules, to walk packets through.
struct Baseline<'a> {
    capture: &'a Capture,
    rules: &'a [Checked],
    rule_views: &'a [RuleView],
    reachability: &'a [Reachability],
}

/// A configuration after an advised change, with its rules.
struct AfterChange {
    configured: Configured,
    rules: Vec<Checked>,
    rule_views: Vec<RuleView>,
    reachability: Vec<Reachability>,
}

impl AfterChange {
    fn baseline(&self) -> Baseline<'_> {
        let Self { configured, rules, rule_views, reachability } = self;
        Baseline { capture: &configured.capture, rules, rule_views, reachability }
    }
}

/// What two configurations are compared with: probes, the pod, and the work that is left.
struct EquivalenceCheck<'a> {
    /// Rules whose boundary values become probes, beside those of what differs.
    probe_rules: &'a [Checked],
    pod: &'a PodContext,
    work: &'a mut Work,
}

impl EquivalenceCheck<'_> {
    /// The configuration after advice, if every packet ends as before. `None`, where there is not enough work left.
    fn if_equivalent(&mut self, before: &Baseline<'_>, configured: Configured) -> Option<AfterChange> {
        let mut after_change =
            AfterChange { configured, rules: Vec::new(), rule_views: Vec::new(), reachability: Vec::new() };
        let capture = &after_change.configured.capture;
        if capture.families().ne(before.capture.families()) {
            return None;
        }
        for (at, rule_view) in before.rule_views.iter().enumerate() {
            let rules = capture.rules(rule_view.family);
            let after = RuleView::of_rules(&rules, &**capture, self.pod);
            if capture != before.capture {
                self.work.spend(rules_in(&after))?;
                let difference = Difference::of(
                    (&before.rules[at], rule_view),
                    (&rules, &after),
                    &before.reachability[at],
                );
                if self.differs(&difference, &self.probe_rules[at], rule_view, &after) {
                    return None;
                }
            }
            after_change.reachability.push(Reachability::of(rules.rules()));
            after_change.rules.push(rules);
            after_change.rule_views.push(after);
        }
        Some(after_change)
    }

    /// Whether a packet ends in another way, or there is not enough work left to compare.
    fn differs(
        &mut self,
        difference: &Difference<'_>,
        probe_rules: &Checked,
        before: &RuleView,
        after: &RuleView,
    ) -> bool {
        let work = &mut *self.work;
        let mut compare = |packet: &Packet| {
            if !difference.may_change(packet, &before.routing) {
                // Telling that is work too.
                return work.spend(1).map_or(ControlFlow::Break(()), ControlFlow::Continue);
            }
            let then = verdict(before, packet, work);
            match then.is_some() && then == verdict(after, packet, work) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        each_probe(probe_rules, &self.pod.addresses, before.family, &difference.conditions(), &mut compare)
            .is_break()
    }
}

#[cfg(test)]
pub(super) fn rule_views(capture: &Capture, pod: &PodContext) -> Vec<RuleView> {
    capture.families().map(|family| RuleView::of_config(&**capture, family, pod)).collect()
}

/// Rules of a configuration that are made already.
fn views_of(rules: &[Checked], config: &Capture, pod: &PodContext) -> Vec<RuleView> {
    rules.iter().map(|rules| RuleView::of_rules(rules, &**config, pod)).collect()
}

fn rules_in(rule_view: &RuleView) -> usize {
    rule_view.view.chains().iter().map(|chain| chain.rules.len()).sum()
}

/// What becomes of the packet; `None` without enough work left for its walk.
fn verdict(rule_view: &RuleView, packet: &Packet, work: &mut Work) -> Option<Verdict> {
    if work.is_spent() {
        return None;
    }
    let mut counter = WorkCounter(work);
    let verdict = walk(&rule_view.view, &rule_view.routing, packet, &mut counter).verdict;
    (!work.is_spent()).then_some(verdict)
}

struct WorkCounter<'a>(&'a mut Work);

impl Observer for WorkCounter<'_> {
    fn rule_met(&mut self, _: Step) {
        // The end of the walk shows whether it was enough.
        let _ = self.0.spend(1);
    }
}
