//! The binary: its front ends, which the library can't see.

#![forbid(unsafe_code)]

mod cli;
mod cni;
mod events;

use std::process::ExitCode;

fn main() -> ExitCode {
    if cni::is_called() { cni::main() } else { cli::main() }
}

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
