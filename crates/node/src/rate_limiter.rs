//! At most so many repairs a minute.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

const WINDOW: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct RateLimiter {
    most: usize,
    taken: VecDeque<Instant>,
}

impl RateLimiter {
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
    fn no_minute_holds_more_than_the_rate() {
        let mut rate = RateLimiter::new(3);
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
