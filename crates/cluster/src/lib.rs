//! Common parts of the programs that call a Kubernetes API server: access, watches, leader election, status pages for a kubelet
//! and Prometheus, listening, connection limits, logging, termination. Independent of meshes, rules and flags.

#![forbid(unsafe_code)]

pub mod access;
pub mod error;
pub mod lease;
pub mod listen;
pub mod logging;
mod renewal;
pub mod slots;
pub mod status;
pub mod termination;
pub mod watch;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;

/// Endless delays after failures, each twice the last, up to a limit. `jitter` extends each at random, at most doubling it, so
/// that programs that see the same failure do not retry at the same moment.
pub fn backoff(first: Duration, max: Duration, jitter: bool) -> ExponentialBackoff {
    let delays = ExponentialBuilder::new().with_min_delay(first).with_max_delay(max).without_max_times();
    if jitter { delays.with_jitter().build() } else { delays.build() }
}
