//! Sessions of the program: files of `tests/sessions` with commands and their output.

use super::program::BINARY;
use testkit::command_line::Program;

pub(crate) const PROGRAM: Program = Program { path: BINARY, name: "sidecar-init" };

pub(crate) fn check(name: &str) {
    let root = env!("CARGO_MANIFEST_DIR");
    PROGRAM.sessions(format!("{root}/tests/sessions/{name}.txt"), &[("ROOT", root)]);
}
