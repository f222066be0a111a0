//! The binary: its front ends, which the library can't see.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}

/// musl's own allocator asks the kernel for every larger piece and gives it back at once, which takes longer
/// than everything else that a dry run does.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
