//! What the programs share that speak to a Kubernetes API: how its server is reached, and how many clients of their own
//! they serve at once.
//!
//! It knows no mesh and no rules, and reads no flag.

#![forbid(unsafe_code)]

pub mod access;
mod renewal;
pub mod slots;
