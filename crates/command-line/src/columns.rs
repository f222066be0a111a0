//! Widths of text in columns.

use std::io::IsTerminal;

/// Maximum width of help: longer lines are hard to read.
pub const HELP: usize = 100;

/// Width of the terminal; 80 without one.
pub fn of_terminal() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
}

/// Width at which a line is folded. Output that isn't shown on a terminal is parsed line by line, so it is never folded.
pub fn of_line(stream: &impl IsTerminal) -> usize {
    if stream.is_terminal() { of_terminal() } else { usize::MAX }
}

pub fn of_help() -> usize {
    of_terminal().min(HELP)
}
