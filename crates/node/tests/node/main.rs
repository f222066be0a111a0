//! The program as a whole, against a server that plays the API server and, for repair, a real network namespace.

mod command_line;
mod faults;
mod lookup;
mod monitoring;
mod namespace;
#[path = "../../../../tests/support/note.rs"]
mod note;
mod overview;
mod roles;
mod scene;
mod seccomp;
mod treatments;
