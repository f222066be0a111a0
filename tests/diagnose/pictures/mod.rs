//! Pictures of traffic: they say what the simulator says, they can be read by everybody, and those of the documentation
//! are what their commands print.

mod colours;
mod command;
mod goldens;
mod truth;
