//! The engine of `sidecar-init`: reads and changes the capture rules in one network namespace. Callers pass the desired rules, in
//! the vocabulary of the crate `rules`, and their owner. The engine contains no mesh, flag or file format, and prints nothing.
//! Above it, [`observe`] reports captures in a namespace and on a whole node.

#![forbid(unsafe_code)]

pub mod backend;
pub mod engine;
pub mod observe;

pub use sys;
