//! Packet traces: the kernel's reports, per packet, as text and as JSON.

mod block;
mod outcome;
mod walks;

pub use block::{Block, DestinationFilter, Filter, MetRule, utc};
pub use outcome::{Rules, of_reports, of_walk, reports_anything};
pub use walks::{Groups, TraceChains, Walk, Walks};

use mesh::RuleReason;

/// Options that create rules of this name; none for unconditional rules and foreign names.
fn options(rule: &str) -> Vec<String> {
    let settings = RuleReason::named(rule).map(RuleReason::settings).unwrap_or_default();
    settings.iter().map(|setting| setting.row().option()).collect()
}

/// Name of a hook (`NF_INET_*`).
fn hook(number: u8) -> &'static str {
    ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"].get(usize::from(number)).unwrap_or(&"?")
}
