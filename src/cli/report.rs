//! Output and failures. A failure is written to standard error with its causes, as JSON if requested, and in short to Kubernetes.

use anstream::adapter::strip_str;
use command_line::columns;
use command_line::output::{print_part, print_styled};
use diagnose::{Style, fold};
use mesh::data::{Tree, yaml};
use mesh::{InputProblem, Problems};
use nix::libc::O_NONBLOCK;
use serde::Serialize;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{error::Error, fs::OpenOptions, iter, os::unix::fs::OpenOptionsExt, process::ExitCode};

/// File in which Kubernetes reads a container's reason for ending. It exists only in containers that mount it.
const TERMINATION_LOG: &str = "/dev/termination-log";
const TERMINATION_BYTES: usize = 4096;

/// A failure with a message and its cause, for callers that only report it.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct Because {
    text: String,
    source: Box<dyn Error>,
}

impl Because {
    pub(super) fn of(text: String, source: impl Error + 'static) -> Self {
        Self { text, source: Box::new(source) }
    }
}

/// Exit code of a command, or its failure: [`Problems`] of its input, or another error.
pub(super) type RunResult = Result<Exit, Box<dyn Error>>;

/// Prints an answer, without colours if unwanted. A reader such as `head` may close its end early.
pub(super) fn text(text: &str) -> RunResult {
    printed(print_styled(text), "the answer", "")
}

pub(super) fn advice(text: &str) {
    // A failed write keeps the exit code.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// Prints an answer that has to arrive completely, such as rules to be set.
pub(super) fn whole(text: &str) -> RunResult {
    printed(print_part(text), "the answer", "")
}

pub(super) fn answer(format: Format, answer: &impl Serialize, as_text: impl FnOnce() -> String) -> RunResult {
    text(&match format {
        Format::Text => as_text(),
        Format::Data(encoding) => document(encoding, answer),
    })
}

/// Prints the report of a change. On failure, the error mentions `done`.
pub(super) fn change(encoding: Encoding, answer: &impl Serialize, done: &str) -> RunResult {
    printed(print_part(&document(encoding, answer)), "the report", &format!(", but {done}"))
}

pub(super) fn line_width() -> usize {
    columns::of_line(&io::stdout())
}

fn printed(done: io::Result<()>, what: &str, but: &str) -> RunResult {
    done.map_err(|source| Because::of(format!("{what} can't be printed{but}"), source))?;
    Ok(Exit::Done)
}

static AS_DATA: AtomicBool = AtomicBool::new(false);

pub(super) fn fail_as_data() {
    AS_DATA.store(true, Ordering::Relaxed);
}

/// A failure, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ErrorReport {
    /// The failure, for people.
    error: ReportedError,
    /// All problems of the input; empty for other failures.
    problems: Vec<Fix>,
}

/// A failure.
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

/// Reports a failure, and maps the exit code with `ends`; `changes` is true if the command would have changed something.
pub(super) fn exit(outcome: RunResult, changes: bool, ends: fn(Exit) -> Exit) -> Exit {
    let error = match outcome {
        Ok(exit) => return ends(exit),
        Err(error) => error,
    };
    match error.downcast_ref::<Problems>() {
        Some(problems) if changes => refused(problems, &problems.unchanged(), ends(Exit::BadInput)),
        Some(problems) => refused(problems, &problems.to_string(), ends(Exit::BadInput)),
        None => failure(&*error, ends(Exit::Failed)),
    }
}

fn refused(problems: &Problems, text: &str, exit: Exit) -> Exit {
    let fix = |problem: &InputProblem| {
        let InputProblem { name, item, text, .. } = problem.clone();
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
    // A failed write keeps the exit code.
    let _ = match AS_DATA.load(Ordering::Relaxed) {
        true => io::stderr().write_all(line(failure).as_bytes()),
        false => anstream::stderr().write_all(error(text, columns::of_line(&io::stderr())).as_bytes()),
    };
    let short = strip_str(text).to_string();
    let end = (0..=short.len().min(TERMINATION_BYTES)).rfind(|at| short.is_char_boundary(*at));
    let _ = OpenOptions::new()
        .write(true)
        .truncate(true)
        .custom_flags(O_NONBLOCK)
        .open(TERMINATION_LOG)
        .and_then(|mut file| file.write_all(&short.as_bytes()[..end.unwrap_or_default()]));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Done = 0,
    Failed = 1,
    BadInput = 2,
    /// Rules differ, other rules come first, or a connection had an unexpected outcome.
    Drift = 3,
    /// Exit code that repair controllers look for.
    ValidationFailed = 126,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Version of all formats. It increases if a field is removed or changes its meaning, not for a new field.
const VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Data(Encoding),
}

impl Encoding {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "yaml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// A document with the version of its format.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VersionedDocument<T> {
    /// The version of the format. It increases when a field is removed or changes its meaning.
    version: u32,
    #[serde(flatten)]
    answer: T,
}

impl<T> VersionedDocument<T> {
    pub(super) fn of(answer: T) -> Self {
        Self { version: VERSION, answer }
    }
}

pub(super) fn document(encoding: Encoding, answer: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(&VersionedDocument::of(answer));
    let json = json.expect("our own data has text keys and finite numbers");
    match encoding {
        Encoding::Json => json + "\n",
        Encoding::Yaml => yaml::block(&Tree::read(&json)),
    }
}

/// One of many documents: a line of JSON, or YAML after a separator line.
pub(super) fn one_of_many(encoding: Encoding, answer: &impl Serialize) -> String {
    match encoding {
        Encoding::Json => line(answer),
        Encoding::Yaml => format!("---\n{}", document(encoding, answer)),
    }
}

pub(super) fn line(answer: &impl Serialize) -> String {
    let json = serde_json::to_string(&VersionedDocument::of(answer));
    json.expect("our own data has text keys and finite numbers") + "\n"
}

/// The answers about several pods.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Answers<'a> {
    /// One item for each object of the manifest, in order.
    pub(super) answers: Vec<ObjectAnswer<'a>>,
}

/// The answer for one of several pods.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ObjectAnswer<'a> {
    /// The object's kind, namespace and name.
    pub(super) object: &'a str,
    /// The document that the command prints for a single pod.
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub(super) answer: Tree,
}

/// Colours a line as in a unified diff of rules. Reasons are dim.
fn diff_line(line: &str) -> String {
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    let style = match text.as_bytes() {
        [b'@', b'@', ..] => Style::Strong,
        [b'-', ..] => Style::Passing,
        [b'+', ..] => Style::Captured,
        _ => return line.to_owned(),
    };
    match text.split_once("  # ") {
        Some((text, reason)) => {
            format!("{}  {}{end}", style.paint(text), Style::Quiet.paint(format!("# {reason}")))
        }
        None => format!("{}{end}", style.paint(text)),
    }
}

fn error(text: &str, width: usize) -> String {
    let head = "error: ";
    let folded: String = text.split_inclusive('\n').map(|line| fold(&diff_line(line), 4, width)).collect();
    match folded.strip_prefix(head) {
        Some(rest) => format!("{}{rest}", Style::Dropped.paint(head)),
        None => folded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::plain;

    #[test]
    fn first_line_of_an_error_fits_the_width() {
        let shown = error("error: one two three four\n", 12);
        assert_ne!(plain(&shown), shown);
        assert!(plain(&shown).lines().all(|line| line.len() <= 12), "{shown}");
    }

    #[test]
    fn diff_lines_gain_only_colours() {
        for text in [
            "@@ IPv4 nat OUTPUT (iptables-nft)\n -A OUTPUT -j X\n-A  # extra\n+A  # missing\n",
            "error: the rules differ\n-A OUTPUT\n+A OUTPUT",
        ] {
            assert_eq!(plain(&error(text, usize::MAX)), text);
            assert_ne!(error(text, usize::MAX), text);
        }
    }
}
