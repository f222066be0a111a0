//! `kubectl capture`: examines a pod's traffic capture from the user's machine.
//!
//! It runs the user's kubectl, so contexts, credentials and proxies are kubectl's. Verdicts from the manifest are computed here.
//! Verdicts from the pod's kernel come from `sidecar-init`, which runs in the cluster.

mod answers;
mod arguments;
mod explain;
mod failure;
mod kernel;
mod kubectl;
mod lint;
mod pod;
mod service;

use arguments::{CaptureArguments, CaptureCommand, SECTIONS};
use command_line::{output::fail, program};
use failure::CaptureFailure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let CaptureArguments { command } = match program::parse(std::env::args_os(), SECTIONS) {
        Ok(arguments) => arguments,
        Err(answered) => return answered,
    };
    let ended = match command {
        CaptureCommand::Explain(arguments) => explain::run(&arguments),
        CaptureCommand::Status(arguments) => answers::status(&arguments),
        CaptureCommand::Trace(arguments) => answers::trace(&arguments),
        CaptureCommand::Diff(arguments) => answers::diff(&arguments),
        CaptureCommand::Lint(arguments) => lint::run(&arguments),
    };
    ended.unwrap_or_else(|error| {
        fail(&error);
        let is_input = matches!(error, CaptureFailure::Input(_));
        if is_input { ExitCode::from(program::BAD_INPUT) } else { ExitCode::FAILURE }
    })
}
