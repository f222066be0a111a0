//! When to try: later and later after each failure, at no two nodes at the same time, and never too often.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

/// The first wait after a failure.
const FIRST: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST: Duration = Duration::from_secs(300);
/// What a rate counts.
const WINDOW: Duration = Duration::from_secs(60);
/// So many nodes see the same failure at the same time; their first calls are spread over this.
const SPREAD: Duration = Duration::from_millis(200);

/// How long to wait before the next try, after so many: twice as long each time, of which the last half by chance.
pub(crate) fn backoff(tries: u32) -> Duration {
    if tries == 0 {
        return SPREAD.mul_f64(chance());
    }
    let full = FIRST.saturating_mul(1 << (tries - 1).min(16)).min(LONGEST);
    full.mul_f64(0.5 + chance() / 2.0)
}

/// A number from 0 up to 1. Nothing secret depends on it, so the standard library's seeds of hash tables will do.
pub(crate) fn chance() -> f64 {
    let bits = RandomState::new().hash_one(0) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds")]
    let part = bits as f64 / (1_u64 << 53) as f64;
    part
}

/// At most so many a minute.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    most: usize,
    taken: VecDeque<Instant>,
}

impl Rate {
    /// `most` is at least 1.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: VecDeque::new() }
    }

    /// From when on the next one is allowed.
    pub(crate) fn next(&mut self, now: Instant) -> Instant {
        while self.taken.front().is_some_and(|taken| *taken + WINDOW <= now) {
            self.taken.pop_front();
        }
        match self.taken.front() {
            Some(first) if self.taken.len() >= self.most => *first + WINDOW,
            _ => now,
        }
    }

    /// One is done now.
    pub(crate) fn take(&mut self, now: Instant) {
        self.taken.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_within_bounds() {
        assert!(backoff(0) < SPREAD);
        for tries in 1..100 {
            let full = FIRST.saturating_mul(1 << (tries - 1).min(16)).min(LONGEST);
            let wait = backoff(tries);
            assert!(wait >= full / 2 && wait <= full, "{tries}: {wait:?}");
        }
        let waits: std::collections::BTreeSet<_> = (0..50).map(|_| backoff(5)).collect();
        assert!(waits.len() > 10, "no chance in {waits:?}");
    }

    #[test]
    fn no_minute_holds_more_than_the_rate() {
        let mut rate = Rate::new(3);
        let start = Instant::now();
        let mut now = start;
        let mut times = Vec::new();
        for _ in 0..10 {
            now = rate.next(now);
            rate.take(now);
            times.push(now);
            now += Duration::from_secs(1);
        }
        for window in times.windows(4) {
            assert!(window[3] - window[0] >= WINDOW, "{window:?}");
        }
        assert_eq!(times[2] - start, Duration::from_secs(2), "the first ones do not wait");
    }
}
