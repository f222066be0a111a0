//! Walks packets before anything is claimed or advised: what lint says of a configuration is what the simulator says too.

use super::change::Change;
use super::probes::probes;
use crate::Setting;
use crate::explain::{Pod, Scene};
use crate::istio::{self, CaptureConfig};
use crate::sources::Raw;
use rules::shadow::Work;
use rules::simulate::{Observer, Packet, Step, Verdict, walk};
use rules::{Checked, Family};
use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Stand-ins for the addresses of a pod that are not known (RFC 5737, RFC 3849).
const NOBODYS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7))];

pub(super) struct Judge<'a> {
    pub(super) config: &'a CaptureConfig,
    /// The configuration of whoever has followed all advice so far.
    followed: CaptureConfig,
    pod: Pod,
    /// The rules that the configuration makes, one set a family.
    pub(super) rules: Vec<Checked>,
    /// The same to be walked through, from the first time that a packet is: most configurations give no cause.
    scenes: OnceCell<Vec<Scene>>,
    pub(super) work: Work,
}

impl<'a> Judge<'a> {
    pub(super) fn new(raw: &Raw, config: &'a CaptureConfig, work: Work) -> Self {
        let mut addresses = declared(raw);
        addresses.extend(
            NOBODYS.into_iter().filter(|a| !declared(raw).iter().any(|d| Family::of(*d) == Family::of(*a))),
        );
        let pod = Pod::new(addresses, Some(config));
        let rules = config.families().map(|family| istio::rules(config, family)).collect();
        Self { config, followed: config.clone(), pod, rules, scenes: OnceCell::new(), work }
    }

    /// How many rules the configuration makes, of both families.
    pub(super) fn size(&self) -> usize {
        self.rules.iter().map(|rules| rules.rules().statements.len()).sum()
    }

    /// Whether whoever follows this advice, alone or after all that was given before, sees every packet end as before; then
    /// it counts as given. No, if there is not enough work left to tell.
    pub(super) fn is_idle(&mut self, change: &Change) -> bool {
        let after_all = change.follow(&self.followed);
        let idle = self.changes_nothing(change, &change.follow(self.config))
            && (self.followed == *self.config || self.changes_nothing(change, &after_all));
        if idle {
            self.followed = after_all;
        }
        idle
    }

    fn changes_nothing(&mut self, change: &Change, changed: &CaptureConfig) -> bool {
        if changed == self.config {
            return true;
        }
        let scenes = scenes(changed, &self.pod);
        let Self { config, pod, work, .. } = self;
        if work.spend(rules_in(&scenes)).is_none() {
            return false;
        }
        let before = self.scenes.get_or_init(|| walkable(&self.rules, config, pod));
        before.iter().zip(&scenes).all(|(before, after)| {
            let packets = probes(config, &pod.addresses, before.family, Some(&change.item));
            packets.iter().all(|packet| {
                let then = verdict(before, packet, work);
                then.is_some() && then == verdict(after, packet, work)
            })
        })
    }

    /// Whether any of the packets that are meant is captured. Yes, if there is not enough work left to tell.
    pub(super) fn captures(&mut self, is_meant: impl Fn(&Packet) -> bool) -> bool {
        let Self { config, pod, work, .. } = self;
        let scenes = self.scenes.get_or_init(|| walkable(&self.rules, config, pod));
        scenes.iter().any(|scene| {
            let packets = probes(config, &pod.addresses, scene.family, None);
            packets.iter().filter(|packet| is_meant(packet)).any(|packet| {
                match verdict(scene, packet, work) {
                    Some(Verdict::Pass | Verdict::Drop) => false,
                    Some(Verdict::Redirect(_) | Verdict::Tproxy(_) | Verdict::Unknown) | None => true,
                }
            })
        })
    }
}

/// The addresses that the pod is said to have.
pub(super) fn declared(raw: &Raw) -> Vec<IpAddr> {
    let given = raw.get(Setting::PodIps).map(|given| given.value.as_str()).unwrap_or_default();
    given.split(',').filter_map(|item| item.trim().parse().ok()).collect()
}

pub(super) fn scenes(config: &CaptureConfig, pod: &Pod) -> Vec<Scene> {
    config.families().map(|family| Scene::of_config(config, family, pod)).collect()
}

/// Rules of a configuration that are made already.
fn walkable(rules: &[Checked], config: &CaptureConfig, pod: &Pod) -> Vec<Scene> {
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
