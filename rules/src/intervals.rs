//! Sets of numbers, kept as ranges.
//!
//! Ports, addresses, ids and even interface names are numbers of a fixed width to nf_tables, so one type serves
//! them all. Ranges that overlap become one; ranges that merely touch stay apart until [`Intervals::joined`],
//! because two prefixes of names that touch are not one prefix.

use std::sync::Arc;

/// All numbers from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval {
    pub first: u128,
    /// The greatest number, not less than the first.
    pub last: u128,
}

impl Interval {
    pub const fn one(number: u128) -> Self {
        Self { first: number, last: number }
    }

    /// Whether it is a single number.
    pub fn is_single(self) -> bool {
        self.first == self.last
    }

    /// How many leading bits all its numbers share, counted in numbers of `bits` bits, if it holds every number
    /// with these leading bits.
    pub fn prefix_length(self, bits: u8) -> Option<u8> {
        let free = u128::BITS - (self.first ^ self.last).leading_zeros();
        let host = 1u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        let is_whole = self.first & host == 0 && self.last & host == host;
        u8::try_from(free).ok().filter(|_| is_whole).and_then(|free| bits.checked_sub(free))
    }
}

/// Ranges in ascending order that do not overlap. Copies share them until one changes: lists get long, and rules
/// and sets hold the same ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Intervals(Arc<Vec<Interval>>);

impl Intervals {
    /// The set of one number.
    pub fn one(number: u128) -> Self {
        Self(Arc::new(vec![Interval::one(number)]))
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[Interval] {
        &self.0
    }

    /// Every number, ascending. Only for sets whose ranges are known to be short.
    pub fn numbers(&self) -> impl Iterator<Item = u128> {
        self.0.iter().flat_map(|interval| interval.first..=interval.last)
    }

    /// The only range, if there is just one.
    pub fn single(&self) -> Option<Interval> {
        match self.0.as_slice() {
            [interval] => Some(*interval),
            _ => None,
        }
    }

    /// Adds all numbers of another set.
    pub fn union(&mut self, other: &Self) {
        #[cfg(test)]
        steps::count(self.ranges().len() + other.ranges().len());
        match (self.0.last(), other.0.first()) {
            // The usual case: rules are in the order of their lists.
            (Some(last), Some(first)) if last.last < first.first => {
                Arc::make_mut(&mut self.0).extend_from_slice(&other.0);
            }
            _ if self == other => {}
            _ => *self = [self.ranges(), other.ranges()].concat().into_iter().collect(),
        }
    }

    /// Whether each range lies in one of the other's. May deny it where only several of the other's ranges that
    /// touch cover a range; never claims it wrongly.
    pub fn within(&self, other: &Self) -> bool {
        self.0.iter().all(|interval| {
            let at = other.0.partition_point(|o| o.last < interval.first);
            other.0.get(at).is_some_and(|o| o.first <= interval.first && interval.last <= o.last)
        })
    }

    /// Whether the sets have a number in common.
    pub fn meets(&self, other: &Self) -> bool {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        few.0.iter().any(|interval| {
            let at = many.0.partition_point(|o| o.last < interval.first);
            many.0.get(at).is_some_and(|o| o.first <= interval.last)
        })
    }

    /// The same numbers in as few ranges as it takes.
    #[must_use]
    pub fn joined(&self) -> Self {
        let touch = |before: &Interval, next: &Interval| before.last.checked_add(1) == Some(next.first);
        if !self.0.windows(2).any(|pair| touch(&pair[0], &pair[1])) {
            return self.clone();
        }
        let whole = |run: &[Interval]| Interval { first: run[0].first, last: run[run.len() - 1].last };
        Self(Arc::new(self.0.chunk_by(touch).map(whole).collect()))
    }
}

impl FromIterator<Interval> for Intervals {
    fn from_iter<I: IntoIterator<Item = Interval>>(intervals: I) -> Self {
        let mut intervals: Vec<Interval> = intervals.into_iter().collect();
        if !intervals.is_sorted() {
            // Merges what is sorted in parts, as unions are.
            intervals.sort();
        }
        intervals.dedup_by(|next, before| {
            let overlaps = next.first <= before.last;
            if overlaps {
                before.last = before.last.max(next.last);
            }
            overlaps
        });
        Self(Arc::new(intervals))
    }
}

/// Counts work, for tests that it grows with the length of lists and not with its square.
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
        fn sets_hold_what_was_put_in(list in intervals()) {
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
            prop_assert_eq!(set_a.joined().within(&set_b.joined()), plain(&a).is_subset(&plain(&b)));
        }
    }
}
