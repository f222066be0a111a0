//! The node program that accesses the API server. It uses the plugin's policy and engine, but is separate: an
//! asynchronous client and TLS are larger than the plugin itself.

mod arguments;
mod controller;
mod lookup;
mod metrics;
mod repair;
mod repair_queue;
mod repairer;
mod sandbox;

use arguments::{Lookup, NodeArguments, NodeCommand, Repair, SECTIONS};
use cluster::{error::describe, logging, status, termination::Termination};
use command_line::program;
use lookup::PodLookupError;
use metrics::NodeMetrics;
use prometheus_client::registry::Registry;
use std::io::{self, Write};
use std::{error::Error, process::ExitCode, sync::Arc};
use tokio::runtime::{self, Runtime};
use tokio::task::LocalSet;

const NO_SUCH_POD: u8 = 4;

fn main() -> ExitCode {
    let NodeArguments { command } = match program::parse(std::env::args_os(), SECTIONS) {
        Ok(arguments) => arguments,
        Err(answered) => return answered,
    };
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error, ExitCode::FAILURE),
    };
    match command {
        NodeCommand::Repair(repair) => {
            logging::start(true, repair.log_level, &[env!("CARGO_CRATE_NAME"), "sidecar_init"]);
            match LocalSet::new().block_on(&runtime, run(&repair)) {
                Ok(exit) => exit,
                Err(error) => failed(&*error, ExitCode::from(program::BAD_INPUT)),
            }
        }
        NodeCommand::Pod(lookup) => print_pod(&runtime, &lookup),
    }
}

fn failed(error: &(dyn Error + 'static), exit: ExitCode) -> ExitCode {
    tracing::error!(error = %describe(error), "nothing was changed");
    exit
}

/// Writes the pod to standard output, or the error to standard error: the plugin reads both.
fn print_pod(runtime: &Runtime, lookup: &Lookup) -> ExitCode {
    match runtime.block_on(lookup::pod(lookup)) {
        Ok(pod) => match io::stdout().write_all(pod.to_string().as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(unknown) => {
            // Standard error may be closed; the exit code is enough.
            let _ = writeln!(io::stderr(), "{}", describe(&unknown));
            match unknown {
                PodLookupError::Input(_) | PodLookupError::Name(_) => ExitCode::from(program::BAD_INPUT),
                PodLookupError::NoSuchPod(_) => ExitCode::from(NO_SUCH_POD),
                PodLookupError::Forbidden(_) | PodLookupError::TimeIsUp { .. } => ExitCode::FAILURE,
            }
        }
    }
}

async fn run(repair: &Repair) -> Result<ExitCode, Box<dyn Error>> {
    let mut registry = Registry::default();
    let metrics = NodeMetrics::new(&mut registry);
    let unlisted: Arc<str> = Arc::from("the node's pods are not listed yet");
    if let Some(address) = repair.metrics {
        status::serve_pages("--metrics", address, registry, Arc::downgrade(&unlisted))?;
    }
    let mut termination = Termination::new()?;
    Ok(controller::run(repair, &metrics, unlisted, termination.wait()).await?)
}
