//! The engine of `sidecar-init`: reads and changes what captures traffic in one network namespace.
//!
//! Typed in, typed out: callers pass the desired rules, in the vocabulary of the crate `rules`, and their owner. It knows no
//! mesh, no flag and no file format, and it prints nothing. [`engine`] decides, a [`backend`]
//! reads and commits, [`sys`] talks to the operating system. Above them, [`observe`] reports what meshes capture in a
//! namespace and in all of a node. Front ends are modules of the binary alone.

#![forbid(unsafe_code)]

pub mod backend;
pub mod engine;
pub mod observe;

pub use sys;
