//! The scope of tests: a sample that changes daily, or with `TEST_ALL=1`, which `scripts/test --all` sets, everything.
//!
//! A test that only runs with everything, such as one that needs a container runtime, is `#[ignore]`d with its reason instead.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// True if everything is tried.
pub fn all() -> bool {
    env::var_os("TEST_ALL").is_some_and(|value| value == "1")
}

/// The number that chooses samples: `TEST_SEED`, or that of today, in days since 1970.
pub fn seed() -> u64 {
    match env::var("TEST_SEED") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("TEST_SEED={text:?} is not a number")),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() / DAY,
    }
}

pub fn runs<T>(all_runs: T, sample: T) -> T {
    if all() { all_runs } else { sample }
}

/// All items, or about `count` at equal distances, another group each day: after as many days as there are groups, each item
/// was in one. A sample of a sorted table contains something of each part.
pub fn of<T>(items: Vec<T>, count: usize) -> Vec<T> {
    let groups = items.len().div_ceil(count.max(1)).max(1);
    if all() || groups == 1 {
        return items;
    }
    let group = usize::try_from(seed() % groups as u64).expect("an index");
    eprintln!("the sample of TEST_SEED={}; TEST_ALL=1 tries everything", seed());
    items.into_iter().skip(group).step_by(groups).collect()
}
