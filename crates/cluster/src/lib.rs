//! Common parts of the programs that speak to a Kubernetes API server: access to it, watches that survive its failures,
//! leader election, the pages by which a kubelet and Prometheus see a program, and parts of their servers: listening,
//! limits of connections, termination signals.
//!
//! It knows no mesh and no rules, and reads no flag.

#![forbid(unsafe_code)]

pub mod access;
pub mod backoff;
pub mod error;
pub mod lease;
pub mod listen;
pub mod readiness;
mod renewal;
pub mod slots;
pub mod status;
pub mod store;
pub mod termination;
pub mod watch;
