//! Standard output and standard error. A closed pipe is not a failure.

use clap::ValueEnum;
use command_line::columns;
use diagnose::{Style, fold};
use mesh::data::{Tree, yaml};
use mesh::visible_lines;
use serde_json::Value;
use std::{
    fmt::Display,
    io::{self, Write},
};

/// The column under which a folded line of a message goes on.
const HANG: usize = 4;

/// Whether text has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    Auto,
    Always,
    Never,
}

impl ColourChoice {
    /// Decides it for all that is printed from now on.
    pub(crate) fn choose(self) {
        match self {
            Self::Auto => {}
            Self::Always => anstream::ColorChoice::Always.write_global(),
            Self::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

pub(crate) fn print_styled(text: &str) -> io::Result<()> {
    ignoring_closed_pipes(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// The same for people: a terminal gets lines that fit it, which go on under a column.
pub(crate) fn print_folded(text: &str, hang: usize) -> io::Result<()> {
    print_styled(&fold(text, hang, columns::of_line(&io::stdout())))
}

/// Prints text unchanged: it may contain anything.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    ignoring_closed_pipes(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints a message on standard error; on a terminal, in lines that fit it.
pub(crate) fn report(text: impl Display) {
    let text = fold(&text.to_string(), HANG, columns::of_line(&io::stderr()));
    // The output and the exit code are what count.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Prints why a command fails.
pub(crate) fn fail(text: impl Display) {
    report(format_args!("{} {}", Style::Dropped.paint("error:"), visible_lines(&text.to_string())));
}

/// Prints a warning.
pub(crate) fn warn(text: impl Display) {
    report(format_args!("{} {}", Style::Passing.paint("warning:"), visible_lines(&text.to_string())));
}

/// A reader that has enough, such as `head`, is not an error.
fn ignoring_closed_pipes(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// An object as a document of YAML.
pub(crate) fn document(object: &Value) -> String {
    yaml::block(&Tree::read(&object.to_string()))
}
