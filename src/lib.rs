//! The engine of `sidecar-init`: reads and changes what captures traffic in one network namespace.
//! Callers pass the desired rules, in the vocabulary of the crate `rules`, and their owner. It knows no mesh, no flag and no
//! file format, and it prints nothing. Above it, [`observe`] reports what meshes capture in a namespace and in all of a node.

#![forbid(unsafe_code)]

pub mod backend;
pub mod engine;
pub mod observe;

pub use sys;
