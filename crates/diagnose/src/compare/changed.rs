//! The packets that two rule sets treat differently: the walk of all packets through the first, and of each of its regions
//! through the second. Regions that change alike are joined along one property at a time.

use crate::explain::RuleView;
use crate::pod_packets::{PodPackets, Start};
use rules::nft::{Field, Intervals};
use rules::simulate::{Atlas, Binding, Ending, Marks, PacketSet, Verdict, Work};
use rules::{ConnState, Family, PortRange};
use std::collections::HashMap;
use std::net::IpAddr;

/// Packets of a start by what sets them apart from all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PacketGroup {
    /// The number of its start.
    pub(crate) start: usize,
    /// The values of each of [`GROWTH`]; `None` for all.
    values: [Option<Intervals>; GROWTH.len()],
    /// The marks of packet and connection; `None` for all.
    pub(crate) marks: [Option<Vec<Marks>>; 2],
    pub(crate) states: Vec<ConnState>,
    /// Their ends before and after, whichever rule decides.
    ends: [GroupEnd; 2],
}

type GroupEnd = (Verdict, bool, Option<(Binding<IpAddr>, Binding<PortRange>)>);

/// The properties along which groups are joined: those first that are best left out of a description.
const GROWTH: [Field; 8] = [
    Field::SourcePort,
    Field::Source(Family::V4),
    Field::Gid,
    Field::Uid,
    Field::InInterface,
    Field::Destination(Family::V4),
    Field::DestinationPort,
    Field::Protocol,
];

/// The packets whose verdict changes.
pub(crate) struct Changed {
    pub(crate) groups: Vec<PacketGroup>,
    pub(crate) is_complete: bool,
    /// Whether any packet is captured, before or after.
    pub(crate) any_captured: bool,
}

pub(crate) fn changed(packets: &PodPackets, [before, after]: [&RuleView; 2], work: &mut Work) -> Changed {
    let mut found = Changed { groups: Vec::new(), is_complete: true, any_captured: false };
    for (index, start) in packets.starts.iter().enumerate() {
        let mut groups = Vec::new();
        for set in &start.sets {
            let first = Atlas::of(&before.view, &before.routing, [set.clone()], work);
            found.is_complete &= first.is_complete();
            for region in first.regions {
                let second = Atlas::of(&after.view, &after.routing, [region.packets], work);
                found.is_complete &= second.is_complete();
                for other in second.regions {
                    let ends = [region.ending, other.ending];
                    let is_captured =
                        |end: &Ending| matches!(end.verdict, Verdict::Redirect(_) | Verdict::Tproxy(_));
                    found.any_captured |= ends.iter().any(is_captured);
                    let group = PacketGroup::of(index, start, set, &other.packets, ends);
                    groups.extend(Some(group).filter(|group| group.ends[0] != group.ends[1]));
                }
            }
        }
        found.groups.extend(widened(&joined(groups, start), packets, start));
    }
    // Forwarded packets are not described where those to the pod's own address change alike.
    let groups = std::mem::take(&mut found.groups);
    let is_said = |group: &PacketGroup| {
        let alike = |other: &PacketGroup| {
            let local =
                PacketGroup { start: other.start, ..group.with(Field::Destination(packets.family), None) };
            packets.starts[other.start].is_local()
                && local == other.with(Field::Destination(packets.family), None)
        };
        packets.starts[group.start].is_forwarded() && groups.iter().any(alike)
    };
    found.groups = groups.iter().filter(|group| !is_said(group)).cloned().collect();
    found
}

/// The regions of one set of packets, those that end alike joined.
pub(crate) fn grouped(packets: &PodPackets, regions: Vec<(PacketSet, Ending)>) -> Vec<PacketGroup> {
    let start = &packets.starts[0];
    let of_region = |(set, ending): (PacketSet, Ending)| {
        PacketGroup::of(0, start, &start.sets[0], &set, [ending, ending])
    };
    widened(&joined(regions.into_iter().map(of_region).collect(), start), packets, start)
}

impl PacketGroup {
    fn of(index: usize, start: &Start, all: &PacketSet, packets: &PacketSet, ends: [Ending; 2]) -> Self {
        let apart = |marks: &Marks, of_all: &Marks| (marks != of_all).then(|| vec![marks.clone()]);
        Self {
            start: index,
            values: GROWTH.map(|field| {
                let own = packets.values(field).map(Intervals::joined)?;
                (Some(&own) != start.values(field).as_ref()).then_some(own)
            }),
            marks: [apart(packets.mark(), all.mark()), apart(packets.connmark(), all.connmark())],
            states: vec![packets.state],
            ends: ends.map(|end| (end.verdict, end.keeps_port, end.translated)),
        }
    }

    /// The values of a field that set the group apart.
    pub(crate) fn values(&self, field: Field) -> Option<&Intervals> {
        self.values[place(field)].as_ref()
    }

    fn with(&self, field: Field, values: Option<Intervals>) -> Self {
        let mut other = self.clone();
        other.values[place(field)] = values;
        other
    }

    /// The packets of the group.
    pub(crate) fn sets<'a>(&'a self, start: &'a Start) -> impl Iterator<Item = PacketSet> + 'a {
        let of_state = start.sets.iter().filter(|set| self.states.contains(&set.state));
        of_state.flat_map(|set| {
            let narrowed = GROWTH.into_iter().fold(set.clone(), |set, field| match self.values(field) {
                Some(values) => set.with(field, values),
                None => set,
            });
            let all = [set.mark(), set.connmark()].map(|marks| vec![marks.clone()]);
            let [marks, connmarks] =
                [0, 1].map(|at| self.marks[at].clone().unwrap_or_else(|| all[at].clone()));
            let pairs = marks
                .into_iter()
                .flat_map(move |mark| connmarks.clone().into_iter().map(move |one| (mark.clone(), one)));
            pairs.map(move |(mark, connmark)| narrowed.clone().marked(mark, connmark))
        })
    }
}

/// The place of a field in [`GROWTH`], whichever the family and the interface's direction.
fn place(field: Field) -> usize {
    let kind = |field: Field| match field {
        Field::OutInterface => std::mem::discriminant(&Field::InInterface),
        field => std::mem::discriminant(&field),
    };
    GROWTH.iter().position(|one| kind(*one) == kind(field)).expect("a field with values")
}

/// Joins groups that differ in one property alone, as long as there are any.
fn joined(mut groups: Vec<PacketGroup>, start: &Start) -> Vec<PacketGroup> {
    loop {
        let before = groups.len();
        groups = along(
            groups,
            |group| PacketGroup { states: Vec::new(), ..group.clone() },
            |one, other| {
                one.states.extend(other.states);
            },
        );
        for marks in 0..2 {
            let without = |group: &PacketGroup| {
                let mut other = group.clone();
                other.marks[marks] = None;
                other
            };
            groups = along(groups, without, |one, other| {
                let lists = (one.marks[marks].take(), &other.marks[marks]);
                let (Some(own), Some(more)) = lists else { return };
                let all = [start.sets[0].mark(), start.sets[0].connmark()][marks];
                let own = Marks::joined([own, more.clone()].concat());
                one.marks[marks] = (own != [all.clone()]).then_some(own);
            });
        }
        for field in GROWTH {
            groups = along(
                groups,
                |group| group.with(field, None),
                |one, other| {
                    let all = [&*one, &other].map(|group| group.values(field).cloned());
                    let [Some(mut own), Some(more)] = all else { return *one = one.with(field, None) };
                    own.union(&more);
                    let own = own.joined();
                    let is_all = start.values(field).as_ref() == Some(&own);
                    *one = one.with(field, (!is_all).then_some(own));
                },
            );
        }
        if groups.len() == before {
            return groups;
        }
    }
}

/// Groups of more packets each than so many others are left as they are.
const MAX_WIDENED: usize = 40;

/// Widens groups over others that end alike, so that they are said in fewer words; those that others hold then go.
fn widened(groups: &[PacketGroup], packets: &PodPackets, start: &Start) -> Vec<PacketGroup> {
    let alike =
        |group: &PacketGroup| groups.iter().filter(|other| other.ends == group.ends).collect::<Vec<_>>();
    let widened = groups.iter().map(|group| {
        let alike = alike(group);
        let mut wide = group.clone();
        for field in GROWTH.into_iter().filter(|_| alike.len() <= MAX_WIDENED) {
            let values = alike.iter().map(|other| other.values(field).cloned());
            for values in std::iter::once(None).chain(values) {
                let Some(own) = wide.values(field) else { break };
                let mut more = own.clone();
                let values = values.map(|values| {
                    more.union(&values);
                    more.joined()
                });
                let wider = wide.with(field, values.filter(|all| start.values(field).as_ref() != Some(all)));
                if wider != wide && is_covered(wider.clone(), &alike, start) {
                    wide = wider;
                }
            }
        }
        wide
    });
    let mut kept: Vec<PacketGroup> = Vec::new();
    let mut widened: Vec<PacketGroup> = widened.collect();
    // Groups with the fewest properties of their own hold the others.
    widened.sort_by_key(|group| group.values.iter().flatten().count() + group.marks.iter().flatten().count());
    for group in widened {
        let others: Vec<&PacketGroup> = kept.iter().filter(|other| other.ends == group.ends).collect();
        if others.len() > MAX_WIDENED || !is_covered(group.clone(), &others, start) {
            kept.push(group);
        }
    }
    kept.sort_by_key(|group| {
        let is_narrow = |field: &Field| {
            let (values, all) = (group.values(*field), start.values(*field));
            values.zip(all).is_some_and(|(values, all)| packets.is_narrow(values, &all, *field))
        };
        GROWTH.iter().filter(|field| is_narrow(field)).count()
    });
    kept
}

/// Whether every packet of the group is in one of the others.
fn is_covered(group: PacketGroup, others: &[&PacketGroup], start: &Start) -> bool {
    let Some((first, others)) = others.split_first() else { return false };
    let holds = |of: &PacketGroup| {
        let has_marks = |(own, of): (&Option<Vec<Marks>>, &Option<Vec<Marks>>)| of.is_none() || own == of;
        group.marks.iter().zip(&of.marks).all(has_marks)
            && group.states.iter().all(|one| of.states.contains(one))
    };
    if !holds(first) {
        return is_covered(group, others, start);
    }
    let mut inner = group;
    for field in GROWTH {
        let Some(taken) = first.values(field) else { continue };
        let Some(own) = inner.values(field).cloned().or_else(|| start.values(field)) else { continue };
        let mut left = own.clone();
        left.remove(taken);
        if !left.is_empty() && !is_covered(inner.with(field, Some(left)), others, start) {
            return false;
        }
        let both = own.common(taken);
        if both.is_empty() {
            return true;
        }
        inner = inner.with(field, Some(both));
    }
    true
}

/// Joins groups that are equal without one property.
fn along(
    groups: Vec<PacketGroup>,
    without: impl Fn(&PacketGroup) -> PacketGroup,
    join: impl Fn(&mut PacketGroup, PacketGroup),
) -> Vec<PacketGroup> {
    let mut places: HashMap<PacketGroup, usize> = HashMap::new();
    let mut kept: Vec<PacketGroup> = Vec::new();
    for group in groups {
        match places.get(&without(&group)) {
            Some(&place) => join(&mut kept[place], group),
            None => {
                places.insert(without(&group), kept.len());
                kept.push(group);
            }
        }
    }
    kept
}
