//! What is done to a namespace: from a snapshot and what is wanted to steps, and from steps to a state
//! that is either the new one or the old one.

mod apply;
mod validate;

pub use apply::{Applied, Failure, Wanted, apply, choose};
pub use validate::{Unproven, Validate, validate};
