//! Common parts of the programs that speak to a Kubernetes API server: access, watches that survive its failures, leader
//! election, status pages for a kubelet and Prometheus, listening, limits of connections, log lines, termination.
//!
//! It knows no mesh and no rules, and reads no flag.

#![forbid(unsafe_code)]

pub mod access;
pub mod error;
pub mod lease;
pub mod listen;
pub mod logging;
mod renewal;
pub mod slots;
pub mod status;
pub mod store;
pub mod termination;
pub mod watch;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;

/// Delays after failures, without end: twice as long after each further one, up to a limit. With `jitter`, each is extended by
/// chance, up to its double, so that programs which have seen the same failure do not all try again at the same moment.
pub fn backoff(first: Duration, max: Duration, jitter: bool) -> ExponentialBackoff {
    let delays = ExponentialBuilder::new().with_min_delay(first).with_max_delay(max).without_max_times();
    if jitter { delays.with_jitter().build() } else { delays.build() }
}
