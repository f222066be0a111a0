//! `environment`: routes for tagged requests, offline and in a cluster.

mod operator;
mod routes;

pub(crate) use operator::HostFlags;

use crate::output::{ObjectFormat, document, print};
use crate::{api::block_on, input::namespace};
use clap::{Args, Subcommand};
use cluster::error::describe;
use hyper::Request;
use injection::manifests::environment_definition;
use kube::{Client, Config};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::{error::Error, net::SocketAddr, process::ExitCode, time::Duration};

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
    /// Maintain the routes in a cluster
    Operator(operator::OperatorFlags),
    /// Query a running operator
    Inspect(InspectFlags),
}

#[derive(Args)]
struct CrdFlags {
    /// Output format
    #[arg(short, long, alias = "format", value_enum, value_name = "FORMAT", default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
}

pub(crate) fn run(flags: &EnvironmentFlags) -> Result<ExitCode, Box<dyn Error>> {
    match &flags.command {
        EnvironmentCommand::Routes(flags) => routes::run(flags),
        EnvironmentCommand::Operator(flags) => operator::run(flags),
        EnvironmentCommand::Inspect(flags) => inspect(flags),
        EnvironmentCommand::Crd(flags) => {
            let text = match flags.output {
                ObjectFormat::Yaml => document(&environment_definition()),
                ObjectFormat::Json => format!("{:#}\n", environment_definition()),
            };
            print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Args)]
struct InspectFlags {
    #[command(subcommand)]
    question: InspectCommand,
    /// The operator's status address
    #[arg(long, value_name = "ADDRESS", default_value = operator::ADDRESS, global = true)]
    address: SocketAddr,
}

#[derive(Subcommand)]
enum InspectCommand {
    /// Show the active VirtualEnvironment, Services and workload labels
    Status,
    /// Show the version
    Version,
    /// Show or set the log level
    Log {
        /// level=ERROR, level=INFO or level=DEBUG
        level: Option<String>,
    },
}

/// Queries the operator on the same machine.
fn inspect(flags: &InspectFlags) -> Result<ExitCode, Box<dyn Error>> {
    let path = match &flags.question {
        InspectCommand::Status => "/status".to_owned(),
        InspectCommand::Version => "/version".to_owned(),
        InspectCommand::Log { level: None } => "/log".to_owned(),
        InspectCommand::Log { level: Some(level) } => format!("/log?{}", utf8_percent_encode(level, ESCAPED)),
    };
    let address = flags.address;
    let (is_done, body) = block_on(ask(address, &path))?.map_err(|error| {
        format!(
            "--address {address}: no operator answers: {}; expected the operator's --status-address",
            describe(&error)
        )
    })?;
    print(&format!("{}\n", body.strip_suffix('\n').unwrap_or(&body)))?;
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Query characters that a request line can't contain.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'=').remove(b'&').remove(b'-').remove(b'.').remove(b'_');

/// Body of the answer, and true if the request succeeded.
async fn ask(address: SocketAddr, path: &str) -> kube::Result<(bool, String)> {
    let server = format!("http://{address}").parse().expect("an address is part of a URL");
    let mut config = Config::new(server);
    (config.connect_timeout, config.read_timeout) = (Some(TIMEOUT), Some(TIMEOUT));
    let request = Request::get(path).body(Vec::new()).expect("the path is encoded");
    match Client::try_from(config)?.request_text(request).await {
        Err(kube::Error::Api(refusal)) => Ok((false, refusal.message)),
        answer => answer.map(|body| (true, body)),
    }
}
