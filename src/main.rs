//! The binary: its front ends, which the library can't see.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}

#[global_allocator]
static ALLOCATOR: sidecar_init::sys::allocator::Allocator = sidecar_init::sys::allocator::Allocator::new();
