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
mod ipv6;
mod istio_iptables;
mod lint;
mod logging;
mod pflag;
mod render;
mod report;
mod run;
mod trace;

use arguments::Invocation;
use command::Command;
use host::System;
use logging::Stdout;
use policy::lint::{Finding, Level, brief};
use policy::sources::{Given, Raw};
use policy::{Problem, Problems, Setting};
use run::{Call, Logging, Mode, Run};
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
pub(crate) fn main() -> ExitCode {
    match arguments::parse(std::env::args_os()) {
        Ok(invocation) => call(invocation).into(),
        Err(answered) => answered.into(),
    }
}

fn call(invocation: Invocation) -> Exit {
    let Invocation { command, flags, mut problems } = invocation;
    let raw = Raw::new(flags, |row| command.entry().takes(row), |name| std::env::var_os(name));
    problems.extend(enter_namespace(&raw));
    let done = match command {
        Command::Clean => clean(&raw, problems),
        Command::Doctor => doctor(&raw, problems),
        Command::Explain => explain::run(&raw, problems),
        Command::Render => render::run(&raw, &System, problems),
        Command::Lint => lint::run(&raw, &System, problems),
        Command::Trace => trace::run(&raw, problems),
        Command::Apply => with_capture(&raw, problems, Run::stdout, |call| {
            warn(&raw, call);
            change::apply(call)
        }),
        Command::Check => with_capture(
            &raw,
            problems,
            |_| Stdout::Answer,
            |call| {
                warn_of(ipv6::uncaptured(&raw, &call.capture));
                check::run(call)
            },
        ),
        Command::IstioIptables => with_capture(&raw, problems, Run::stdout, istio_iptables::run),
    };
    done.unwrap_or_else(|problems| report::bad_input(&problems))
}

/// Runs a command that needs to know what to capture.
fn with_capture(
    raw: &Raw,
    problems: Vec<Problem>,
    stdout: fn(&Run) -> Stdout,
    run: impl FnOnce(&Call) -> Exit,
) -> Result<Exit, Problems> {
    let call = run::resolve(raw, &System, problems)?;
    begin(raw, &call, stdout(&call.run))?;
    Ok(run(&call))
}

/// Tells what is most probably not what was meant, before it takes effect. A preview asks nothing of the namespace.
fn warn(raw: &Raw, call: &Call) {
    warn_of(match call.run.mode {
        Mode::Preview(_) => brief(raw, &call.capture, &[]),
        _ => ipv6::lint(brief, raw, &call.capture),
    });
}

fn warn_of(findings: impl IntoIterator<Item = Finding>) {
    for finding in findings.into_iter().filter(|finding| finding.level == Level::Warning) {
        let Finding { option, text, remedy, .. } = finding;
        tracing::warn!(target: "lint", "{option}: {text}; {remedy}");
    }
}

fn clean(raw: &Raw, problems: Vec<Problem>) -> Result<Exit, Problems> {
    let (run, logging) = run::resolve_run(raw, problems)?;
    start_logging(raw, &logging, run.stdout())?;
    Ok(change::clean(&run))
}

fn doctor(raw: &Raw, problems: Vec<Problem>) -> Result<Exit, Problems> {
    let (run, logging) = run::resolve_run(raw, problems)?;
    start_logging(raw, &logging, Stdout::Answer)?;
    Ok(doctor::run(raw, &run, &run::resolve(raw, &System, Vec::new())))
}

/// Starts logging, and tells first what is odd about the input.
fn begin(raw: &Raw, call: &Call, stdout: Stdout) -> Result<(), Problems> {
    start_logging(raw, &call.logging, stdout)?;
    for warning in &call.warnings {
        tracing::warn!(target: "config", "{warning}");
    }
    Ok(())
}

fn start_logging(raw: &Raw, logging: &Logging, stdout: Stdout) -> Result<(), Problems> {
    logging::start(logging, stdout).map_err(|problem| Problems(vec![problem]))?;
    for (name, value) in raw.service_links() {
        tracing::debug!(target: "config", "{name}={value} is the link to a Service that Kubernetes sets; passed over");
    }
    Ok(())
}

/// Enters the namespace that was asked for, before anything is asked of it.
fn enter_namespace(raw: &Raw) -> Option<Problem> {
    let given = namespace_to_enter(raw)?;
    let error = sidecar_init::sys::namespace::enter(given.value.as_ref()).err()?;
    let form =
        "expected a network namespace such as /run/netns/NAME or /proc/PID/ns/net, and the right to enter it";
    Some(Problem::with_item(&given.source, &given.value, format!("can't be entered: {error}; {form}")))
}

/// The namespace that was asked for. A preview whose facts are all declared asks nothing, and so needs no right to enter.
fn namespace_to_enter(raw: &Raw) -> Option<&Given> {
    let given = raw.get(Setting::NetworkNamespace).filter(|given| !given.value.is_empty())?;
    let removal = raw.is_on(Setting::CleanupOnly);
    let asks_nothing = raw.is_on(Setting::DryRun) && !removal && raw.get(Setting::PodIps).is_some();
    (!asks_nothing).then_some(given)
}
