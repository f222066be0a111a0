//! Packets as they meet rules: reports of the kernel, for people and programs, packet by packet.

mod block;
mod outcome;
mod walks;

pub use block::{Block, DestinationFilter, Filter, MetRule, utc};
pub use outcome::{Rules, of_reports, of_walk, reports_anything};
pub use walks::{Groups, TraceChains, Walk, Walks};

use mesh::RuleReason;

/// The options that make rules of this name; none for what is always there, and for names that are not ours.
fn options(rule: &str) -> Vec<String> {
    let settings = RuleReason::named(rule).map(RuleReason::settings).unwrap_or_default();
    settings.iter().map(|setting| setting.row().option()).collect()
}

/// `NF_INET_*`.
fn hook(number: u8) -> &'static str {
    ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"].get(usize::from(number)).unwrap_or(&"?")
}
