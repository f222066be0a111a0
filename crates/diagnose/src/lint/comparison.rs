//! Confirmation of findings by walks of all packets.

use super::change::{AdvisedChange, Configured, Redundant};
use crate::explain::{PodContext, RuleView, declared_addresses, item_texts, limits_met};
use crate::pod_packets::PodPackets;
use mesh::{Capture, DNS_PORT, Setting, limit::Limit, sources::Raw};
use rules::nft::{Field, Intervals};
use rules::simulate::{
    At, Atlas, Ending, Marks, PacketSet, Region, Unreached, Verdict, Work, statements, trace, unreached,
};
use rules::{Chain, Checked, Rule, Statement, Table};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// Rule budget, exhausted in a few tenths of a second.
pub(super) const MAX_WORK: usize = 5_000_000;

/// Maximum number of tentatively dropped items per list: each trial makes all rules again.
pub(super) const MAX_TRIALS: usize = 64;

/// Compares packets' verdicts in a configuration and in a changed one, within the budget.
pub(super) struct LintComparison<'a> {
    pub(super) raw: &'a Raw,
    pub(super) capture: &'a Capture,
    baseline: Baseline,
    /// Configuration after all advice so far.
    after_change: Option<Baseline>,
    pod: PodContext,
    pub(super) work: Work,
    /// True if a list has more than [`MAX_TRIALS`] items to try.
    pub(super) is_cut: bool,
}

impl<'a> LintComparison<'a> {
    pub(super) fn new(raw: &'a Raw, capture: &'a Capture, work: Work) -> Self {
        let pod =
            PodContext::with_placeholders(declared_addresses(raw).unwrap_or_default(), Some(&**capture));
        let baseline = Baseline::of(Configured::new(capture.clone(), raw.clone()), &pod);
        Self { raw, capture, baseline, after_change: None, pod, work, is_cut: false }
    }

    pub(super) fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.baseline.families.iter().flat_map(|family| &family.rules.rules().statements)
    }

    /// Rules that no packet reaches, each with the rule that takes its packets.
    pub(super) fn unreached(&mut self) -> Vec<Unreached<'_>> {
        let Self { baseline, work, .. } = self;
        baseline.families.iter().flat_map(|family| unreached(family.rules.rules(), work)).collect()
    }

    /// Advice that changes no verdict, singly or combined; of equal advice, the first.
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

    /// True if this advice, on top of all advice so far, changes no verdict; if so, records it.
    pub(super) fn is_redundant(&mut self, change: &AdvisedChange) -> bool {
        let Self { baseline, after_change, pod, work, .. } = self;
        let mut follow = |before: &Baseline| {
            let after = Baseline::of(change.follow(&before.configured)?, pod);
            before.is_like(&after, pod, work).then_some(after)
        };
        // All advice so far changes no verdict, so a comparison with that configuration is enough.
        let all = follow(baseline).and_then(|alone| after_change.as_ref().map_or(Some(alone), follow));
        let is_redundant = all.is_some();
        if is_redundant {
            *after_change = all;
        }
        is_redundant
    }

    /// True if any selected packet is captured after the change; false if undecided.
    pub(super) fn captures_without(
        &mut self,
        change: &AdvisedChange,
        select: impl Fn(PacketSet) -> Option<PacketSet>,
    ) -> bool {
        let Some(after) = change.follow(&self.baseline.configured) else { return false };
        let mut comparison = LintComparison::new(&after.raw, &after.capture, self.work);
        let captures = comparison.captures(select);
        self.work = comparison.work;
        captures && !self.work.is_spent()
    }

    /// True if any of the selected packets is captured, or the budget is exhausted.
    pub(super) fn captures(&mut self, select: impl Fn(PacketSet) -> Option<PacketSet>) -> bool {
        let Self { baseline, pod, work, .. } = self;
        baseline.families.iter().any(|family| {
            let atlas = family.atlas(pod, work);
            let mut captured = atlas
                .regions
                .iter()
                .filter(|region| !matches!(region.ending.verdict, Verdict::Pass | Verdict::Drop));
            let is_selected =
                |region: &Region| select(region.packets.clone()).is_some_and(|set| !set.is_empty());
            !atlas.is_complete() || captured.any(is_selected)
        })
    }

    /// Limits of the mesh's rules that affect some packet, each with the values of the rules that the packet meets.
    pub(super) fn limits_reached(&mut self) -> Vec<(&'static Limit, Vec<String>)> {
        let Self { baseline, pod, work, capture, .. } = self;
        let limits = capture.mesh().entry().limits;
        if limits.is_empty() {
            return Vec::new();
        }
        let mut met: Vec<(&Limit, Vec<String>)> = limits.iter().map(|limit| (limit, Vec::new())).collect();
        for family in &baseline.families {
            let rule_view = &family.rule_view;
            let packets = PodPackets::of(&[&rule_view.view], pod, false);
            // Limits concern DNS queries and marks, even if no rule tests for them.
            let query = Intervals::one(DNS_PORT.number().into());
            let mark = Marks::one(capture.proxy().mark.map_or(0, |mark| mark.value));
            let some = |Region { packets: set, .. }: &Region| {
                let is_marked = mark.sample().is_some_and(|mark| set.mark().contains(mark));
                let marked = is_marked.then(|| set.clone().marked(mark.clone(), set.connmark().clone()));
                [Some(set.clone().with(Field::DestinationPort, &query)), marked, Some(set.clone())]
            };
            let sets = family.atlas(pod, work).regions.iter().flat_map(some).flatten();
            for packet in sets.filter_map(|set| packets.example(&set)) {
                let (_, steps) = trace(&rule_view.view, &rule_view.routing, &packet);
                for (limit, rule) in limits_met(&rule_view.view, &packet, &steps) {
                    let about = item_texts(rule).join(",");
                    let of_limit = met.iter_mut().find(|(one, _)| std::ptr::eq(*one, limit));
                    let abouts = of_limit.map(|(_, abouts)| abouts).filter(|known| !known.contains(&about));
                    abouts.into_iter().for_each(|known| known.push(about.clone()));
                }
            }
        }
        met.retain(|(_, abouts)| !abouts.is_empty());
        met
    }
}

struct Baseline {
    configured: Configured,
    families: Vec<FamilyBaseline>,
}

struct FamilyBaseline {
    rules: Checked,
    rule_view: RuleView,
    /// Verdicts for all packets, with the rules that they match; computed on demand.
    atlas: OnceCell<Atlas>,
}

impl Baseline {
    fn of(configured: Configured, pod: &PodContext) -> Self {
        let capture = &configured.capture;
        let of_family = |family| {
            let rules = capture.rules(family);
            let rule_view = RuleView::of_rules(&rules, &**capture, pod);
            FamilyBaseline { rules, rule_view, atlas: OnceCell::new() }
        };
        Self { families: capture.families().map(of_family).collect(), configured }
    }

    /// True if every packet has the same verdict under both rule sets; false beyond the budget.
    fn is_like(&self, other: &Self, pod: &PodContext, work: &mut Work) -> bool {
        let mut pairs = self.families.iter().zip(&other.families);
        let [own, others] = [self, other].map(|one| &one.configured.capture);
        own.families().eq(others.families())
            && (own == others || pairs.all(|(one, other)| one.ends_alike(other, pod, work)))
    }
}

impl FamilyBaseline {
    /// All packets of a pod by verdict, as far as the budget allowed at the first call.
    fn atlas(&self, pod: &PodContext, work: &mut Work) -> &Atlas {
        self.atlas.get_or_init(|| {
            let RuleView { view, routing, .. } = &self.rule_view;
            let packets = PodPackets::of(&[view], pod, false);
            Atlas::of(view, routing, packets.sets().cloned(), work)
        })
    }

    fn ends_alike(&self, other: &Self, pod: &PodContext, work: &mut Work) -> bool {
        if work.spend(other.rules.rules().statements.len()).is_none() {
            return false;
        }
        let (before, after) = (&self.rule_view, &other.rule_view);
        let changed = changed(&self.rules, &other.rules);
        let [own, others] = [&self.rules, &other.rules].map(|rules| KeptRules::of(rules, &changed));
        // Kept rules lead to the same chains. If the order is equal, only a removed rule's packets may change verdict.
        let is_local = before.routing == after.routing && own.kept == others.kept;
        let ends = |region: &Region, by: &RuleView, work: &mut Work| {
            let atlas = Atlas::of(&by.view, &by.routing, [region.packets.clone()], work);
            let verdict = |ending: &Ending| (ending.verdict, ending.keeps_port);
            atlas.is_complete()
                && atlas.regions.iter().all(|one| verdict(&one.ending) == verdict(&region.ending))
        };
        let mut all = |of: &Self, places: &KeptRules<'_>, by: &RuleView| {
            let atlas = of.atlas(pod, work);
            let may_change =
                |region: &&Region| !is_local || region.rules.iter().any(|at| places.gone.contains(at));
            let mut changed = atlas.regions.iter().filter(may_change);
            atlas.is_complete() && changed.all(|region| ends(region, by, work))
        };
        all(self, &own, after) && (!is_local || others.gone.is_empty() || all(other, &others, before))
    }
}

type StatementKey<'a> = (Table, &'a Chain, &'a Rule);

fn key(statement: &Statement) -> StatementKey<'_> {
    (statement.table, &statement.chain, &statement.rule)
}

/// Rules that occur more often in one configuration.
fn changed<'a>(before: &'a Checked, after: &'a Checked) -> BTreeSet<StatementKey<'a>> {
    let mut counts: BTreeMap<StatementKey<'_>, i32> = BTreeMap::new();
    for (rules, step) in [(before, 1), (after, -1)] {
        for statement in &rules.rules().statements {
            *counts.entry(key(statement)).or_default() += step;
        }
    }
    counts.into_iter().filter(|(_, count)| *count != 0).map(|(key, _)| key).collect()
}

/// Removed rules of a rule set, and kept rules in order.
struct KeptRules<'a> {
    gone: BTreeSet<At>,
    kept: Vec<StatementKey<'a>>,
}

impl<'a> KeptRules<'a> {
    fn of(rules: &'a Checked, changed: &BTreeSet<StatementKey<'a>>) -> Self {
        let (mut gone, mut kept) = (BTreeSet::new(), Vec::new());
        for (chain, of_chain) in statements(rules.rules()).into_iter().enumerate() {
            for (rule, statement) in of_chain.into_iter().enumerate() {
                if changed.contains(&key(statement)) {
                    gone.insert(At { chain, rule });
                } else {
                    kept.push(key(statement));
                }
            }
        }
        Self { gone, kept }
    }
}
