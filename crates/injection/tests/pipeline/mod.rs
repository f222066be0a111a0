//! Pods are injected as they have to be: those of `tests/pods` one by one, and any others by what holds for all.

mod cases;
mod compared;
mod equal;
mod goldens;
mod laws;
mod rendered;
mod reviews;
