//! The rules of a chain that end the walk of matching packets, found by the conditions of a later rule.
//!
//! A list of thousands of networks makes thousands of rules of few shapes. So a rule is not compared with each one
//! before it: for every shape, its conditions give the keys of rules that are more general. A network, a port
//! and the name of an interface are all blocks of numbers that share their first bits; such a block is found by these bits,
//! and one other condition of a shape by its range.

use super::Work;
use crate::ChainName;
use crate::field::{Condition, Field, Interval, Intervals};
use std::collections::{BTreeMap, HashMap};

/// One condition of a rule, and how often its field had been written before.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct ConditionKey {
    pub(super) condition: Condition,
    pub(super) time: usize,
}

/// What of a condition is part of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyPart {
    /// A block of numbers, which share all but so many low bits.
    Block(u32),
    /// Nothing: its range is looked for under the key.
    Range,
    Whole,
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Block(u128, usize),
    Range(usize),
    Whole(Intervals, usize),
}

/// The conditions of a shape: their fields, whether they are negated, and what of them is part of the key.
type Parts = Vec<(Field, bool, KeyPart)>;

/// Of the rules under one key, the ranges that lie in no other's, with the place of their rule. Rules whose key says all
/// have every number.
#[derive(Default)]
struct Ranges(BTreeMap<u128, (u128, usize)>);

const EVERY: Interval = Interval { first: 0, last: u128::MAX };

struct Shape {
    /// The chain that ends the walk; `None` if the rule does.
    ends_in: Option<ChainName>,
    parts: Parts,
    rules: HashMap<Vec<Key>, Ranges>,
}

#[derive(Default)]
pub(super) struct Index(Vec<Shape>);

impl Index {
    /// Adds the rule at this place of its chain, which ends a walk by itself or where that chain does.
    pub(super) fn add(&mut self, ends_in: Option<&ChainName>, conditions: &[ConditionKey], place: usize) {
        self.put(ends_in, conditions, place);
        // A condition on one range of a list implies that on the list.
        let is_list = |condition_key: &ConditionKey| {
            !condition_key.condition.negated && condition_key.condition.values.ranges().len() > 1
        };
        let Some(at) = conditions.iter().position(is_list) else { return };
        let mut single = conditions.to_vec();
        for range in conditions[at].condition.values.ranges() {
            single[at].condition.values = [*range].into_iter().collect();
            self.put(ends_in, &single, place);
        }
    }

    fn put(&mut self, ends_in: Option<&ChainName>, conditions: &[ConditionKey], place: usize) {
        let mut parts: Parts = Vec::with_capacity(conditions.len());
        let mut range = EVERY;
        for ConditionKey { condition, .. } in conditions {
            let has_range = parts.iter().any(|(.., part)| *part == KeyPart::Range);
            let part = match (single(condition), has_range) {
                (Some(values), _) if free_bits(values).is_some() => {
                    free_bits(values).map_or(KeyPart::Whole, KeyPart::Block)
                }
                (Some(values), false) => {
                    range = values;
                    KeyPart::Range
                }
                (Some(_), true) | (None, _) => KeyPart::Whole,
            };
            parts.push((condition.field, condition.negated, part));
        }
        let key = parts
            .iter()
            .zip(conditions)
            .map(|((.., part), condition_key)| key(*part, condition_key))
            .collect();
        let is_known = |shape: &Shape| shape.ends_in.as_ref() == ends_in && shape.parts == parts;
        let at = self.0.iter().position(is_known).unwrap_or_else(|| {
            self.0.push(Shape { ends_in: ends_in.cloned(), parts, rules: HashMap::new() });
            self.0.len() - 1
        });
        self.0[at].rules.entry(key).or_default().add(range, place);
    }

    /// The place of a rule that whatever fulfils these conditions fulfils, of those that surely end a walk.
    pub(super) fn subsumes(
        &self,
        conditions: &[ConditionKey],
        mut ends: impl FnMut(&Option<ChainName>, &mut Work) -> bool,
        work: &mut Work,
    ) -> Option<usize> {
        let mut answers: Vec<(&Option<ChainName>, bool)> = Vec::new();
        for shape in &self.0 {
            work.spend(1)?;
            let Some((keys, range)) = keys(&shape.parts, conditions) else { continue };
            work.spend(keys.len())?;
            let found = keys.iter().find_map(|key| shape.rules.get(key)?.covering(range));
            let Some(place) = found else { continue };
            let known = answers.iter().find(|(chain, _)| **chain == shape.ends_in).map(|(_, answer)| *answer);
            if known.unwrap_or_else(|| ends(&shape.ends_in, work)) {
                return Some(place);
            }
            answers.push((&shape.ends_in, false));
        }
        None
    }
}

impl Ranges {
    fn add(&mut self, range: Interval, place: usize) {
        if self.covering(range).is_some() {
            return;
        }
        while let Some((&first, _)) =
            self.0.range(range.first..).next().filter(|(_, (last, _))| *last <= range.last)
        {
            self.0.remove(&first);
        }
        self.0.insert(range.first, (range.last, place));
    }

    /// None lies in another, so of those that start in time the last one ends last.
    fn covering(&self, range: Interval) -> Option<usize> {
        let (_, (last, place)) = self.0.range(..=range.first).next_back()?;
        (range.last <= *last).then_some(*place)
    }
}

/// The keys under which a shape keeps rules that ask for less than these conditions, and the range to look for under them.
fn keys(parts: &Parts, conditions: &[ConditionKey]) -> Option<(Vec<Vec<Key>>, Interval)> {
    let mut keys: Vec<Vec<&ConditionKey>> = vec![Vec::new()];
    let mut range = EVERY;
    for (field, negated, part) in parts {
        let fits = |condition_key: &&ConditionKey| {
            (condition_key.condition.field, condition_key.condition.negated) == (*field, *negated)
                && offers(*part, &condition_key.condition)
        };
        let fitting: Vec<&ConditionKey> = conditions.iter().filter(fits).collect();
        if *part == KeyPart::Range {
            range = fitting.first().and_then(|condition_key| single(&condition_key.condition))?;
        }
        let longer = |before: &Vec<_>| fitting.iter().map(|more| [&before[..], &[*more]].concat()).collect();
        keys = keys.iter().flat_map::<Vec<_>, _>(longer).collect();
        if keys.is_empty() {
            return None;
        }
    }
    let whole = |chosen: &Vec<&ConditionKey>| {
        parts.iter().zip(chosen).map(|((.., part), condition_key)| key(*part, condition_key)).collect()
    };
    Some((keys.iter().map(whole).collect(), range))
}

fn key(part: KeyPart, ConditionKey { condition, time }: &ConditionKey) -> Key {
    let first = condition.values.ranges().first().map_or(0, |range| range.first);
    match part {
        KeyPart::Block(free) => Key::Block(first.checked_shr(free).unwrap_or(0), *time),
        KeyPart::Range => Key::Range(*time),
        KeyPart::Whole => Key::Whole(condition.values.clone(), *time),
    }
}

/// Whether a condition can be widened to this part.
fn offers(part: KeyPart, condition: &Condition) -> bool {
    let block = |free: u32, number: u128| number.checked_shr(free).unwrap_or(0);
    match part {
        KeyPart::Block(free) => {
            single(condition).is_some_and(|values| block(free, values.first) == block(free, values.last))
        }
        KeyPart::Range => single(condition).is_some(),
        KeyPart::Whole => true,
    }
}

/// The range that its field must lie in, if that is one.
fn single(condition: &Condition) -> Option<Interval> {
    condition.values.single().filter(|_| !condition.negated)
}

/// How many bits are free in a range of all numbers with the same first bits.
fn free_bits(range: Interval) -> Option<u32> {
    range.prefix_length(128).map(|bits| 128 - u32::from(bits))
}
