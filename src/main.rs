//! The binary: parses, calls, maps to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar_init::cli::main()
}

/// musl's own allocator asks the kernel for every larger piece and gives it back at once, which takes longer
/// than everything else that a dry run does.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
