//! Standard output, of which a closed pipe is not a failure, and standard error, where a terminal gets lines that fit it.

use crate::columns;
use diagnose::{Style, fold};
use mesh::visible_lines;
use std::fmt::Display;
use std::io::{self, Write};

/// Prints a part of an answer that goes on. A reader that has enough is an error, so that no further part is waited for.
/// Nothing is left in the buffer, whose errors would be lost when the process ends.
pub fn print_part(text: &str) -> io::Result<()> {
    // Looking for colours takes as long as making a long list of rules, which has none.
    match text.contains('\u{1b}') {
        true => anstream::stdout().write_all(text.as_bytes()),
        false => io::stdout().write_all(text.as_bytes()),
    }?;
    io::stdout().flush()
}

/// Prints an answer, with its styles where the stream takes them.
pub fn print_styled(text: &str) -> io::Result<()> {
    ignoring_closed_pipes(print_part(text))
}

/// The same for people: a terminal gets lines that fit it, which go on under a column.
pub fn print_folded(text: &str, hang: usize) -> io::Result<()> {
    print_styled(&fold(text, hang, columns::of_line(&io::stdout())))
}

/// Leaves text unchanged: it may contain anything.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    ignoring_closed_pipes(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// A reader that has enough, such as `head`, is not an error.
fn ignoring_closed_pipes(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Goes to standard error; on a terminal, in lines that fit it.
pub fn report(text: impl Display) {
    let text = fold(&text.to_string(), 4, columns::of_line(&io::stderr()));
    // The output and the exit code are what count.
    let _ = writeln!(anstream::stderr(), "{text}");
}

pub fn fail(text: impl Display) {
    report(format_args!("{} {}", Style::Dropped.paint("error:"), visible_lines(&text.to_string())));
}

pub fn warn(text: impl Display) {
    report(format_args!("{} {}", Style::Passing.paint("warning:"), visible_lines(&text.to_string())));
}
