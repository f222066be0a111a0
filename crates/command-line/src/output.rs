//! Standard output, which ignores closed pipes, and standard error, which folds lines to the width of a terminal.

use crate::columns;
use diagnose::{Style, fold};
use mesh::visible_lines;
use std::fmt::Display;
use std::io::{self, Write};

/// Prints a part of a longer answer. A closed pipe is an error, so callers can stop. The buffer is flushed, because
/// its errors would be lost when the process ends.
pub fn print_part(text: &str) -> io::Result<()> {
    // Stripping styles takes as long as rendering a long rule list, which has no styles.
    match text.contains('\u{1b}') {
        true => anstream::stdout().write_all(text.as_bytes()),
        false => io::stdout().write_all(text.as_bytes()),
    }?;
    io::stdout().flush()
}

pub fn print_styled(text: &str) -> io::Result<()> {
    ignoring_closed_pipes(print_part(text))
}

/// Prints an answer; on a terminal, folded to its width and continued at column `hang`.
pub fn print_folded(text: &str, hang: usize) -> io::Result<()> {
    print_styled(&fold(text, hang, columns::of_line(&io::stdout())))
}

/// Prints text unchanged, including control characters.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    ignoring_closed_pipes(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// A reader that stops early, such as `head`, is not an error.
fn ignoring_closed_pipes(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

pub fn report(text: impl Display) {
    let text = fold(&text.to_string(), 4, columns::of_line(&io::stderr()));
    // Errors are ignored: the output and the exit code carry the result.
    let _ = writeln!(anstream::stderr(), "{text}");
}

pub fn fail(text: impl Display) {
    report(format_args!("{} {}", Style::Dropped.paint("error:"), visible_lines(&text.to_string())));
}

pub fn warn(text: impl Display) {
    report(format_args!("{} {}", Style::Passing.paint("warning:"), visible_lines(&text.to_string())));
}
