//! The program as a whole, against a server that plays the API server and, for repair, a real network namespace.

mod certificates;
mod faults;
mod http;
mod lookup;
mod namespace;
#[path = "../../../tests/support/note.rs"]
mod note;
mod roles;
mod scene;
mod server;
mod treatments;
mod writes;
