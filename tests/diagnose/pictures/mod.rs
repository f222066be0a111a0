//! Pictures of traffic: colours for any vision, and the documentation's pictures against their commands. Their agreement with the
//! simulator is a property of `crates/diagnose`.

mod colours;
mod goldens;
