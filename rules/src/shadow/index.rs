//! An index of the rules of a chain after which a matching packet does not go on to the next rule. A later rule's conditions
//! find one that is at least as general.
//!
//! A list of thousands of networks makes thousands of rules of few shapes. So a rule is not compared with each one
//! before it: for every shape, its conditions give the keys of rules that are more general. A network, a port
//! and the name of an interface are all blocks of numbers that share their first bits; such a block is found by these bits,
//! and one other condition of a shape by its range.

use super::Work;
use crate::ChainName;
use crate::field::{Condition, Field, Interval, Intervals};
use std::collections::{BTreeMap, HashMap};

/// One condition of a rule. Conditions on a field are comparable only if no rule between them may have changed it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct ConditionKey {
    pub(super) condition: Condition,
    /// How many rules before it in the chain may change the field.
    pub(super) writes_before: usize,
}

/// What of a condition is part of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyPart {
    /// The high bits that all numbers of the condition share; so many low bits are free.
    Block(u32),
    /// None of its numbers: the range is looked for among the [`Ranges`] under the key.
    Range,
    /// All of its numbers.
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

/// The ranges of the rules under one key, by their first number: the last number, and the place of the rule. A range within
/// another one is left out. Rules of a shape without [`KeyPart::Range`] have [`EVERY`] number.
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
    /// Adds the rule at this place of its chain. It ends the walk itself, or jumps to a chain that may end it.
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

    /// The place of a rule that matches every packet with these conditions, and surely ends its walk. `ends` returns whether
    /// a chain does.
    pub(super) fn find_subsuming(
        &self,
        conditions: &[ConditionKey],
        mut ends: impl FnMut(&Option<ChainName>, &mut Work) -> bool,
        work: &mut Work,
    ) -> Option<usize> {
        let mut rejected: Vec<&Option<ChainName>> = Vec::new();
        for shape in &self.0 {
            work.spend(1)?;
            let Some((keys, range)) = keys(&shape.parts, conditions) else { continue };
            work.spend(keys.len())?;
            let found = keys.iter().find_map(|key| shape.rules.get(key)?.covering(range));
            let Some(place) = found else { continue };
            if rejected.contains(&&shape.ends_in) {
                continue;
            }
            if ends(&shape.ends_in, work) {
                return Some(place);
            }
            rejected.push(&shape.ends_in);
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

    /// The place of a rule whose range covers this one. No range lies in another, so of those that do not start too late the
    /// last one also ends last.
    fn covering(&self, range: Interval) -> Option<usize> {
        let (_, (last, place)) = self.0.range(..=range.first).next_back()?;
        (range.last <= *last).then_some(*place)
    }
}

/// The keys under which a shape has rules that are at least as general as these conditions, and the range to look for there.
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

fn key(part: KeyPart, ConditionKey { condition, writes_before }: &ConditionKey) -> Key {
    let first = condition.values.ranges().first().map_or(0, |range| range.first);
    match part {
        KeyPart::Block(free) => Key::Block(first.checked_shr(free).unwrap_or(0), *writes_before),
        KeyPart::Range => Key::Range(*writes_before),
        KeyPart::Whole => Key::Whole(condition.values.clone(), *writes_before),
    }
}

/// Whether a rule with this part in its key may be at least as general as the condition.
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

/// The range that the condition requires, if it is a single one and not negated.
fn single(condition: &Condition) -> Option<Interval> {
    condition.values.single().filter(|_| !condition.negated)
}

/// How many low bits are free, if the range is all numbers with the same high bits.
fn free_bits(range: Interval) -> Option<u32> {
    range.prefix_length(128).map(|bits| 128 - u32::from(bits))
}
