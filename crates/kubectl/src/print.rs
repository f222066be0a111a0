//! Printing: answers on standard output, everything else on standard error.

use crate::arguments::OutputForm;
use crate::pod::TargetPod;
use command_line::columns;
use diagnose::{Style, TextLine, fold, painted};
use mesh::visible_lines;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Prints an answer. A reader that has enough is not an error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match print_part(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Prints a part of an answer that goes on. A reader that has enough is an error, so that no further part is waited for.
pub(crate) fn print_part(text: &str) -> io::Result<()> {
    let mut stdout = anstream::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

pub(crate) fn basis_line(basis: &str, pod: &TargetPod) -> TextLine {
    let of = match pod.candidates {
        0 | 1 => String::new(),
        several => format!(" (one of {several} pods)"),
    };
    TextLine::hanging(2).styled(Style::Quiet, format!("{basis}{of}:"))
}

/// Prints what the kernel of a pod answers: `text`, in lines of so many columns after the basis, or the document.
pub(crate) fn print_answer(
    basis: &str,
    pod: &TargetPod,
    document: &Value,
    output: OutputForm,
    text: impl FnOnce(usize) -> String,
) -> io::Result<()> {
    let width = columns::of_terminal();
    let all =
        json!({ "version": 1, "pod": pod.title(), "node": pod.node, "basis": basis, "kernel": document });
    match output {
        OutputForm::Text => print(&(painted(&[basis_line(basis, pod)], width) + &text(width))),
        OutputForm::Json => print(&format!("{all:#}\n")),
    }
}

/// A remark of `sidecar-init` in the cluster.
pub(crate) fn remark(text: &str) {
    // The answer is what counts.
    let _ = writeln!(anstream::stderr(), "{} {text}", Style::Passing.paint("note:"));
}

pub(crate) fn failure(error: &dyn std::error::Error) {
    // The exit code is left.
    let text = visible_lines(&error.to_string());
    let text = format!("{} {text}\n", Style::Dropped.paint("error:"));
    let _ = anstream::stderr().write_all(fold(&text, 4, columns::of_line(&io::stderr())).as_bytes());
}
