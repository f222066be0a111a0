//! The properties that a question leaves open: the caller's address, the source port, the user. All packets that it may be about are walked; where
//! they end in several ways, the answer depends on what was not given.

use super::{Explanation, PacketCase, PacketQuery, RuleView, explain};
use crate::compare::{Packets, group_end};
use crate::groups::{PacketGroup, joined, widened};
use crate::pod_packets::PodPackets;
use rules::simulate::{Atlas, PacketSet, Work};

/// Rules that all packets of a question may meet.
const MAX_WORK: usize = 2_000_000;

impl Explanation<'_> {
    /// The same answer about all packets that the question may be about.
    #[must_use]
    pub(crate) fn over(self, rule_view: &RuleView, query: &PacketQuery) -> Self {
        let Some(open) = &query.open else { return self };
        let mut work = Work::new(MAX_WORK);
        let atlas = Atlas::of(&rule_view.view, &rule_view.routing, [open.clone()], &mut work);
        if !atlas.is_complete() {
            let why = "the rules are too many to try every caller, source port and user";
            return self.in_doubt(Some(why));
        }
        let verdict = |at: usize| atlas.regions[at].ending.verdict;
        if (1..atlas.regions.len()).all(|at| verdict(at) == verdict(0)) {
            return self;
        }
        let packets = PodPackets::alone(open.clone(), false, &rule_view.routing.addresses);
        let start = &packets.starts[0];
        let groups = atlas.regions.iter().map(|region| {
            PacketGroup::of(0, start, &start.sets[0], &region.packets, group_end(region.ending))
        });
        let cases = widened(&joined(groups.collect(), start), &packets, start);
        let case = |group| {
            let described = Packets::of(&packets, &group);
            let sets: Vec<PacketSet> = group.sets(start).collect();
            let is_asked = sets.iter().any(|set| set.contains(&query.packet));
            let example = if is_asked {
                query.packet.clone()
            } else {
                sets.iter().find_map(|set| packets.example(set))?
            };
            let explained = explain(&rule_view.view, &rule_view.routing, &example);
            let explained = Explanation {
                dialect: self.dialect.clone(),
                nothing: self.nothing.clone(),
                doubt: self.doubt.clone(),
                endpoint_names: self.endpoint_names.clone(),
                ..explained
            };
            Some(PacketCase {
                text: described.apart().trim_start().to_owned(),
                packets: described,
                end: explained.end(),
            })
        };
        let mut cases: Vec<PacketCase> = cases.into_iter().filter_map(case).collect();
        // The packet that is shown comes first.
        let own = self.end();
        let is_own =
            |case: &PacketCase| (case.end.verdict, case.end.transparent) == (own.verdict, own.transparent);
        cases.sort_by_key(|case| !is_own(case));
        if cases.iter().all(is_own) { self } else { Self { cases, ..self } }
    }

    /// The properties on which the answer depends; `None` where all packets end alike.
    pub fn depends_on(&self) -> Option<String> {
        let has = |of: fn(&Packets) -> bool| self.cases.iter().any(|case| of(&case.packets));
        let on = [
            ("the caller", has(|packets| packets.sources.is_some())),
            ("the source port", has(|packets| packets.source_ports.is_some())),
            ("the route", has(|packets| packets.interfaces.is_some())),
            ("the user", has(|packets| packets.users.is_some())),
            ("the group", has(|packets| packets.groups.is_some())),
        ];
        let on: Vec<&str> = on.into_iter().filter(|(_, is_it)| *is_it).map(|(name, _)| name).collect();
        (!self.cases.is_empty()).then(|| on.join(" and "))
    }
}
