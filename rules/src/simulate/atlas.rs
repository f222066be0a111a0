//! All packets of a set by their endings: the walk divided wherever a condition divides its packets.

use super::packet::{Packet, Routing};
use super::set::PacketSet;
use super::trace::{At, Ending, Matched, Observer, Outcome, Step, Verdict};
use super::view::View;
use super::walk::{SetWalk, Walker};

/// The remaining budget, in rules that are met: questions about long lists end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    left: Option<usize>,
}

impl Work {
    pub fn new(max: usize) -> Self {
        Self { left: Some(max) }
    }

    /// `None` once there was not enough.
    pub fn spend(&mut self, units: usize) -> Option<()> {
        self.left = self.left.and_then(|left| left.checked_sub(units));
        self.left.map(|_| ())
    }

    /// There was not enough at some time, so that something was not looked at.
    pub fn is_spent(&self) -> bool {
        self.left.is_none()
    }

    /// 0 where there was not enough.
    pub fn left(&self) -> usize {
        self.left.unwrap_or_default()
    }
}

/// Packets that end alike, by the same rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub packets: PacketSet,
    pub ending: Ending,
    /// The rules that the packets match, or may; only where they were asked for ([`Atlas::with_rules`]).
    pub rules: Vec<At>,
}

/// The regions of some sets of packets. No packet is in two of them.
#[derive(Clone, Debug, Default)]
pub struct Atlas {
    pub regions: Vec<Region>,
    /// The packets that were not looked at, once the work was spent.
    pub open: Vec<PacketSet>,
    met: Vec<Vec<bool>>,
}

impl Atlas {
    /// Walks all packets of some sets that share no packet.
    pub fn of(
        view: &View,
        routing: &Routing,
        sets: impl IntoIterator<Item = PacketSet>,
        work: &mut Work,
    ) -> Self {
        Self::of_walks(view, routing, sets.into_iter().map(SetWalk::of), work)
    }

    /// As [`Self::of`], with the rules that the packets of each region match.
    pub fn with_rules(
        view: &View,
        routing: &Routing,
        sets: impl IntoIterator<Item = PacketSet>,
        work: &mut Work,
    ) -> Self {
        Self::of_walks(view, routing, sets.into_iter().map(SetWalk::with_rules), work)
    }

    fn of_walks(
        view: &View,
        routing: &Routing,
        walks: impl Iterator<Item = SetWalk>,
        work: &mut Work,
    ) -> Self {
        let met = view.chains().iter().map(|chain| vec![false; chain.rules.len()]).collect();
        let mut atlas = Self { met, ..Self::default() };
        let mut walks: Vec<SetWalk> = walks.filter(|walk| !walk.set.is_empty()).collect();
        walks.reverse();
        while let Some(mut walk) = walks.pop() {
            if work.is_spent() {
                atlas.open.push(walk.set);
                continue;
            }
            let mut observer = MetRules { met: &mut atlas.met, work };
            let mut walker = Walker { view, routing, observer: &mut observer, is_single: false };
            match walker.run(&mut walk) {
                Ok(ending) => {
                    let rules = walk.met.unwrap_or_default();
                    atlas.regions.push(Region { packets: walk.set, ending, rules });
                }
                Err(divider) => {
                    // The rule's own packets first, so that regions are in the order of rules.
                    let mut others = walk.clone();
                    walk.set.narrow(&divider.by, divider.is_positive);
                    others.set.narrow(&divider.by, !divider.is_positive);
                    walks.push(others);
                    walks.push(walk);
                }
            }
        }
        atlas
    }

    pub fn is_complete(&self) -> bool {
        self.open.is_empty()
    }

    /// Packets of these sets may have matched the rule.
    pub fn has_met(&self, at: At) -> bool {
        self.met.get(at.chain).and_then(|chain| chain.get(at.rule)).copied().unwrap_or_default()
    }
}

struct MetRules<'a> {
    met: &'a mut Vec<Vec<bool>>,
    work: &'a mut Work,
}

impl Observer for MetRules<'_> {
    fn rule_met(&mut self, step: Step) {
        let _ = self.work.spend(1);
        if !matches!(step.matched, Matched::No(_)) {
            self.met[step.at.chain][step.at.rule] = true;
        }
    }
}

/// Walks a packet through the rules. Where chains of equal priority decide differently in another order, or where rules may be
/// missing, the verdict is unknown.
pub fn walk(view: &View, routing: &Routing, packet: &Packet, observer: &mut impl Observer) -> Outcome {
    let mut walk = SetWalk::of(PacketSet::one(packet));
    let ending = match (Walker { view, routing, observer, is_single: true }).run(&mut walk) {
        Ok(ending) => ending,
        // One packet divides at nothing.
        Err(_) => walk.ending(Some((Verdict::Unknown, None))),
    };
    ending.of(packet)
}
