//! Prints answers and failures. A failure is written to standard error with the whole chain of causes, as JSON where the
//! format is one for programs, and in a short form to the container runtime.

use super::data::{self, Encoding};
use super::{paint, run::Format};
use command_line::columns;
use mesh::{InputProblem, Problems};
use nix::libc::O_NONBLOCK;
use serde::Serialize;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{error::Error, fs::OpenOptions, iter, os::unix::fs::OpenOptionsExt, process::ExitCode};

/// Where Kubernetes reads why a container ended. It exists only in containers that have it mounted.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// Kubernetes reads no more than this.
const TERMINATION_BYTES: usize = 4096;

#[derive(Debug, thiserror::Error)]
#[error("{what} can't be printed{but}")]
struct Unprinted {
    what: &'static str,
    but: String,
    source: io::Error,
}

/// Prints an answer. Colours are removed without a terminal and by `NO_COLOR`. A reader that closes its end early, such as
/// `head`, is not a failure.
pub(super) fn text(text: &str) -> Exit {
    match at_once(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        done => printed(done, "the answer", String::new()),
    }
}

/// Prints on standard error what helps to make a call.
pub(super) fn advice(text: &str) {
    // Where this fails, the exit code is left.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// Prints an answer that has to arrive completely, such as rules to be set.
pub(super) fn whole(text: &str) -> Exit {
    printed(at_once(text), "the answer", String::new())
}

pub(super) fn answer(format: Format, answer: &impl Serialize, as_text: impl FnOnce() -> String) -> Exit {
    text(&match format {
        Format::Text => as_text(),
        Format::Data(encoding) => data::document(encoding, answer),
    })
}

/// If that fails, the error says what was done nevertheless.
pub(super) fn change(encoding: Encoding, answer: &impl Serialize, done: &str) -> Exit {
    printed(at_once(&data::document(encoding, answer)), "the report", format!(", but {done}"))
}

pub(super) fn line_width() -> usize {
    columns::of_line(&io::stdout())
}

/// Prints a part of an answer. Nothing is left in the buffer, whose errors would be lost when the process ends.
pub(super) fn at_once(text: &str) -> io::Result<()> {
    // Looking for colours takes as long as making a long list of rules, which has none.
    match text.contains('\u{1b}') {
        true => anstream::stdout().write_all(text.as_bytes()),
        false => io::stdout().write_all(text.as_bytes()),
    }?;
    io::stdout().flush()
}

fn printed(done: io::Result<()>, what: &'static str, but: String) -> Exit {
    match done {
        Ok(()) => Exit::Done,
        Err(source) => failure(&Unprinted { what, but, source }, Exit::Failed),
    }
}

static AS_DATA: AtomicBool = AtomicBool::new(false);

/// Prints failures as data from now on: a line of JSON each, which is YAML as well.
pub(super) fn fail_as_data() {
    AS_DATA.store(true, Ordering::Relaxed);
}

/// A failure as programs read it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ErrorReport {
    /// The text for people.
    error: ReportedError,
    /// All problems of the input; empty for other failures.
    problems: Vec<Fix>,
}

/// The operation that failed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedError {
    /// The text for people.
    message: String,
    /// The causes, from the nearest to the root.
    causes: Vec<String>,
    /// The exit code of the program.
    exit_code: u8,
}

/// A problem of the input.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Fix {
    /// The flag, variable, annotation or argument.
    option: String,
    /// The offending item of the value; null for the whole value or a missing one.
    value: Option<String>,
    /// The problem and the expected form.
    message: String,
}

pub(super) fn bad_input(problems: &Problems) -> Exit {
    refused(problems, &problems.to_string(), Exit::BadInput)
}

/// The same for a command that would have changed something, with the exit code that it has for that.
pub(super) fn bad_input_unchanged(problems: &Problems, exit: Exit) -> Exit {
    refused(problems, &problems.unchanged(), exit)
}

fn refused(problems: &Problems, text: &str, exit: Exit) -> Exit {
    let fix = |problem: &InputProblem| {
        let InputProblem { name, item, text } = problem.clone();
        Fix { option: name, value: item, message: text }
    };
    let message = text.lines().next().unwrap_or_default().to_owned();
    let fault = ReportedError { message, causes: Vec::new(), exit_code: exit as u8 };
    let failure = ErrorReport { error: fault, problems: problems.0.iter().map(fix).collect() };
    print_failure(&format!("error: {text}\n"), &failure);
    exit
}

pub(super) fn failure(error: &dyn Error, exit: Exit) -> Exit {
    let causes = iter::successors(error.source(), |&error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    let mut text = format!("error: {error}\n");
    for cause in &causes {
        text.push_str(&format!("  because: {cause}\n"));
    }
    let fault = ReportedError { message: error.to_string(), causes, exit_code: exit as u8 };
    print_failure(&text, &ErrorReport { error: fault, problems: Vec::new() });
    exit
}

fn print_failure(text: &str, failure: &ErrorReport) {
    // Where this fails, the exit code is left.
    let _ = match AS_DATA.load(Ordering::Relaxed) {
        true => io::stderr().write_all(data::line(failure).as_bytes()),
        false => anstream::stderr().write_all(paint::error(text, columns::of_line(&io::stderr())).as_bytes()),
    };
    let short: String = anstream::adapter::strip_str(text)
        .to_string()
        .chars()
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= TERMINATION_BYTES).then_some(c)
        })
        .collect();
    if let Ok(mut file) =
        OpenOptions::new().write(true).truncate(true).custom_flags(O_NONBLOCK).open(TERMINATION_LOG)
    {
        // A failure to write it is not worth a report.
        let _ = file.write_all(short.as_bytes());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Done = 0,
    Failed = 1,
    /// Nothing was touched.
    BadInput = 2,
    /// Something is not as expected: rules differ, other rules come first, or a connection ended otherwise.
    Drift = 3,
    /// The number that repair controllers look for.
    ValidationFailed = 126,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
