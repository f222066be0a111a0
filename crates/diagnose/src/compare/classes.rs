//! The values that two rule sets distinguish: per field of a packet, classes of values that fulfil the same conditions.

use mesh::recognition::summary::field_condition;
use rules::nft::{Condition as FieldCondition, Field, Interval, Intervals, interface_number};
use rules::simulate::{View, ViewRule};
use rules::{Action, Disposition, ListedCondition, Mark, Target, WriteSet};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Values of a field that fulfil the same conditions.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// The value to try.
    pub(super) value: u128,
    /// All of them.
    pub(super) values: Intervals,
    /// What to call them, where that is not the values: the names of interfaces.
    pub(super) names: Vec<String>,
}

/// The sets of values that conditions ask for, by field.
#[derive(Debug, Default)]
pub(super) struct Conditions(BTreeMap<Field, BTreeSet<Intervals>>);

impl Conditions {
    /// Adds those of all rules.
    pub(super) fn add(&mut self, view: &View) {
        for (chain, content) in view.chains().iter().enumerate() {
            let may_join = |one: &ViewRule, next: &ViewRule| {
                one.action == next.action
                    && one.leads_to == next.leads_to
                    && !next.acts_first()
                    && is_repeatable(view, one, &mut vec![chain])
            };
            for block in content.rules.chunk_by(may_join) {
                self.add_block(block);
                block.iter().for_each(|rule| self.add_target(rule));
            }
        }
    }

    /// Adds those of rules with the same action, of which a packet may meet several as if it met one. Rules among them that
    /// differ in the values of one field alone act as one rule with all these values, so that the values are one set.
    fn add_block(&mut self, rules: &[ViewRule]) {
        let mut kinds: BTreeMap<FieldSignature, Vec<Vec<PairedCondition<'_>>>> = BTreeMap::new();
        for rule in rules {
            let paired: Vec<PairedCondition<'_>> =
                rule.conditions.iter().map(|condition| (field_condition(condition), condition)).collect();
            let kind = paired.iter().map(|(known, _)| match known {
                Some(known) => (Some(known.field), known.negated),
                None => (None, false),
            });
            kinds.entry(kind.collect()).or_default().push(paired);
        }
        for (kind, rules) in kinds {
            let may_join = |index: &usize| kind[*index].0.is_some() && !kind[*index].1;
            let joined = (0..kind.len()).filter(may_join).map(|index| joined(&rules, index));
            let fewest = joined.min_by_key(BTreeMap::len);
            for (_, ((field, values), others)) in fewest.unwrap_or_default() {
                self.insert(field, &values.into_iter().collect());
                for (known, _) in others {
                    let Some(known) = known else { continue };
                    self.insert(known.field, &known.values);
                }
            }
            // Negated values are not joined: each condition adds its own set.
            for (known, _) in rules.iter().flatten() {
                let Some(known) = known.as_ref().filter(|known| known.negated) else { continue };
                self.insert(known.field, &known.values);
            }
        }
    }

    /// Adds a target's range of ports: a packet whose destination port lies in it keeps that port.
    fn add_target(&mut self, rule: &ViewRule) {
        let ports = match &rule.action {
            Action::Target(Target::Redirect(ports)) => *ports,
            Action::Destination { ports: Some(ports), .. } => *ports,
            _ => return,
        };
        if !ports.is_single() {
            let [first, last] = [ports.first(), ports.last()].map(|port| port.number().into());
            self.insert(Field::DestinationPort, &Intervals::from_iter([Interval { first, last }]));
        }
    }

    pub(super) fn insert(&mut self, field: Field, values: &Intervals) {
        self.0.entry(field).or_default().insert(values.joined());
    }

    fn sets(&self, field: Field) -> impl Iterator<Item = &Intervals> {
        self.0.get(&field).into_iter().flatten()
    }

    pub(super) fn is_asked(&self, field: Field) -> bool {
        self.0.contains_key(&field)
    }

    /// Which of the sets of a field hold a value.
    pub(super) fn answers(&self, field: Field, value: u128) -> Vec<usize> {
        let holds = |(_, set): &(usize, &Intervals)| set.meets(&Intervals::one(value));
        self.sets(field).enumerate().filter(holds).map(|(index, _)| index).collect()
    }

    /// The classes of a field with numbers in a range, the largest first. Of each, a value that is usual, if it has one.
    pub(super) fn classes(&self, field: Field, all: Interval, usual: &[u128]) -> Vec<Class> {
        let mut borders: BTreeMap<u128, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        borders.entry(all.first).or_default();
        for (index, set) in self.sets(field).enumerate() {
            // A rule of nf_tables may name port 0, which no packet has.
            for range in set.ranges().iter().filter(|range| range.last >= all.first) {
                borders.entry(range.first.max(all.first)).or_default().0.push(index);
                if let Some(behind) = range.last.checked_add(1) {
                    borders.entry(behind).or_default().1.push(index);
                }
            }
        }
        let firsts: Vec<u128> = borders.keys().copied().collect();
        let (mut open, mut classes) = (BTreeSet::new(), BTreeMap::<Vec<usize>, Vec<Interval>>::new());
        for (at, (first, (begin, end))) in borders.iter().enumerate() {
            open.retain(|index| !end.contains(index));
            open.extend(begin.iter().copied());
            let last = firsts.get(at + 1).map_or(all.last, |next| next - 1).min(all.last);
            if *first <= last {
                let answers = open.iter().copied().collect();
                classes.entry(answers).or_default().push(Interval { first: *first, last });
            }
        }
        let class = |ranges: Vec<Interval>| {
            let usual = usual.iter().copied().find(|value| ranges.iter().any(|one| holds(*one, *value)));
            let value = usual.unwrap_or_else(|| inner(&ranges));
            Class { value, values: ranges.into_iter().collect::<Intervals>().joined(), names: Vec::new() }
        };
        let mut classes: Vec<Class> = classes.into_values().map(class).collect();
        classes.sort_by_key(|class| (Reverse(size(&class.values)), class.value));
        classes
    }

    /// The classes of interfaces. The first one is that of interfaces which no rule names.
    pub(super) fn interfaces(&self, field: Field) -> Vec<Class> {
        let named: Vec<Interval> = self.sets(field).flat_map(|set| set.ranges().to_vec()).collect();
        let mut candidates: Vec<(String, String)> =
            UNNAMED.map(|name| (name.to_owned(), String::new())).into();
        for range in &named {
            let name = interface_name(range.first);
            if range.is_single() {
                candidates.push((name.clone(), name));
                continue;
            }
            // A name that the prefix covers, and no narrower one.
            let is_narrower =
                |other: &Interval| other != range && range.first <= other.first && other.last <= range.last;
            let is_others = |member: &String| {
                let value = interface_number(member);
                named.iter().any(|other| is_narrower(other) && holds(*other, value))
            };
            let mut members = ('0'..='9').chain('a'..='z').map(|end| format!("{name}{end}"));
            candidates
                .extend(members.find(|member| !is_others(member)).map(|member| (member, format!("{name}+"))));
        }
        candidates.retain(|(name, _)| name != LOOPBACK);
        let mut classes: Vec<(Vec<usize>, Class)> = Vec::new();
        let unnamed = self.answers(field, interface_number(UNNAMED[1]));
        for (name, label) in candidates {
            let value = interface_number(&name);
            let answers = self.answers(field, value);
            match classes.iter_mut().find(|(known, _)| *known == answers) {
                Some((_, class)) => class.names.push(label),
                None => classes
                    .push((answers, Class { value, values: Intervals::one(value), names: vec![label] })),
            }
        }
        for (_, class) in &mut classes {
            let mut seen = BTreeSet::new();
            class.names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
        }
        // Stable: the others keep their order.
        classes.sort_by_key(|(answers, _)| *answers != unnamed);
        classes.into_iter().map(|(_, class)| class).collect()
    }

    /// The classes of a mark, and whether these are all. The first one is that of 0, the others are those of values that
    /// conditions or policy rules name, of their combinations where the masks differ, and of one that none names. `field` is
    /// the mark's field for a mask.
    pub(super) fn marks(&self, field: fn(u32) -> Field, routed: &[Mark]) -> (Vec<Class>, bool) {
        let of_kind = |one: &Field| std::mem::discriminant(one) == std::mem::discriminant(&field(0));
        let masks: Vec<Field> = self.0.keys().copied().filter(of_kind).collect();
        let of_field = |field: &Field| {
            let mask = match field {
                Field::Mark(mask) | Field::Connmark(mask) => *mask,
                _ => 0,
            };
            let ranges = self.sets(*field).flat_map(|set| set.ranges().to_vec());
            let firsts = ranges.filter_map(|range| u32::try_from(range.first).ok());
            firsts.map(move |value| Mark { value, mask }).collect::<Vec<_>>()
        };
        let named: Vec<Mark> = masks.iter().flat_map(of_field).chain(routed.iter().copied()).collect();
        let mut candidates: BTreeSet<u32> = named.iter().map(|mark| mark.value).collect();
        let mut is_complete = true;
        if named.iter().any(|mark| mark.mask != named[0].mask) {
            candidates.insert(0);
            for Mark { value, mask } in &named {
                // Each mark so far, once with this value under the mask and once with another.
                let both = |mark: &u32| [*value, !*value].map(|bits| (mark & !mask) | (bits & mask));
                let joined: Vec<u32> = candidates.iter().flat_map(both).collect();
                is_complete = candidates.len() + joined.len() <= MAX_MARKS;
                if !is_complete {
                    break;
                }
                candidates.extend(joined);
            }
        }
        // With all bits, so that it differs from 0 by any mask.
        let unnamed = (0..=u32::MAX).rev().find(|mark| !candidates.contains(mark));
        let mut known: BTreeSet<Vec<Vec<usize>>> = BTreeSet::new();
        let mut classes = Vec::new();
        for mark in std::iter::once(0).chain(candidates).chain(unnamed) {
            let masked = |field: &Field| match field {
                Field::Mark(mask) | Field::Connmark(mask) => self.answers(*field, (mark & mask).into()),
                _ => Vec::new(),
            };
            let is_routed = vec![usize::from(routed.iter().any(|one| one.covers(mark)))];
            if known.insert(masks.iter().map(masked).chain([is_routed]).collect()) {
                let value = mark.into();
                classes.push(Class { value, values: Intervals::one(value), names: Vec::new() });
            }
        }
        (classes, is_complete)
    }

    /// Whether a rule asks for any connection mark.
    pub(super) fn asks_connmark(&self) -> bool {
        self.0.keys().any(|field| matches!(field, Field::Connmark(_)))
    }
}

/// Interfaces to try beside those that rules name: the usual one of a pod, and one that rules are unlikely to name.
const UNNAMED: [&str; 2] = ["eth0", "net-9"];

/// More marks than these are not tried.
const MAX_MARKS: usize = 4096;

/// The interface through which a machine calls itself.
pub(super) const LOOPBACK: &str = "lo";

/// The name that [`interface_number`] makes a number of.
pub(super) fn interface_name(number: u128) -> String {
    let bytes = number.to_be_bytes();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// The fields that a rule looks at, each with whether the values must differ.
type FieldSignature = Vec<(Option<Field>, bool)>;

/// A condition of a rule, paired with the same as a condition on one field; `None` where no field expresses it.
type PairedCondition<'a> = (Option<Cow<'a, FieldCondition>>, &'a ListedCondition);

/// Rules by what they ask beside one of their conditions, with the values of that one.
type JoinedRules<'a> = BTreeMap<Vec<&'a ListedCondition>, ((Field, Vec<Interval>), Vec<PairedCondition<'a>>)>;

fn joined<'a>(rules: &[Vec<PairedCondition<'a>>], index: usize) -> JoinedRules<'a> {
    let mut joined = JoinedRules::new();
    for paired in rules {
        let Some(known) = &paired[index].0 else { continue };
        let others: Vec<&PairedCondition<'a>> =
            paired.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, one)| one).collect();
        let key = others.iter().map(|(_, condition)| *condition).collect();
        let entry = joined
            .entry(key)
            .or_insert_with(|| ((known.field, Vec::new()), others.into_iter().cloned().collect()));
        entry.0.1.extend_from_slice(known.values.ranges());
    }
    joined
}

/// Whether a packet that meets the rule twice ends as if it met it once: neither it nor a chain that it calls changes a
/// packet and lets it go on.
fn is_repeatable(view: &View, rule: &ViewRule, callers: &mut Vec<usize>) -> bool {
    let keeps = match &rule.action {
        Action::Target(target) => {
            !matches!(target.disposition(), Disposition::Continues) || target.writes() == WriteSet::NOTHING
        }
        Action::Unknown(_) | Action::UnknownZone(_) => false,
        _ => true,
    };
    if !keeps || rule.acts_first() || rule.changes_packet() {
        return false;
    }
    let Some(chain) = rule.leads_to else { return true };
    if callers.contains(&chain) {
        return false;
    }
    callers.push(chain);
    let all = view.chains()[chain].rules.iter().all(|rule| is_repeatable(view, rule, callers));
    callers.pop();
    all
}

pub(super) fn holds(range: Interval, value: u128) -> bool {
    range.first <= value && value <= range.last
}

/// A value within the longest of the ranges: of a network, an address that a host may have.
fn inner(ranges: &[Interval]) -> u128 {
    let longest = ranges.iter().rev().max_by_key(|range| range.last - range.first);
    let Some(Interval { first, last }) = longest else { return 0 };
    if last - first > 1 << 7 { first + 1 } else { *first }
}

fn size(values: &Intervals) -> u128 {
    values.ranges().iter().fold(0u128, |sum, range| sum.saturating_add(range.last - range.first))
}
