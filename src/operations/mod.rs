//! What is done to a namespace: from a snapshot and what is wanted to steps, and from steps to a state
//! that is either the new one or the old one.

mod apply;
mod compare;
mod doctor;
mod flows;
mod validate;

pub use apply::{Aftermath, Applied, Failure, Wanted, apply, choose};
pub use compare::{Differences, compare};
pub use doctor::{Finding, Level, examine};
pub use flows::{StaleFlows, forget_stale_flows};
pub use validate::{Unproven, Validate, validate};
