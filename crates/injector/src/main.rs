//! Sidecar injector: a webhook for the API server, and offline commands.

mod api;
mod arguments;
mod authority;
mod check;
mod check_templates;
mod environment;
mod explain;
mod inject;
mod input;
mod lint;
mod logging;
mod manifests;
mod output;
mod serve;
mod sources;

use ::cluster::error::describe;
use arguments::{InjectorArguments, InjectorCommand, SECTIONS};
use command_line::program;
use output::fail;
use std::process::ExitCode;

/// A review allocates thousands of small JSON values, which takes musl's allocator longer than everything else. Huge pages are
/// off (`no_thp`), because they would double this small server's memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: InjectorArguments = match program::parse(std::env::args_os(), SECTIONS) {
        Ok(arguments) => arguments,
        Err(answered) => return answered,
    };
    let done = match arguments.command {
        InjectorCommand::Inject(flags) => inject::run(&flags),
        InjectorCommand::Serve(flags) => serve::run(&flags),
        InjectorCommand::Manifests(flags) => manifests::run(&flags),
        InjectorCommand::Check(flags) => check::run(&flags),
        InjectorCommand::Uninstall(flags) => manifests::uninstall(&flags),
        InjectorCommand::Explain(flags) => explain::run(&flags),
        InjectorCommand::Lint(flags) => lint::run(&flags),
        InjectorCommand::CheckTemplates(flags) => check_templates::run(&flags),
        InjectorCommand::Environment(flags) => environment::run(&flags),
    };
    done.unwrap_or_else(|error| {
        fail(describe(&*error));
        ExitCode::from(1)
    })
}
