//! Pods are injected as they have to be: those of `tests/pods` one by one, and any others by what holds for all.

mod cases;
mod compared;
mod equal;
mod goldens;
#[path = "../support/kubectl.rs"]
mod kubectl;
mod laws;
mod rendered;
mod reviews;
#[path = "../support/rfc6902.rs"]
mod rfc6902;
