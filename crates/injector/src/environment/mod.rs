//! `environment`: routes for tagged requests, offline and in a cluster.

mod inspect;
mod operator;
mod routes;

use crate::input::namespace;
use crate::output::{ObjectFormat, document, print};
use clap::{Args, Subcommand};
use injection::manifests::environment_definition;
use injection::syntax::is_domain;
pub(crate) use operator::HostFlags;
use std::{error::Error, process::ExitCode};

#[derive(Args)]
pub(crate) struct EnvironmentFlags {
    #[command(subcommand)]
    command: EnvironmentCommand,
}

#[derive(Subcommand)]
enum EnvironmentCommand {
    /// Print the routes of a manifest's Services and workloads
    Routes(routes::RoutesFlags),
    /// Print the custom resource definition of VirtualEnvironment
    Crd(CrdFlags),
    /// Keep the routes of namespaces in a cluster
    Operator(operator::OperatorFlags),
    /// Query a running operator
    Inspect(inspect::InspectFlags),
}

#[derive(Args)]
struct CrdFlags {
    /// Output format
    #[arg(long, value_enum, default_value_t = ObjectFormat::Yaml)]
    format: ObjectFormat,
}

pub(crate) fn run(flags: &EnvironmentFlags) -> Result<ExitCode, Box<dyn Error>> {
    match &flags.command {
        EnvironmentCommand::Routes(flags) => routes::run(flags),
        EnvironmentCommand::Operator(flags) => operator::run(flags),
        EnvironmentCommand::Inspect(flags) => inspect::run(flags),
        EnvironmentCommand::Crd(flags) => {
            let text = match flags.format {
                ObjectFormat::Yaml => document(&environment_definition()),
                ObjectFormat::Json => format!("{:#}\n", environment_definition()),
            };
            print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    let expected = "expected small letters, digits, - and ., with a letter or digit at both ends (RFC 1123)";
    if is_domain(text) { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}
