//! Pictures of traffic: colours for any vision, and the documentation's pictures against their commands. `crates/diagnose` tests
//! their agreement with the simulator.

mod colours;
mod goldens;
