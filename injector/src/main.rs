//! Puts what a service mesh needs into pods: as a webhook that the API server calls, or offline.

mod arguments;
mod authority;
mod check_templates;
mod environment;
mod explain;
mod inject;
mod input;
mod logging;
mod manifests;
mod output;
#[cfg(test)]
mod reference;
mod serve;
mod sources;

use arguments::{Arguments, Command, SECTIONS};
use command_line::program;
use output::{chain, fail};
use std::process::ExitCode;

/// A review is thousands of small pieces of JSON, and musl's allocator takes longer for them than all the rest. Without huge
/// pages (`no_thp`), which would double the memory of a server this small.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Arguments = match program::parse(std::env::args_os(), SECTIONS) {
        Ok(arguments) => arguments,
        Err(answered) => return answered,
    };
    let done = match arguments.command {
        Command::Inject(flags) => inject::run(&flags),
        Command::Serve(flags) => serve::run(&flags),
        Command::Manifests(flags) => manifests::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::CheckTemplates(flags) => check_templates::run(&flags),
        Command::Environment(flags) => environment::run(&flags),
    };
    done.unwrap_or_else(|error| {
        fail(chain(&*error));
        ExitCode::from(1)
    })
}
