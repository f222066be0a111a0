//! Environments: the tag of a pod's environment, and the routes that keep a request among pods of one.
//!
//! Pods carry an environment in a label (`virtual-env: dev.red`), requests carry it in a header. [`tag`] tells a pod's proxy its
//! environment when the pod is created.

pub mod changes;
pub mod filter;
pub mod routes;
pub mod rule;
pub mod spec;
pub mod standing;
pub mod tag;
mod words;
pub mod world;
