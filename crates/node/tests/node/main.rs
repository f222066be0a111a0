//! The program against a simulated API server and, for repair, a real network namespace.

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

use testkit::command_line::Program;

const PROGRAM: Program = Program { path: env!("CARGO_BIN_EXE_sidecar-node"), name: "sidecar-node" };
