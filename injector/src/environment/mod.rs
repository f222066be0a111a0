//! `environment`: routes for tagged requests, offline and in a cluster.

mod inspect;
mod manifests;
mod operator;
mod routes;

use crate::input::namespace;
use crate::output::{document, print};
use clap::{Args, Subcommand, ValueEnum};
use injection::environment::{crd, inventory};
use std::{error::Error, process::ExitCode};

#[derive(Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the routes of a manifest's Services and workloads
    Routes(routes::Flags),
    /// Print the custom resource definition of VirtualEnvironment
    Crd(CrdFlags),
    /// Keep the routes of namespaces in a cluster
    Operator(operator::Flags),
    /// Query a running operator
    Inspect(inspect::Flags),
}

#[derive(Args)]
struct CrdFlags {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Yaml)]
    format: Format,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Documents of YAML
    Yaml,
    /// A List of JSON, or the one object
    Json,
}

pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Box<dyn Error>> {
    match &flags.command {
        Command::Routes(flags) => routes::run(flags),
        Command::Operator(flags) => operator::run(flags),
        Command::Inspect(flags) => inspect::run(flags),
        Command::Crd(flags) => {
            let text = match flags.format {
                Format::Yaml => document(&crd::definition()),
                Format::Json => format!("{:#}\n", crd::definition()),
            };
            print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    let expected = "expected small letters, digits, - and ., with a letter or digit at both ends (RFC 1123)";
    if inventory::is_name(text) { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}
