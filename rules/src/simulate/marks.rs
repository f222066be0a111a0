//! Sets of marks. Conditions test single bits, which ranges can't represent.

use crate::{Mark, field::Intervals};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marks {
    within: Mark,
    without: Vec<Mark>,
}

impl Marks {
    pub const fn any() -> Self {
        Self { within: Mark { value: 0, mask: 0 }, without: Vec::new() }
    }

    pub const fn one(mark: u32) -> Self {
        Self { within: Mark::whole(mark), without: Vec::new() }
    }

    pub const fn of(bits: Mark) -> Self {
        Self { within: bits, without: Vec::new() }
    }

    /// The only mark in the set, if its fixed bits allow no other.
    pub(super) fn single(&self) -> Option<u32> {
        self.within.is_whole().then_some(self.within.value)
    }

    pub fn within(&self) -> Mark {
        self.within
    }

    pub fn without(&self) -> &[Mark] {
        &self.without
    }

    pub fn contains(&self, mark: u32) -> bool {
        self.within.covers(mark) && !self.without.iter().any(|hole| hole.covers(mark))
    }

    /// True if all marks have these bits, false if none, `None` if only some.
    pub(super) fn have(&self, bits: Mark) -> Option<bool> {
        let Some(both) = common(self.within, bits) else { return Some(false) };
        if both.mask == self.within.mask {
            return Some(true);
        }
        if self.without.is_empty() {
            return None;
        }
        if sample(both, &self.without).is_none() {
            return Some(false);
        }
        let holes = [&self.without[..], &[both]].concat();
        sample(self.within, &holes).is_none().then_some(true)
    }

    pub(super) fn narrow(&mut self, bits: Mark, keeps: bool) {
        match common(self.within, bits) {
            Some(both) if keeps => {
                self.within = both;
                self.without.retain(|hole| common(*hole, both).is_some());
            }
            Some(both) => self.without.push(both),
            None if keeps => self.without.push(self.within),
            None => {}
        }
    }

    pub fn common(&self, other: &Self) -> Option<Self> {
        let mut both = self.clone();
        both.narrow(other.within, true);
        other.without.iter().for_each(|hole| both.narrow(*hole, false));
        both.sample().map(|_| both)
    }

    /// Marks outside the other set, as sets that are disjoint if `other`'s holes are.
    pub fn minus(&self, other: &Self) -> Vec<Self> {
        let mut outside = self.clone();
        outside.narrow(other.within, false);
        let holes = other.without.iter().filter_map(|hole| common(other.within, *hole));
        let holes = holes.filter_map(|hole| self.common(&Self::of(hole)));
        holes.chain([outside]).filter(|marks| marks.sample().is_some()).collect()
    }

    /// The same marks in fewer sets: merges a set that fills another's hole.
    pub fn joined(mut sets: Vec<Self>) -> Vec<Self> {
        while let Some((of, by)) = (0..sets.len()).find_map(|of| {
            let fills = |one: &Self| one.without.is_empty() && sets[of].without.contains(&one.within);
            sets.iter().position(fills).map(|by| (of, by))
        }) {
            let filled = sets[by].within;
            sets[of].without.retain(|hole| *hole != filled);
            sets.remove(by);
        }
        sets
    }

    /// A mark of the set; 0 if included.
    pub fn sample(&self) -> Option<u32> {
        if self.contains(0) {
            return Some(0);
        }
        sample(self.within, &self.without)
    }
}

fn common(one: Mark, other: Mark) -> Option<Mark> {
    let differ = (one.value ^ other.value) & one.mask & other.mask;
    (differ == 0).then_some(Mark { value: one.value | other.value, mask: one.mask | other.mask })
}

fn sample(bits: Mark, others: &[Mark]) -> Option<u32> {
    let meeting: Vec<Mark> = others.iter().filter_map(|other| common(bits, *other)).collect();
    let Some(divided) =
        meeting.iter().map(|hole| hole.mask & !bits.mask).max_by_key(|free| free.count_zeros())
    else {
        return Some(bits.value);
    };
    if divided == 0 {
        return None;
    }
    let bit = 1 << divided.trailing_zeros();
    // Zero first: typical marks have few bits.
    [0, bit]
        .into_iter()
        .find_map(|value| sample(Mark { value: bits.value | value, mask: bits.mask | bit }, &meeting))
}

pub(super) fn bits_of(values: &Intervals, mask: u32) -> Vec<Mark> {
    let number = |number: u128| u32::try_from(number).unwrap_or(u32::MAX);
    let ranges = values.ranges().iter();
    ranges.flat_map(|range| prefixes(number(range.first), number(range.last), mask)).collect()
}

fn prefixes(first: u32, last: u32, mask: u32) -> Vec<Mark> {
    let mut found = Vec::new();
    let mut next = Some(first);
    while let Some(first) = next.filter(|first| *first <= last) {
        let low = |free: u32| u32::MAX.checked_shr(u32::BITS - free).unwrap_or_default();
        let mut free = first.trailing_zeros();
        while first | low(free) > last {
            free -= 1;
        }
        let fixed = !low(free);
        // Bits outside of the mask are 0.
        if first & fixed & !mask == 0 {
            found.push(Mark { value: first & fixed & mask, mask: fixed & mask });
        }
        next = (first | low(free)).checked_add(1);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits() -> impl Strategy<Value = Mark> {
        (0u32..8, 0u32..8).prop_map(|(value, mask)| Mark { value: value & mask, mask })
    }

    proptest! {
        #[test]
        fn sets_of_marks_agree_with_plain_sets(
            conditions in proptest::collection::vec((bits(), any::<bool>()), 0..6),
            asked in bits(),
        ) {
            let (mut marks, mut plain) = (Marks::any(), (0u32..8).collect::<Vec<u32>>());
            marks.narrow(Mark { value: 0, mask: !7 }, true);
            for (bits, keeps) in conditions {
                marks.narrow(bits, keeps);
                plain.retain(|mark| bits.covers(*mark) == keeps);
            }
            prop_assert_eq!(marks.sample().is_none(), plain.is_empty());
            prop_assert!(marks.sample().is_none_or(|mark| plain.contains(&mark)));
            prop_assert!((0..8).all(|mark| marks.contains(mark) == plain.contains(&mark)));
            let (mut all, mut other) = (Marks::any(), Marks::any());
            all.narrow(Mark { value: 0, mask: !7 }, true);
            other.narrow(asked, true);
            for (one, other) in [(&all, &marks), (&marks, &other), (&other, &marks)] {
                let left = one.minus(other);
                let is_left = |mark: &u32| left.iter().any(|marks| marks.contains(*mark));
                let is_common = |mark: &u32| one.common(other).is_some_and(|marks| marks.contains(*mark));
                for mark in (0..8).filter(|mark| one.contains(*mark)) {
                    prop_assert!(is_left(&mark) != other.contains(mark) && is_common(&mark) == other.contains(mark));
                }
            }
            if !plain.is_empty() {
                let expected = match plain.iter().filter(|mark| asked.covers(**mark)).count() {
                    0 => Some(false),
                    all if all == plain.len() => Some(true),
                    _ => None,
                };
                prop_assert_eq!(marks.have(asked), expected);
            }
        }

        #[test]
        fn a_range_of_marks_is_some_prefixes(first in 0u32..70, more in 0u32..70, mask in 0u32..128, mark in 0u32..128) {
            let prefixes = prefixes(first, first + more, mask);
            let holds = (first..=first + more).contains(&(mark & mask));
            prop_assert_eq!(prefixes.iter().any(|bits| bits.covers(mark)), holds);
        }
    }
}
