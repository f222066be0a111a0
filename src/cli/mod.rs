//! The command line: from arguments to an exit code.
//!
//! The environment is read here and nowhere else. Data goes to standard output, everything else to
//! standard error.

mod arguments;
mod host;
mod istio_iptables;
mod logging;
mod report;

use crate::config::{self, Problem, Problems, Raw, Setting};
use arguments::{Command, Invocation};
use host::System;
use std::process::ExitCode;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Done = 0,
    Failed = 1,
    /// Nothing was touched.
    BadInput = 2,
    /// The number that repair controllers look for.
    ValidationFailed = 126,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    match arguments::parse(std::env::args_os()) {
        Ok(invocation) => run(invocation).into(),
        Err(answered) => answered.into(),
    }
}

fn run(invocation: Invocation) -> Exit {
    let Invocation { command, flags, mut problems } = invocation;
    let raw = Raw::new(flags, |name| std::env::var(name).ok());
    problems.extend(enter_namespace(&raw));
    let resolved = match config::resolve(&raw, &System, problems) {
        Ok(resolved) => resolved,
        Err(problems) => return report::bad_input(&problems),
    };
    if let Err(problem) = logging::start(&resolved.logging, &resolved.run.mode) {
        return report::bad_input(&Problems(vec![problem]));
    }
    for warning in &resolved.warnings {
        tracing::warn!(target: "config", "{warning}");
    }
    match command {
        Command::IstioIptables => istio_iptables::run(&resolved),
    }
}

/// Enters the namespace that was asked for, before anything is asked of it. A preview whose facts are all
/// declared asks nothing, and so needs no right to enter.
fn enter_namespace(raw: &Raw) -> Option<Problem> {
    let given = raw.get(Setting::NetworkNamespace).filter(|given| !given.value.is_empty())?;
    if raw.is_on(Setting::DryRun) && raw.get(Setting::PodIps).is_some() {
        return None;
    }
    let error = crate::sys::namespace::enter(given.value.as_ref()).err()?;
    let form =
        "expected a network namespace such as /run/netns/NAME or /proc/PID/ns/net, and the right to enter it";
    Some(Problem::with_item(&given.source, &given.value, format!("can't be entered: {error}; {form}")))
}
