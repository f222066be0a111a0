//! The command line: from arguments to an exit code.
//!
//! The environment is read here and nowhere else. Data goes to standard output, everything else to
//! standard error.

mod arguments;
mod change;
mod check;
mod command;
mod doctor;
mod explain;
mod host;
mod istio_iptables;
mod lint;
mod logging;
mod options;
mod packet;
mod render;
mod report;
mod target;
mod trace;

use crate::{
    config::{self, Logging, Mode, Problem, Problems, Raw, Resolved, Setting},
    lint::{Finding, Level, lint},
};
use arguments::Invocation;
use command::Command;
use host::System;
use std::process::ExitCode;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Done = 0,
    Failed = 1,
    /// Nothing was touched.
    BadInput = 2,
    /// The rules are not as wanted.
    Drift = 3,
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
    let Invocation { command, flags, options, mut problems } = invocation;
    let raw = Raw::new(flags, command.entry().takes, |name| std::env::var_os(name));
    problems.extend(enter_namespace(&raw));
    let done = match command {
        Command::Clean => clean(&raw, problems),
        Command::Doctor => doctor(&raw, problems),
        Command::Explain => explain::run(&raw, &options, problems),
        Command::Render => render::run(&raw, &options, &System, problems),
        Command::Lint => lint::run(&raw, &options, &System, problems),
        Command::Trace => trace::run(&raw, &options, problems),
        Command::Apply => with_capture(&raw, problems, |resolved| {
            warn(&raw, resolved);
            change::apply(resolved)
        }),
        Command::Check => with_capture(&raw, problems, check::run),
        Command::IstioIptables => with_capture(&raw, problems, istio_iptables::run),
    };
    done.unwrap_or_else(|problems| report::bad_input(&problems))
}

/// Runs a command that needs to know what to capture.
fn with_capture(
    raw: &Raw,
    problems: Vec<Problem>,
    run: impl FnOnce(&Resolved) -> Exit,
) -> Result<Exit, Problems> {
    let resolved = config::resolve(raw, &System, problems)?;
    begin(&resolved)?;
    Ok(run(&resolved))
}

/// Tells what is most probably not what was meant, before it takes effect.
fn warn(raw: &Raw, resolved: &Resolved) {
    for finding in lint(raw, resolved).into_iter().filter(|finding| finding.level == Level::Warning) {
        let Finding { option, text, remedy, .. } = finding;
        tracing::warn!(target: "lint", "{option}: {text}; {remedy}");
    }
}

fn clean(raw: &Raw, problems: Vec<Problem>) -> Result<Exit, Problems> {
    let (run, logging) = config::resolve_run(raw, problems)?;
    start_logging(&logging, run.mode)?;
    Ok(change::clean(&run))
}

fn doctor(raw: &Raw, problems: Vec<Problem>) -> Result<Exit, Problems> {
    let (run, logging) = config::resolve_run(raw, problems)?;
    start_logging(&logging, run.mode)?;
    Ok(doctor::run(&run, &config::resolve(raw, &System, Vec::new())))
}

/// Starts logging, and tells first what is odd about the input.
fn begin(resolved: &Resolved) -> Result<(), Problems> {
    start_logging(&resolved.logging, resolved.run.mode)?;
    for warning in &resolved.warnings {
        tracing::warn!(target: "config", "{warning}");
    }
    Ok(())
}

fn start_logging(logging: &Logging, mode: Mode) -> Result<(), Problems> {
    logging::start(logging, mode).map_err(|problem| Problems(vec![problem]))
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
