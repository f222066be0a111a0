//! Groups of packets with the same outcome, joined and widened into few descriptions.

use crate::pod_packets::{PodPackets, Start};
use rules::nft::{Field, Interval, Intervals};
use rules::simulate::{Binding, Ending, Marks, PacketSet, Verdict};
use rules::{ConnState, Family, PortRange};
use std::{collections::HashMap, hash::Hash, net::IpAddr};

/// Packets of a [`Start`], by the properties that distinguish them, and their outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PacketGroup<E> {
    pub(crate) start: usize,
    /// Values of each field of [`GROWTH`]; `None` for all.
    values: [Option<Intervals>; GROWTH.len()],
    pub(crate) marks: [Option<Vec<Marks>>; 2],
    pub(crate) states: Vec<ConnState>,
    pub(crate) end: E,
}

/// The part of a packet's outcome that distinguishes groups.
pub(crate) trait End: Copy + Eq + Hash {}

impl<T: Copy + Eq + Hash> End for T {}

pub(crate) type GroupEnd = (Verdict, bool, Option<(Binding<IpAddr>, Binding<PortRange>)>);

pub(crate) fn group_end(ending: Ending) -> GroupEnd {
    (ending.verdict, ending.keeps_port, ending.translated)
}

/// Properties along which groups are joined, the most dispensable first.
pub(crate) const GROWTH: [Field; 8] = [
    Field::SourcePort,
    Field::Source(Family::V4),
    Field::Gid,
    Field::Uid,
    Field::InInterface,
    Field::Destination(Family::V4),
    Field::DestinationPort,
    Field::Protocol,
];

impl<E: End> PacketGroup<E> {
    pub(crate) fn of(index: usize, start: &Start, all: &PacketSet, packets: &PacketSet, end: E) -> Self {
        let apart = |marks: &Marks, of_all: &Marks| (marks != of_all).then(|| vec![marks.clone()]);
        Self {
            start: index,
            values: GROWTH.map(|field| {
                let own = packets.values(field).map(Intervals::joined)?;
                (Some(&own) != start.values(field).as_ref()).then_some(own)
            }),
            marks: [apart(packets.mark(), all.mark()), apart(packets.connmark(), all.connmark())],
            states: vec![packets.state],
            end,
        }
    }

    pub(crate) fn values(&self, field: Field) -> Option<&Intervals> {
        self.values[place(field)].as_ref()
    }

    pub(crate) fn with(&self, field: Field, values: Option<Intervals>) -> Self {
        let mut other = self.clone();
        other.values[place(field)] = values;
        other
    }

    pub(crate) fn with_marks(&self, at: usize, marks: Option<Vec<Marks>>) -> Self {
        let mut other = self.clone();
        other.marks[at] = marks;
        other
    }

    pub(crate) fn sets<'a>(&'a self, start: &'a Start) -> impl Iterator<Item = PacketSet> + 'a {
        let of_state = start.sets.iter().filter(|set| self.states.contains(&set.state));
        of_state.flat_map(|set| {
            let narrowed = GROWTH.into_iter().fold(set.clone(), |set, field| match self.values(field) {
                Some(values) => set.with(field, values),
                None => set,
            });
            let of = |at: usize, all: &Marks| self.marks[at].clone().unwrap_or_else(|| vec![all.clone()]);
            let (marks, connmarks) = (of(0, set.mark()), of(1, set.connmark()));
            marks.into_iter().flat_map(move |mark| {
                let marked = |connmark: &Marks| narrowed.clone().marked(mark.clone(), connmark.clone());
                connmarks.iter().map(marked).collect::<Vec<_>>()
            })
        })
    }
}

/// Index of a field in [`GROWTH`], regardless of family and interface direction.
fn place(field: Field) -> usize {
    let kind = |field: Field| match field {
        Field::OutInterface => std::mem::discriminant(&Field::InInterface),
        field => std::mem::discriminant(&field),
    };
    GROWTH.iter().position(|one| kind(*one) == kind(field)).expect("a field with values")
}

/// Repeatedly joins groups that differ in only one property.
pub(crate) fn joined<E: End>(mut groups: Vec<PacketGroup<E>>, start: &Start) -> Vec<PacketGroup<E>> {
    loop {
        let before = groups.len();
        let without_states = |group: &PacketGroup<E>| PacketGroup { states: Vec::new(), ..group.clone() };
        groups = along(groups, without_states, |one, other| one.states.extend(other.states));
        for marks in 0..2 {
            let join = |one: &mut PacketGroup<E>, other: PacketGroup<E>| {
                let lists = (one.marks[marks].take(), &other.marks[marks]);
                let (Some(own), Some(more)) = lists else { return };
                let own = Marks::joined([own, more.clone()].concat());
                one.marks[marks] = (own != [start.marks(marks).clone()]).then_some(own);
            };
            groups = along(groups, |group| group.with_marks(marks, None), join);
        }
        for field in GROWTH {
            let join = |one: &mut PacketGroup<E>, other: PacketGroup<E>| {
                let all = [&*one, &other].map(|group| group.values(field).cloned());
                let [Some(mut own), Some(more)] = all else { return *one = one.with(field, None) };
                own.union(&more);
                let own = own.joined();
                let is_all = start.values(field).as_ref() == Some(&own);
                *one = one.with(field, (!is_all).then_some(own));
            };
            groups = along(groups, |group| group.with(field, None), join);
        }
        if groups.len() == before {
            return groups;
        }
    }
}

/// Maximum number of groups that are widened over each other.
const MAX_WIDENED: usize = 40;

/// Widens groups over others of equal outcome to shorten descriptions, and removes groups that others then contain.
pub(crate) fn widened<E: End>(
    groups: &[PacketGroup<E>],
    packets: &PodPackets,
    start: &Start,
) -> Vec<PacketGroup<E>> {
    let alike =
        |group: &PacketGroup<E>| groups.iter().filter(|other| other.end == group.end).collect::<Vec<_>>();
    let wide = groups.iter().map(|group| widen(group, &alike(group), &[], &GROWTH, start));
    let mut kept = disjoined(wide.collect(), start);
    kept.sort_by_key(|group| {
        let is_narrow = |field: &Field| {
            let (values, all) = (group.values(*field), start.values(*field));
            values.zip(all).is_some_and(|(values, all)| packets.is_narrow(values, &all, *field))
        };
        GROWTH.iter().filter(|field| is_narrow(field)).count()
    });
    kept
}

/// Removes groups that others with the same outcome contain.
pub(crate) fn disjoined<E: End>(mut groups: Vec<PacketGroup<E>>, start: &Start) -> Vec<PacketGroup<E>> {
    // Groups with the fewest restrictions may contain the others.
    groups.sort_by_key(|group| group.values.iter().flatten().count() + group.marks.iter().flatten().count());
    let mut kept: Vec<PacketGroup<E>> = Vec::new();
    for group in groups {
        let others: Vec<&PacketGroup<E>> = kept.iter().filter(|other| other.end == group.end).collect();
        if others.len() > MAX_WIDENED || !is_covered(group.clone(), &others, start) {
            kept.push(group);
        }
    }
    kept
}

/// Widest group that contains this one and otherwise only packets of `alike` and `others`. The outcome of `others` is
/// irrelevant: they only shorten address lists. Only `fields` are widened, and the protocol only over `alike`.
pub(crate) fn widen<E: End>(
    group: &PacketGroup<E>,
    alike: &[&PacketGroup<E>],
    others: &[&PacketGroup<E>],
    fields: &[Field],
    start: &Start,
) -> PacketGroup<E> {
    let over: Vec<&PacketGroup<E>> = [alike, others].concat();
    let mut wide = group.clone();
    if over.len() > MAX_WIDENED {
        return wide;
    }
    for at in 0..2 {
        let wider = wide.with_marks(at, None);
        if wide.marks[at].is_some() && is_covered(wider.clone(), &over, start) {
            wide = wider;
        }
    }
    for field in fields.iter().copied() {
        let lists =
            |of: &[&PacketGroup<E>]| of.iter().map(|one| one.values(field).cloned()).collect::<Vec<_>>();
        let is_address = matches!(field, Field::Source(_) | Field::Destination(_));
        let of_others = lists(others).into_iter().filter(|list| is_address && list.is_some());
        let lists = std::iter::once((None, false))
            .chain(lists(alike).into_iter().map(|list| (list, false)))
            .chain(of_others.map(|list| (list, true)));
        for (list, is_other) in lists {
            let Some(own) = wide.values(field) else { break };
            let more = list.map(|list| {
                let mut more = own.clone();
                more.union(&list);
                more.joined()
            });
            // Values outside the start don't split a list.
            let length = |values: &Intervals| {
                let mut values = values.clone();
                let mut holes = Intervals::from(Interval { first: 0, last: u128::MAX });
                holes.remove(&start.values(field).unwrap_or_default());
                values.union(&holes);
                values.joined().ranges().len()
            };
            let is_longer = is_other && more.as_ref().is_some_and(|more| length(more) >= length(own));
            let more = more.filter(|all| start.values(field).as_ref() != Some(all));
            let wider = wide.with(field, more);
            let is_held = match (start.values(field), field) {
                (Some(mut added), Field::Protocol) => {
                    added.remove(own);
                    is_covered(wide.with(field, Some(added)), alike, start)
                }
                _ => is_covered(wider.clone(), &over, start),
            };
            if wider != wide && !is_longer && is_held {
                wide = wider;
            }
        }
    }
    wide
}

/// True if `others` together contain every packet of the group.
pub(crate) fn is_covered<E: End>(group: PacketGroup<E>, others: &[&PacketGroup<E>], start: &Start) -> bool {
    let Some((first, others)) = others.split_first() else { return false };
    if !group.states.iter().all(|one| first.states.contains(one)) {
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
    for at in 0..2 {
        let Some(taken) = &first.marks[at] else { continue };
        let own = inner.marks[at].clone().unwrap_or_else(|| vec![start.marks(at).clone()]);
        let minus = |left: Vec<Marks>, taken| left.iter().flat_map(|one: &Marks| one.minus(taken)).collect();
        let left = taken.iter().fold(own.clone(), minus);
        if !left.is_empty() && !is_covered(inner.with_marks(at, Some(left)), others, start) {
            return false;
        }
        let both: Vec<Marks> =
            own.iter().flat_map(|one| taken.iter().filter_map(|taken| one.common(taken))).collect();
        if both.is_empty() {
            return true;
        }
        inner = inner.with_marks(at, Some(both));
    }
    true
}

/// Joins groups that differ only in one property.
fn along<E: End>(
    groups: Vec<PacketGroup<E>>,
    without: impl Fn(&PacketGroup<E>) -> PacketGroup<E>,
    join: impl Fn(&mut PacketGroup<E>, PacketGroup<E>),
) -> Vec<PacketGroup<E>> {
    let mut places: HashMap<PacketGroup<E>, usize> = HashMap::new();
    let mut kept: Vec<PacketGroup<E>> = Vec::new();
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
