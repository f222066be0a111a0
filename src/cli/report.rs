//! How a failure is told: the whole chain of causes to standard error, a short form to the container
//! runtime.

use super::Exit;
use nix::libc::O_NONBLOCK;
use policy::Problems;
use rules::Family;
use serde::Serialize;
use std::{
    error::Error,
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
};

/// Where Kubernetes looks for the reason of a container's end. Present only where it is wanted.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// Kubernetes reads no more than this.
const TERMINATION_BYTES: usize = 4096;

/// What could not be printed, and what is the case all the same.
#[derive(Debug, thiserror::Error)]
#[error("{what} can't be printed{but}")]
struct Unprinted {
    what: &'static str,
    but: String,
    source: io::Error,
}

/// Prints data. Colours are taken out where nobody sees them, or where `NO_COLOR` and its like say so.
pub(super) fn text(text: &str) -> Exit {
    print(text, "the answer", String::new())
}

/// Prints data for programs.
pub(super) fn json(data: &impl Serialize) -> Exit {
    text(&document(data))
}

/// Prints what a change did. That it can't be printed takes nothing back, and is told so.
pub(super) fn change(data: &impl Serialize, done: &str) -> Exit {
    print(&document(data), "the report", format!(", but {done}"))
}

/// The columns that text may take: those of the terminal; elsewhere 80, what fits everywhere.
pub(super) fn width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
}

fn print(text: &str, what: &'static str, but: String) -> Exit {
    match anstream::stdout().write_all(text.as_bytes()) {
        Ok(()) => Exit::Done,
        Err(source) => failure(&Unprinted { what, but, source }, Exit::Failed),
    }
}

pub(super) fn document(data: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(data).expect("our own data has text keys and finite numbers");
    format!("{json}\n")
}

/// The family in data and in logs.
pub(super) fn family(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

/// Tells what is wrong with the input.
pub(super) fn bad_input(problems: &Problems) -> Exit {
    tell(&format!("error: {problems}\n"));
    Exit::BadInput
}

/// Tells why something failed, cause by cause.
pub(super) fn failure(error: &dyn Error, exit: Exit) -> Exit {
    let mut text = format!("error: {error}\n");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!("  because: {error}\n"));
        cause = error.source();
    }
    tell(&text);
    exit
}

fn tell(text: &str) {
    // Where nobody listens, the exit code still speaks.
    let _ = anstream::stderr().write_all(text.as_bytes());
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
        // It is a courtesy: that it failed helps nobody.
        let _ = file.write_all(short.as_bytes());
    }
}
