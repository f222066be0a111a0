//! Turns desired and live rules into steps, and applies the steps or restores the old state, on any [`crate::backend::Backend`].
//! No state is held between calls, and nothing is printed.

mod apply;
mod compare;
mod probe;
mod provenance;
mod rule_index;
mod session;
mod status;
mod steps;
mod support;

pub use apply::{
    Aftermath, ApplyPlan, CommitFailure, EngineError, EngineResult, OnDrift, Options, Summary, apply, check,
    clean, plan, plan_clean,
};
pub use compare::{DesiredState, Differences, LiveComparison, compare, compare_desired};
pub use probe::{
    ConnectionOutcome, DeliveryPorts, NoResult, Outcomes, Probe, ProbeEvidence, ProbeObservation, ProbeTrial,
    probe,
};
pub use provenance::{Maker, doubtful, other_captures, preceding_rules, predecessors, remedy_of};
pub use rule_index::{RuleIndex, live};
pub use session::{Choice, Preference, Session};
pub use status::{EngineStatus, OwnRules, status};
pub use steps::steps;
pub use support::support;
