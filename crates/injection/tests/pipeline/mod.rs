//! Injections of each pod in `tests/pods`, and properties of any injection.

mod cases;
mod compared;
mod equal;
mod goldens;
mod laws;
mod rendered;
mod reviews;
