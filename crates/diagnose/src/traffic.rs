//! All traffic of a pod in rows, in the order in which rules decide: the first row that matches a packet has its verdict. A row
//! joins walked regions of one origin, and may include packets of earlier rows. Packets that a row excepts get an earlier row
//! if they have one verdict.

use crate::explain::{PodContext, RuleView};
use crate::groups::{GROWTH, PacketGroup, disjoined, is_covered, joined, widen};
use crate::packets::{Packets, Values};
use crate::pod_packets::{PodPackets, Start, local_addresses, loopback, own_addresses, owners};
use mesh::{Proxy, Selector};
use rules::nft::{Base, Field, Intervals};
use rules::simulate::{
    At, Atlas, Marks, Packet, PacketSet, Region, Verdict, Way, Work, loopback_interface, number,
};
use rules::{ConnState, Family, Hook, InterfaceName, Origin};
use std::{collections::HashMap, collections::hash_map::Entry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPart {
    /// From other hosts to the pod.
    Inbound,
    /// From the pod's virtual machines.
    Machines,
    /// From the pod's processes to other hosts.
    Outbound,
    /// From the pod's processes to the pod itself: only typical calls.
    Within,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrafficRow {
    pub(crate) packets: Packets,
    pub(crate) end: RowEnd,
    /// Number of further packet groups without a description.
    pub(crate) more: usize,
    /// The row's packets, which may include packets of earlier rows.
    pub(crate) sets: Vec<PacketSet>,
    /// Packet that no earlier row covers.
    pub(crate) example: Option<Packet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowEnd {
    pub(crate) verdict: Verdict,
    /// True if a rule of another program sets a new destination.
    pub(crate) is_translated: bool,
    /// Origin of the deciding rule, without its item; `None` if several rules or none decide.
    pub(crate) origin: Option<Origin>,
    pub(crate) is_of_others: bool,
}

pub(crate) struct TrafficContext<'a> {
    pub(crate) pod: &'a PodContext,
    pub(crate) proxy: &'a Proxy,
    pub(crate) machines: &'a [InterfaceName],
}

#[derive(Default)]
pub(crate) struct TrafficRows {
    pub(crate) rows: Vec<TrafficRow>,
    pub(crate) examples: Vec<Packet>,
    /// Packets that no typical process sends. Rows ignore them, and may match them by chance.
    pub(crate) unusual: Vec<PacketSet>,
}

/// Maximum number of rules that one part's packets may meet.
const MAX_WORK: usize = 2_000_000;

/// Rows of one family. Packets in conntrack state INVALID come first if any are dropped.
pub(crate) fn rows(rule_view: &RuleView, part: TrafficPart, context: &TrafficContext<'_>) -> TrafficRows {
    let mut all = TrafficRows::default();
    let states = [ConnState::Invalid, ConnState::New];
    for state in states.into_iter().skip(usize::from(part == TrafficPart::Within)) {
        let (set, unusual) = context.packets(rule_view.family, part, state);
        let packets = PodPackets::alone(set.clone(), part == TrafficPart::Within, &context.pod.addresses);
        let mut work = Work::new(MAX_WORK);
        let sent =
            context.marks(&set).into_iter().map(|mark| set.clone().marked(mark, set.connmark().clone()));
        let atlas = Atlas::of(&rule_view.view, &rule_view.routing, sent, &mut work);
        let is_dropped = |end: &RowEnd| end.verdict == Verdict::Drop && end.origin.is_some();
        let walked = atlas
            .regions
            .iter()
            .map(|region| (RowEnd::of(rule_view, part, region), region.ending.decided_by, &region.packets));
        let open = atlas.open.iter().map(|set| (RowEnd::UNKNOWN, None, set));
        let all_regions: Vec<(RowEnd, Option<At>, &PacketSet)> = walked.chain(open).collect();
        if state == ConnState::Invalid && !all_regions.iter().any(|(end, ..)| is_dropped(end)) {
            continue;
        }
        let ends = in_order(rule_view, all_regions.iter().map(|(end, at, _)| (*end, *at)));
        let regions: Vec<(RowEnd, PacketSet)> =
            all_regions.iter().map(|(end, _, set)| (*end, context.described(set))).collect();
        let mut rows = ordered(&packets, ends, &regions, &unusual);
        if state == ConnState::Invalid {
            let last = rows.iter().rposition(|row| is_dropped(&row.end));
            rows.truncate(last.map_or(0, |last| last + 1));
            rows.iter_mut()
                .for_each(|row| row.packets.states = Some(Values::one(state.name().to_lowercase())));
        }
        all.rows.extend(rows);
        all.examples.extend(atlas.regions.iter().filter_map(|region| packets.example(&region.packets)));
        all.unusual.extend(unusual.into_iter().chain([context.marked_otherwise(&set)]));
    }
    all
}

impl RowEnd {
    /// For packets not walked because of too many rules.
    const UNKNOWN: Self =
        Self { verdict: Verdict::Unknown, is_translated: false, origin: None, is_of_others: false };

    fn of(rule_view: &RuleView, part: TrafficPart, region: &Region) -> Self {
        let ending = region.ending;
        let rule = ending.decided_by.and_then(|at: At| rule_view.view.rule(at));
        let origin = rule.and_then(|rule| rule.origin).map(|origin| Origin { item: None, ..origin });
        // Traffic within the pod that is not captured needs no reason.
        let has_reason = part != TrafficPart::Within || ending.verdict != Verdict::Pass;
        Self {
            verdict: ending.verdict,
            is_translated: ending.translated.is_some(),
            origin: origin.filter(|_| has_reason),
            is_of_others: rule.is_some() && origin.is_none(),
        }
    }

    /// True if no rule decides, so packets go to their original destination.
    fn is_rest(&self) -> bool {
        self.verdict == Verdict::Pass && self.origin.is_none() && !self.is_of_others
    }
}

type RowGroup = PacketGroup<RowEnd>;

fn ordered(
    packets: &PodPackets,
    ends: Vec<RowEnd>,
    regions: &[(RowEnd, PacketSet)],
    unusual: &[PacketSet],
) -> Vec<TrafficRow> {
    let start = &packets.starts[0];
    let group = |end: RowEnd, set: &PacketSet| PacketGroup::of(0, start, &start.sets[0], set, end);
    let groups = joined(regions.iter().map(|(end, set)| group(*end, set)).collect(), start);
    let Some(any) = groups.first().map(|group| group.end) else { return Vec::new() };
    let mut before: Vec<RowGroup> = unusual.iter().map(|set| group(any, set)).collect();
    let (skipped, last) = (before.len(), ends.last().copied());
    let mut surplus: Vec<(RowEnd, Vec<RowGroup>)> = Vec::new();
    for end in ends {
        let is_left =
            |group: &&RowGroup| !is_covered((*group).clone(), &before.iter().collect::<Vec<_>>(), start);
        let mut alike: Vec<&RowGroup> = groups.iter().filter(|group| group.end == end).collect();
        let left: Vec<&RowGroup> = alike.iter().copied().filter(is_left).collect();
        let wider = |group: &RowGroup, alike: &[&RowGroup], before: &[RowGroup]| {
            widen(group, alike, &before.iter().collect::<Vec<_>>(), &GROWTH, start)
        };
        let mut wide: Vec<RowGroup> = match Some(end) == last && !left.is_empty() {
            true => vec![group(end, &start.sets[0])],
            false => disjoined(left.iter().map(|group| wider(group, &alike, &before)).collect(), start),
        };
        let more = wide.split_off(wide.len().min(MAX_ROWS));
        for mut group in wide {
            for excepted in exceptions(packets, &group) {
                match exception(&groups, &before, excepted, start) {
                    Some((first, _)) if first.end.verdict != end.verdict => before.push(first),
                    // These packets have the same verdict in either row.
                    Some((_, met)) => alike.extend(met),
                    None => continue,
                }
                group = wider(&group, &alike, &before);
            }
            before.push(group);
        }
        if !more.is_empty() {
            surplus.push((end, more));
        }
    }
    let mut rows: Vec<TrafficRow> = Vec::new();
    for (at, group) in before.iter().enumerate().skip(skipped) {
        let sets: Vec<PacketSet> = group.sets(start).collect();
        let is_first =
            |packet: &Packet| !before[..at].iter().any(|one| one.sets(start).any(|set| set.contains(packet)));
        let alike = regions.iter().filter(|(end, _)| end.verdict == group.end.verdict);
        let own = alike.flat_map(|(_, region)| sets.iter().filter_map(|set| set.common(region)));
        let example = own.filter_map(|set| packets.example(&set)).find(is_first);
        let packets = Packets::of(packets, group);
        rows.push(TrafficRow { packets, end: group.end, example, more: 0, sets });
        let is_last_of_end = before.get(at + 1).is_none_or(|next| next.end != group.end);
        if let Some(found) = surplus.iter().position(|(end, _)| is_last_of_end && *end == group.end) {
            let (end, more) = surplus.remove(found);
            let sets = more.iter().flat_map(|group| group.sets(start)).collect();
            let described = rows[rows.len() - 1].packets.clone();
            rows.push(TrafficRow { packets: described, end, example: None, more: more.len(), sets });
        }
    }
    rows
}

/// Maximum number of rows with the same [`RowEnd`]; further groups are only counted.
const MAX_ROWS: usize = 50;

/// Groups of packets that a group excepts, and the fields along which each may be widened.
fn exceptions(packets: &PodPackets, group: &RowGroup) -> Vec<(RowGroup, &'static [Field])> {
    let start = &packets.starts[0];
    let but_protocol = &GROWTH[..GROWTH.len() - 1];
    let of_field = |field: Field| {
        let (values, all) = (group.values(field)?, start.values(field)?);
        let mut others = all.clone();
        others.remove(values);
        let fields = if field.is_port() { but_protocol } else { &GROWTH[..] };
        (!packets.is_narrow(values, &all, field)).then(|| (group.with(field, Some(others)), fields))
    };
    let marks = group.marks[0].iter().flatten().filter(|marks| marks.contains(0));
    let holes: Vec<Marks> = marks.flat_map(|marks| start.sets[0].mark().minus(marks)).collect();
    let of_mark = (!holes.is_empty()).then(|| (group.with_marks(0, Some(holes)), &GROWTH[..]));
    but_protocol.iter().filter_map(|field| of_field(*field)).chain(of_mark).collect()
}

/// If the packets of `excepted` outside `before` have one verdict: a row for them, and their groups.
fn exception<'a>(
    groups: &'a [RowGroup],
    before: &[RowGroup],
    (mut excepted, fields): (RowGroup, &[Field]),
    start: &Start,
) -> Option<(RowGroup, Vec<&'a RowGroup>)> {
    let before: Vec<&RowGroup> = before.iter().collect();
    let sets: Vec<PacketSet> = excepted.sets(start).collect();
    let is_met = |group: &&RowGroup| {
        let common = group.sets(start).any(|one| sets.iter().any(|set| set.common(&one).is_some()));
        common && !is_covered((*group).clone(), &before, start)
    };
    let met: Vec<&RowGroup> = groups.iter().filter(is_met).collect();
    let first = met.first()?.end;
    if met.iter().any(|group| group.end.verdict != first.verdict)
        || is_covered(excepted.clone(), &before, start)
    {
        return None;
    }
    let is_one = met.iter().all(|group| group.end == first);
    excepted.end = if is_one { first } else { RowEnd { origin: None, is_of_others: false, ..first } };
    let alike = groups.iter().filter(|group| met.iter().any(|one| one.end == group.end)).collect::<Vec<_>>();
    Some((widen(&excepted, &alike, &before, fields, start), alike))
}

/// Sorts the regions' ends by the order in which an unmatched packet meets the deciding rules; an end's last rule counts.
fn in_order(rule_view: &RuleView, regions: impl Iterator<Item = (RowEnd, Option<At>)>) -> Vec<RowEnd> {
    let mut places: HashMap<At, usize> = HashMap::new();
    let chains = rule_view.view.chains();
    let mut bases: Vec<usize> = (0..chains.len()).filter(|chain| chains[*chain].base.is_some()).collect();
    let leaves = |hook: Hook| matches!(hook, Hook::Output | Hook::Postrouting);
    let order = |base: Base| (!leaves(base.hook), base.hook, base.priority);
    bases.sort_by_key(|chain| chains[*chain].base.map(order));
    let mut calls: Vec<At> = bases.into_iter().rev().map(|chain| At { chain, rule: 0 }).collect();
    while let Some(at) = calls.pop() {
        let Some(rule) = rule_view.view.rule(at) else { continue };
        calls.push(At { rule: at.rule + 1, ..at });
        let place = places.len();
        if let Entry::Vacant(entry) = places.entry(at) {
            entry.insert(place);
            calls.extend(rule.leads_to.map(|chain| At { chain, rule: 0 }));
        }
    }
    let mut ends: Vec<(usize, RowEnd)> = Vec::new();
    for (end, at) in regions {
        let place = at.and_then(|at| places.get(&at)).copied().unwrap_or(usize::MAX);
        match ends.iter_mut().find(|(_, known)| *known == end) {
            Some((last, _)) => *last = place.max(*last),
            None => ends.push((place, end)),
        }
    }
    ends.sort_by_key(|(place, end)| (end.is_rest(), *place));
    ends.into_iter().map(|(_, end)| end).collect()
}

impl TrafficContext<'_> {
    /// Packets of a part, and its [`TrafficRows::unusual`].
    fn packets(&self, family: Family, part: TrafficPart, state: ConnState) -> (PacketSet, Vec<PacketSet>) {
        let (source, destination) = (Field::Source(family), Field::Destination(family));
        let (lo, loopback) = (loopback_interface(), loopback(family));
        let own = own_addresses(family, &self.pod.addresses);
        let local = local_addresses(family, &self.pod.addresses);
        // A pod with unknown addresses may have any.
        let is_known = self.pod.is_known && !own.is_empty();
        let others = if is_known { &local } else { &loopback };
        let of_machine = |name: &InterfaceName| Selector::VmInterface(name.clone()).condition().values;
        let machines = self.machines.iter().map(of_machine);
        let machines: Intervals = machines.flat_map(|values| values.ranges().to_vec()).collect();
        let of = |way: Way| PacketSet::all(family, way, state);
        let arriving = |is_local: bool| {
            let set = of(Way::Inbound { local: is_local }).marked(Marks::one(0), Marks::one(0));
            set.without(source, others).without(Field::InInterface, &lo).without(destination, &loopback)
        };
        let sent = || of(Way::Outbound).marked(Marks::any(), Marks::one(0));
        match part {
            TrafficPart::Inbound => {
                let set = arriving(true).without(Field::InInterface, &machines);
                (if is_known { set.with(destination, &own) } else { set }, Vec::new())
            }
            TrafficPart::Machines => (arriving(false).with(Field::InInterface, &machines), Vec::new()),
            TrafficPart::Outbound => {
                let set = sent().without(destination, others).without(Field::OutInterface, &lo);
                let set = if is_known { set.with(source, &own) } else { set.without(source, &loopback) };
                (set, Vec::new())
            }
            TrafficPart::Within => {
                let one = |address| Intervals::one(number(address));
                let local = one(mesh::loopback(family));
                let passthrough = self.proxy.passthrough(family).map(one).unwrap_or_default();
                let join = |lists: [&Intervals; 2]| {
                    let [mut all, more] = lists.map(Clone::clone);
                    all.union(&more);
                    all
                };
                let called = join([&own, &local]);
                let set = sent().with(Field::OutInterface, &lo).with(destination, &called);
                let set = set.with(source, &join([&called, &passthrough]));
                let (uids, gids) = owners(&self.proxy.uids, &self.proxy.gids);
                let mut unusual = vec![
                    set.clone().with(destination, &own).with(source, &local),
                    set.clone().with(destination, &local).with(source, &own),
                ];
                if !uids.is_empty() && !gids.is_empty() {
                    unusual.push(set.clone().with(Field::Uid, &uids).without(Field::Gid, &gids));
                    unusual.push(set.clone().without(Field::Uid, &uids).with(Field::Gid, &gids));
                    unusual.push(set.clone().with(source, &passthrough).without(Field::Uid, &uids));
                }
                unusual.retain(|set| !set.is_empty());
                (set, unusual)
            }
        }
    }

    /// Outbound packets' marks: 0 and the proxy's mark.
    fn marks(&self, set: &PacketSet) -> Vec<Marks> {
        let proxys = self.proxy.mark.filter(|_| set.way == Way::Outbound);
        [Some(0), proxys.map(|mark| mark.value)].into_iter().flatten().map(Marks::one).collect()
    }

    fn marked_otherwise(&self, set: &PacketSet) -> PacketSet {
        let marks = self.marks(set).iter().fold(Marks::any(), without);
        set.clone().marked(marks, Marks::any())
    }

    /// Packets to describe: unmarked ones represent all packets without the proxy's mark.
    fn described(&self, set: &PacketSet) -> PacketSet {
        let marks = match self.proxy.mark {
            _ if set.way != Way::Outbound => set.mark().clone(),
            None => Marks::any(),
            Some(mark) if set.mark().contains(0) => without(Marks::any(), &Marks::of(mark)),
            Some(mark) => Marks::of(mark),
        };
        set.clone().marked(marks, set.connmark().clone())
    }
}

/// Marks except `others`; all of them if none would remain.
fn without(marks: Marks, others: &Marks) -> Marks {
    marks.minus(others).pop().unwrap_or(marks)
}

impl TrafficRow {
    /// True if the row covers the packet; earlier rows have precedence.
    pub(crate) fn fits(&self, packet: &Packet) -> bool {
        self.sets.iter().any(|set| set.contains(packet))
    }

    pub(crate) fn take_in(&mut self, other: &Self) -> bool {
        let is_alike = self.end == other.end && self.packets.take_in_family(&other.packets);
        if is_alike {
            self.sets.extend(other.sets.iter().cloned());
        }
        is_alike
    }
}
