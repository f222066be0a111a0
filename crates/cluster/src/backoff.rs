//! Delays after failures: twice as long after each further one, up to a limit.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    has_jitter: bool,
    failures: u32,
}

impl Backoff {
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, has_jitter: false, failures: 0 }
    }

    /// Chooses each delay at random between its half and its whole, so that programs which have seen the same failure do not
    /// all try again at the same moment.
    #[must_use]
    pub const fn with_jitter(mut self) -> Self {
        self.has_jitter = true;
        self
    }

    pub fn delay(&mut self) -> Duration {
        let delay = self.first.saturating_mul(1 << self.failures.min(16)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        if self.has_jitter { delay.mul_f64(0.5 + random() / 2.0) } else { delay }
    }

    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A number from 0 up to 1. Nothing secret depends on it, so the standard library's seeds of hash tables are enough.
pub fn random() -> f64 {
    let bits = RandomState::new().hash_one(0) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds")]
    let part = bits as f64 / (1_u64 << 53) as f64;
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const FIRST: Duration = Duration::from_secs(1);
    const MAX: Duration = Duration::from_secs(300);

    #[test]
    fn delays_double_up_to_the_limit() {
        let mut backoff = Backoff::new(FIRST, MAX);
        let seconds: Vec<u64> = (0..11).map(|_| backoff.delay().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        backoff.failures = u32::MAX;
        assert_eq!(backoff.delay(), MAX);
        backoff.reset();
        assert_eq!(backoff.delay(), FIRST);
    }

    #[test]
    fn jitter_takes_at_most_half_of_a_delay() {
        let mut waits = BTreeSet::new();
        for _ in 0..50 {
            let (mut plain, mut backoff) = (Backoff::new(FIRST, MAX), Backoff::new(FIRST, MAX).with_jitter());
            for _ in 0..12 {
                let (whole, wait) = (plain.delay(), backoff.delay());
                assert!(wait >= whole / 2 && wait <= whole, "{wait:?} of {whole:?}");
                waits.insert(wait);
            }
        }
        assert!(waits.len() > 100, "no jitter in {waits:?}");
    }
}
