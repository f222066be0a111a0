//! Pictures of traffic: all eyes can read them, and those of the documentation are what their commands print. That they agree with
//! the simulator is a property of `crates/diagnose`.

mod colours;
mod goldens;
