//! Puts what a service mesh needs into pods: the init container that sets capture rules, and the proxy.
//!
//! Pure so far: which pods are injected and by which webhook, what a webhook's path says, and how the pod of a template
//! merges with the pod of a user. It speaks to nobody.
#![forbid(unsafe_code)]

pub mod decision;
pub mod merge;
pub mod path;
pub mod webhook;
