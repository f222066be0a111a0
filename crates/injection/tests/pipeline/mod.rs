//! Injections: those of `tests/pods` one by one, and properties of any others.

mod cases;
mod compared;
mod equal;
mod goldens;
mod laws;
mod rendered;
mod reviews;
