//! Changes of a network namespace: from the desired and the live rules to steps, and from steps to a state that is either
//! the new one or the old one.
//!
//! Every front end calls the same functions, on any [`crate::backend::Backend`]. They decide which backend takes the
//! rules, refuse drift if requested, start again when another program's change comes between, roll back and
//! forget stale flows. They hold no state between calls and print nothing: a plan comes before, a summary after.

mod apply;
mod bridge;
mod commit;
mod compare;
mod finding;
mod foreign;
mod probe;
mod provenance;
mod rule_index;
mod session;
mod snat;
mod status;
mod steps;
mod support;

pub use apply::{ApplyPlan, EngineError, OnDrift, Options, Summary, apply, check, clean, plan, plan_clean};
pub use commit::{Aftermath, CommitFailure};
pub use compare::{DesiredState, Differences, LiveComparison, compare, compare_desired};
pub use foreign::{PrecedingRule, preceding_rules};
pub use probe::{
    ConnectionOutcome, DeliveryPorts, NoResult, Outcomes, Probe, ProbeEvidence, ProbeObservation, ProbeTrial,
    probe,
};
pub use provenance::{Maker, doubtful, other_captures, predecessors, remedy_of};
pub use rule_index::{RuleIndex, live};
pub use session::{Choice, Preference, Session};
pub use snat::{SnatChange, SnatSummary, change_snat, remove_snat};
pub use status::{EngineStatus, OwnRules, status};
pub use steps::steps;
pub use support::support;
