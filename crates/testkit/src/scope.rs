//! The scope of tests: a sample that changes daily, or everything with `TEST_ALL=1` (`scripts/test --all`). Tests that only run
//! in full, such as container runtime tests, are `#[ignore]`d with a reason instead.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

pub fn all() -> bool {
    env::var_os("TEST_ALL").is_some_and(|value| value == "1")
}

/// Number that selects samples: `TEST_SEED`, or the days since 1970.
pub fn seed() -> u64 {
    match env::var("TEST_SEED") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("TEST_SEED={text:?} is not a number")),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() / DAY,
    }
}

pub fn runs<T>(all_runs: T, sample: T) -> T {
    if all() { all_runs } else { sample }
}

/// All items, or about `count` at equal distances, a different group each day until each item has had its turn. A sample of a
/// sorted table has items from each part.
pub fn of<T>(items: Vec<T>, count: usize) -> Vec<T> {
    let groups = items.len().div_ceil(count.max(1)).max(1);
    if all() || groups == 1 {
        return items;
    }
    let group = usize::try_from(seed() % groups as u64).expect("an index");
    eprintln!("the sample of TEST_SEED={}; TEST_ALL=1 tries everything", seed());
    items.into_iter().skip(group).step_by(groups).collect()
}
