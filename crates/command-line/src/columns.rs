//! Widths of text in columns.

use std::io::IsTerminal;

/// The widest that a line of help gets: longer ones are hard to read.
pub const HELP: usize = 100;

/// 80 without a terminal, which fits everywhere.
pub fn of_terminal() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
}

/// The width of a line before it is folded. What no terminal shows is read by programs, line by line, so no line of it is
/// broken.
pub fn of_line(stream: &impl IsTerminal) -> usize {
    if stream.is_terminal() { of_terminal() } else { usize::MAX }
}

pub fn of_help() -> usize {
    of_terminal().min(HELP)
}
