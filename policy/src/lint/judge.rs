//! Walks packets before anything is claimed or advised: what lint says of a configuration is what the simulator says too.

use super::Idle;
use super::change::{Change, Said};
use super::probes::probes;
use crate::Setting;
use crate::explain::{Pod, Scene, values};
use crate::limit::Limit;
use crate::mesh::{Capture, Policy};
use crate::sources::Raw;
use rules::shadow::Work;
use rules::simulate::{At, Matched, Observer, Packet, Step, Trace, Verdict, walk};
use rules::{Checked, Family, Match, Rule};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Stand-ins for the addresses of a pod that are not known (RFC 5737, RFC 3849).
const NOBODYS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7))];

/// Of rules that a piece of advice changes, so many are looked at closely.
const MOST_CHANGED: usize = 64;

/// Asked what becomes of packets, with a configuration and with another one, as long as there is work left.
pub struct Judge<'a> {
    pub(crate) raw: &'a Raw,
    pub(super) capture: &'a Capture,
    /// The configuration of whoever has followed all advice so far.
    followed: Said,
    pod: Pod,
    /// The rules that the configuration makes, one set a family.
    pub(super) rules: Vec<Checked>,
    /// The same to be walked through, from the first time that a packet is: most configurations give no cause.
    scenes: OnceCell<Vec<Scene>>,
    pub(super) work: Work,
}

impl<'a> Judge<'a> {
    pub(super) fn new(raw: &'a Raw, capture: &'a Capture, work: Work) -> Self {
        let mut addresses = declared(raw);
        addresses.extend(
            NOBODYS.into_iter().filter(|a| !declared(raw).iter().any(|d| Family::of(*d) == Family::of(*a))),
        );
        let pod = Pod::new(addresses, Some(capture));
        let rules = capture.families().map(|family| capture.rules(family)).collect();
        let followed = Said { capture: capture.clone(), raw: raw.clone() };
        Self { raw, capture, followed, pod, rules, scenes: OnceCell::new(), work }
    }

    /// How many rules the configuration makes, of both families.
    pub(super) fn size(&self) -> usize {
        self.rules.iter().map(|rules| rules.rules().statements.len()).sum()
    }

    /// Those pieces of advice after which every packet ends as before, whether each is followed alone or all are; the first
    /// of those that say the same.
    pub(crate) fn confirmed(&mut self, candidates: Vec<Idle>) -> Vec<Idle> {
        let mut seen = BTreeSet::new();
        let mut idle = Vec::new();
        for candidate in candidates {
            let Change { setting, item, .. } = &candidate.change;
            if !seen.insert((*setting, item.clone())) {
                continue;
            }
            if self.is_idle(&candidate.change) {
                idle.push(candidate);
            } else if self.work.is_spent() {
                break;
            }
        }
        idle
    }

    /// Whether whoever follows this advice, alone or after all that was given before, sees every packet end as before; then
    /// it counts as given. No, if there is not enough work left to tell, or if the words don't tell what following means.
    pub(crate) fn is_idle(&mut self, change: &Change) -> bool {
        let before = Said { capture: self.capture.clone(), raw: self.raw.clone() };
        let is_first = self.followed.capture == before.capture;
        let Some(after) = change.follow(&before) else { return false };
        if !self.changes_nothing(&after.capture) {
            return false;
        }
        let after_all = if is_first { Some(after) } else { change.follow(&self.followed) };
        let Some(after_all) = after_all else { return false };
        let idle = is_first || self.changes_nothing(&after_all.capture);
        if idle {
            self.followed = after_all;
        }
        idle
    }

    fn changes_nothing(&mut self, changed: &Capture) -> bool {
        if changed == self.capture {
            return true;
        }
        if changed.families().ne(self.capture.families()) {
            return false;
        }
        let scenes = scenes(changed, &self.pod);
        let Self { capture, pod, work, rules, .. } = self;
        if work.spend(rules_in(&scenes)).is_none() {
            return false;
        }
        let before = self.scenes.get_or_init(|| walkable(rules, *capture, pod));
        before.iter().zip(&scenes).zip(rules.iter()).all(|((before, after), rules)| {
            let changed = changed_rules(rules, &changed.rules(before.family));
            let packets = probes(rules, &pod.addresses, before.family, Some(&changed));
            packets.iter().all(|packet| {
                let then = verdict(before, packet, work);
                then.is_some() && then == verdict(after, packet, work)
            })
        })
    }

    /// Whether any of the packets that are meant is captured. Yes, if there is not enough work left to tell.
    pub(crate) fn captures(&mut self, is_meant: impl Fn(&Packet) -> bool) -> bool {
        let Self { capture, pod, work, rules, .. } = self;
        let scenes = self.scenes.get_or_init(|| walkable(rules, *capture, pod));
        scenes.iter().zip(rules.iter()).any(|(scene, rules)| {
            let packets = probes(rules, &pod.addresses, scene.family, None);
            packets.iter().filter(|packet| is_meant(packet)).any(|packet| {
                match verdict(scene, packet, work) {
                    Some(Verdict::Pass | Verdict::Drop) => false,
                    Some(Verdict::Redirect(_) | Verdict::Tproxy(_) | Verdict::Unknown) | None => true,
                }
            })
        })
    }
}

impl Judge<'_> {
    /// The limits of the mesh's rules that packets run into, in the order of the mesh, each with what the rules are about that
    /// they meet then; those that are found with this work.
    pub(super) fn limits_met(&self, mut work: Work) -> Vec<(&'static Limit, Vec<String>)> {
        let Self { capture, pod, rules, .. } = self;
        let limits = capture.mesh().reasons().limits();
        if limits.is_empty() {
            return Vec::new();
        }
        let mut met: Vec<BTreeMap<(Family, At), String>> = vec![BTreeMap::new(); limits.len()];
        let scenes = self.scenes.get_or_init(|| walkable(rules, *capture, pod));
        for (scene, rules) in scenes.iter().zip(rules.iter()) {
            for packet in probes(rules, &pod.addresses, scene.family, None) {
                let mut trace = Trace::default();
                walk(&scene.view, &scene.routing, &packet, &mut trace);
                if work.spend(trace.0.len()).is_none() {
                    break;
                }
                for step in &trace.0 {
                    let Some(rule) = scene.view.rule(step.at) else { continue };
                    let name = rule.origin.map(|origin| origin.name);
                    for (limit, rules) in limits.iter().zip(&mut met) {
                        let has_it = name == Some(limit.reason.name());
                        if has_it && (limit.concerns)(&packet, step.matched == Matched::Yes) {
                            let about = || values(&rule.conditions).join(",");
                            rules.entry((scene.family, step.at)).or_insert_with(about);
                        }
                    }
                }
            }
        }
        let told = |rules: BTreeMap<_, String>| {
            let mut about: Vec<String> = Vec::new();
            for item in rules.into_values() {
                if !about.contains(&item) {
                    about.push(item);
                }
            }
            about
        };
        let met = limits.iter().zip(met).filter(|(_, rules)| !rules.is_empty());
        met.map(|(limit, rules)| (limit, told(rules))).collect()
    }
}

/// What the rules ask that only the one or the other set has.
fn changed_rules(before: &Checked, after: &Checked) -> Vec<Match> {
    let mut counts: BTreeMap<&Rule, i32> = BTreeMap::new();
    for (rules, step) in [(before, 1), (after, -1)] {
        for statement in &rules.rules().statements {
            *counts.entry(&statement.rule).or_default() += step;
        }
    }
    let changed = counts.into_iter().filter(|(_, count)| *count != 0).map(|(rule, _)| rule);
    changed.take(MOST_CHANGED).flat_map(|rule| rule.matches.iter().cloned()).collect()
}

/// The addresses that the pod is said to have.
pub(super) fn declared(raw: &Raw) -> Vec<IpAddr> {
    let given = raw.get(Setting::PodIps).map(|given| given.value.as_str()).unwrap_or_default();
    given.split(',').filter_map(|item| item.trim().parse().ok()).collect()
}

pub(super) fn scenes(capture: &Capture, pod: &Pod) -> Vec<Scene> {
    capture.families().map(|family| Scene::of_config(capture, family, pod)).collect()
}

/// Rules of a configuration that are made already.
fn walkable(rules: &[Checked], config: &dyn Policy, pod: &Pod) -> Vec<Scene> {
    rules.iter().map(|rules| Scene::of_rules(rules, config, pod)).collect()
}

fn rules_in(scenes: &[Scene]) -> usize {
    scenes.iter().flat_map(|scene| scene.view.chains()).map(|chain| chain.rules.len()).sum()
}

/// What becomes of the packet; `None` without enough work left for its walk.
fn verdict(scene: &Scene, packet: &Packet, work: &mut Work) -> Option<Verdict> {
    if work.is_spent() {
        return None;
    }
    let mut counter = Counter(work);
    let verdict = walk(&scene.view, &scene.routing, packet, &mut counter).verdict;
    (!work.is_spent()).then_some(verdict)
}

struct Counter<'a>(&'a mut Work);

impl Observer for Counter<'_> {
    fn rule_met(&mut self, _: Step) {
        // Whether it was enough is asked at the end of the walk.
        let _ = self.0.spend(1);
    }
}
