//! Sets of numbers as ranges: ports, addresses, ids and even interface names are numbers of a fixed width to nf_tables. Adjacent
//! ranges stay separate until [`Intervals::joined`]: two adjacent name prefixes are not one prefix.

use std::hash::{Hash, Hasher};
use std::{cmp::Ordering, sync::Arc};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval {
    pub first: u128,
    /// Inclusive; not less than the first.
    pub last: u128,
}

impl Interval {
    pub const fn one(number: u128) -> Self {
        Self { first: number, last: number }
    }

    pub fn is_single(self) -> bool {
        self.first == self.last
    }

    /// Length of the prefix that covers exactly this range of `bits`-bit numbers, if there is one.
    pub fn prefix_length(self, bits: u8) -> Option<u8> {
        let free = u128::BITS - (self.first ^ self.last).leading_zeros();
        let host = 1u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        let is_whole = self.first & host == 0 && self.last & host == host;
        u8::try_from(free).ok().filter(|_| is_whole).and_then(|free| bits.checked_sub(free))
    }
}

/// Ascending, disjoint ranges. Copies share the ranges until one copy changes: rules and sets hold the same long lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intervals(Ranges);

/// A single range, the common case, needs no allocation; a list has several.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ranges {
    One(Interval),
    Several(Arc<Vec<Interval>>),
}

impl Intervals {
    pub const fn one(number: u128) -> Self {
        Self(Ranges::One(Interval::one(number)))
    }

    pub fn ranges(&self) -> &[Interval] {
        match &self.0 {
            Ranges::One(interval) => std::slice::from_ref(interval),
            Ranges::Several(intervals) => intervals,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ranges().is_empty()
    }

    pub fn numbers(&self) -> impl Iterator<Item = u128> {
        self.ranges().iter().flat_map(|interval| interval.first..=interval.last)
    }

    pub fn single(&self) -> Option<Interval> {
        match self.ranges() {
            [interval] => Some(*interval),
            _ => None,
        }
    }

    pub(crate) fn precedes(&self, other: &Self) -> bool {
        let ends = self.ranges().last().zip(other.ranges().first());
        ends.is_some_and(|(last, first)| last.last < first.first)
    }

    pub fn union(&mut self, other: &Self) {
        #[cfg(test)]
        steps::count(self.ranges().len() + other.ranges().len());
        let precedes = self.precedes(other);
        if let (Ranges::Several(own), true) = (&mut self.0, precedes) {
            Arc::make_mut(own).extend_from_slice(other.ranges());
        } else if self != other {
            *self = [self.ranges(), other.ranges()].concat().into_iter().collect();
        }
    }

    pub fn remove(&mut self, other: &Self) {
        let cuts = |range: Interval| {
            let at = other.ranges().partition_point(|o| o.last < range.first);
            other.ranges()[at..].iter().take_while(move |o| o.first <= range.last)
        };
        let left = |range: &Interval| {
            let mut first = Some(range.first);
            let mut left: Vec<Interval> = Vec::new();
            for cut in cuts(*range) {
                let before = first.filter(|first| *first < cut.first);
                left.extend(before.map(|first| Interval { first, last: cut.first - 1 }));
                first = cut.last.checked_add(1);
            }
            left.extend(
                first.filter(|first| *first <= range.last).map(|first| Interval { first, last: range.last }),
            );
            left
        };
        if let (Ranges::Several(own), Some(cut)) = (&mut self.0, other.single()) {
            let start = own.partition_point(|o| o.last < cut.first);
            let end = own.partition_point(|o| o.first <= cut.last);
            if start < end {
                let left: Vec<Interval> = own[start..end].iter().flat_map(left).collect();
                Arc::make_mut(own).splice(start..end, left);
                if let [only] = own[..] {
                    self.0 = Ranges::One(only);
                }
            }
        } else {
            *self = self.ranges().iter().flat_map(left).collect();
        }
    }

    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let (few, many) =
            if self.ranges().len() <= other.ranges().len() { (self, other) } else { (other, self) };
        let both = |range: &Interval| {
            let Interval { first, last } = *range;
            let at = many.ranges().partition_point(|o| o.last < first);
            let meeting = many.ranges()[at..].iter().take_while(move |o| o.first <= last);
            meeting.map(move |o| Interval { first: o.first.max(first), last: o.last.min(last) })
        };
        few.ranges().iter().flat_map(both).collect()
    }

    /// True if each range lies in a single range of `other`; ranges covered by several adjacent ones don't count.
    pub fn within(&self, other: &Self) -> bool {
        self.ranges().iter().all(|interval| {
            let at = other.ranges().partition_point(|o| o.last < interval.first);
            other.ranges().get(at).is_some_and(|o| o.first <= interval.first && interval.last <= o.last)
        })
    }

    pub fn meets(&self, other: &Self) -> bool {
        let (few, many) =
            if self.ranges().len() <= other.ranges().len() { (self, other) } else { (other, self) };
        few.ranges().iter().any(|interval| {
            let at = many.ranges().partition_point(|o| o.last < interval.first);
            many.ranges().get(at).is_some_and(|o| o.first <= interval.last)
        })
    }

    /// True if `other` has all numbers, false if none, `None` if only some.
    pub(crate) fn all_among(&self, other: &Self) -> Option<bool> {
        if self.meets(other) { self.within(other).then_some(true) } else { Some(false) }
    }

    #[must_use]
    pub fn joined(&self) -> Self {
        let touch = |before: &Interval, next: &Interval| before.last.checked_add(1) == Some(next.first);
        if !self.ranges().windows(2).any(|pair| touch(&pair[0], &pair[1])) {
            return self.clone();
        }
        let whole = |run: &[Interval]| Interval { first: run[0].first, last: run[run.len() - 1].last };
        Self::of(self.ranges().chunk_by(touch).map(whole).collect())
    }

    fn of(ranges: Vec<Interval>) -> Self {
        match ranges[..] {
            [interval] => Self(Ranges::One(interval)),
            _ => Self(Ranges::Several(Arc::new(ranges))),
        }
    }
}

impl From<Interval> for Intervals {
    fn from(interval: Interval) -> Self {
        Self(Ranges::One(interval))
    }
}

impl FromIterator<Interval> for Intervals {
    fn from_iter<I: IntoIterator<Item = Interval>>(intervals: I) -> Self {
        let mut intervals: Vec<Interval> = intervals.into_iter().collect();
        if !intervals.is_sorted() {
            // Unions consist of sorted runs, which the stable sort merges.
            intervals.sort();
        }
        intervals.dedup_by(|next, before| {
            let overlaps = next.first <= before.last;
            if overlaps {
                before.last = before.last.max(next.last);
            }
            overlaps
        });
        Self::of(intervals)
    }
}

impl Default for Intervals {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl Hash for Intervals {
    /// Hashes length and ends only: lists can be long, and rules are hashed often.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.ranges().len(), self.ranges().first(), self.ranges().last()).hash(state);
    }
}

impl PartialOrd for Intervals {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Intervals {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ranges().cmp(other.ranges())
    }
}

/// Counts steps, to test that effort is linear in list length.
#[cfg(test)]
pub(crate) mod steps {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<usize> = const { Cell::new(0) });

    pub(crate) fn count(more: usize) {
        STEPS.set(STEPS.get() + more);
    }

    pub(crate) fn of(work: impl FnOnce()) -> usize {
        let before = STEPS.get();
        work();
        STEPS.get() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn intervals() -> impl Strategy<Value = Vec<Interval>> {
        let interval = (0u128..40, 0u128..6).prop_map(|(first, more)| Interval { first, last: first + more });
        proptest::collection::vec(interval, 1..8)
    }

    fn plain(intervals: &[Interval]) -> BTreeSet<u128> {
        intervals.iter().flat_map(|interval| interval.first..=interval.last).collect()
    }

    proptest! {
        #[test]
        fn sets_contain_their_input(list in intervals()) {
            let set: Intervals = list.iter().copied().collect();
            prop_assert!(set.ranges().windows(2).all(|pair| pair[0].last < pair[1].first));
            prop_assert!(set.numbers().eq(plain(&list)));
            prop_assert!(set.joined().numbers().eq(plain(&list)));
            prop_assert!(set.joined().ranges().windows(2).all(|pair| pair[0].last + 1 < pair[1].first));
        }

        #[test]
        fn comparisons_agree_with_plain_sets(a in intervals(), b in intervals()) {
            let (set_a, set_b): (Intervals, Intervals) = (a.iter().copied().collect(), b.iter().copied().collect());
            prop_assert_eq!(set_a.meets(&set_b), !plain(&a).is_disjoint(&plain(&b)));
            prop_assert!(set_a.common(&set_b).numbers().eq(plain(&a).intersection(&plain(&b)).copied()));
            let mut rest = set_a.clone();
            rest.remove(&set_b);
            prop_assert!(rest.numbers().eq(plain(&a).difference(&plain(&b)).copied()));
            prop_assert_eq!(set_a.joined().within(&set_b.joined()), plain(&a).is_subset(&plain(&b)));
        }
    }
}
