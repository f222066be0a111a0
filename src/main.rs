//! The binary: parses, calls, maps to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar_init::cli::main()
}
