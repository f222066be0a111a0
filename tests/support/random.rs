//! Random choices, repeatable by a seed.

use fastrand::Rng;
use std::env;
use std::str::FromStr;

pub(crate) struct Random(Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Rng::with_seed(seed))
    }

    pub(crate) fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.0.usize(..items.len())]
    }

    /// True once in `times`, on average.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.0.u64(..times) == 0
    }
}

/// A number from the environment: a seed, or a number of cases.
pub(crate) fn number<T: FromStr>(variable: &str, default: T) -> T {
    match env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text:?} is not a number")),
        Err(_) => default,
    }
}
