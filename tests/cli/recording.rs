//! The README's terminal, `docs/pictures/terminal.svg`: a session in the sandbox, recorded in a pseudo-terminal.
//! `UPDATE_GOLDENS=1` writes the file instead of comparing it, as `scripts/record` does. Needs root and curl; never skips.

use crate::support::program::{BINARY, PATH};
use crate::support::terminal::displayed;
use anstyle_svg::Term;
use std::{path::Path, process::Command};

const COLUMNS: u16 = 80;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pictures/terminal.svg");

/// The session's commands, and the number of paragraphs shown from each output.
const SESSION: [(&str, usize); 3] =
    [("curl http://10.9.0.2", 1), ("sidecar-init status", 3), ("sidecar-init explain 10.9.0.2:443", 2)];

/// The renderer's colours and their replacements, with a contrast of at least 4.5.
const COLOURS: [(&str, &str); 5] = [
    ("#AAAAAA", "#e8edf3"),
    ("#000000", "#10151b"),
    ("#0000AA", "#74b3ff"),
    ("#AA5500", "#f0b13c"),
    ("opacity: 0.4", "opacity: 0.7"),
];

/// End of an output; no program prints this.
const SEPARATOR: char = '\u{1e}';

fn answers() -> Vec<String> {
    let folder = Path::new(BINARY).parent().expect("a folder").display();
    let script: Vec<String> =
        SESSION.iter().map(|(command, _)| format!("{command} && printf '{SEPARATOR}'")).collect();
    let mut sandbox = Command::new(BINARY);
    sandbox.args(["sandbox", "--run-as", "root", "--", "sh", "-c", &script.join(" && ")]);
    sandbox.env_clear().env("PATH", format!("{folder}:{PATH}")).env("TERM", "xterm-256color");
    let (text, succeeded) = displayed(COLUMNS, sandbox);
    assert!(succeeded, "{text}");
    let mut answers: Vec<String> = text.split(SEPARATOR).map(repeatable).collect();
    assert_eq!(answers.pop().as_deref(), Some(""), "no output after the last answer");
    assert_eq!(answers.len(), SESSION.len(), "{text}");
    answers
}

/// The output without numbers chosen by the kernel: process IDs and client ports.
fn repeatable(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let (number, after) = number.split_at(end);
        out.push_str(before);
        let is_of_client =
            before.ends_with(':') && number.parse().is_ok_and(|port: u32| (32_768..=60_999).contains(&port));
        out.push_str(match number {
            _ if is_of_client => "40000",
            _ if before.ends_with("(process ") => "7",
            _ => number,
        });
        rest = after;
    }
    out + rest
}

#[test]
fn recorded_terminal_matches_a_session() {
    let dim = |text: &str| format!("\u{1b}[2m{text}\u{1b}[0m");
    let typed = |prompt: &str, command: &str| format!("{} \u{1b}[1m{command}\u{1b}[0m\n", dim(prompt));
    let mut session = typed("$", "sidecar-init sandbox --run-as root -- sh");
    for ((command, shown), answer) in SESSION.iter().zip(answers()) {
        session += &format!("\n{}", typed("#", command));
        let paragraphs: Vec<&str> = answer.trim_end().split("\n\n").collect();
        let (first, others) = paragraphs.split_at(paragraphs.len().min(*shown));
        session += &(first.join("\n\n") + "\n");
        if !others.is_empty() {
            session += &(dim("  [..]") + "\n");
        }
    }
    let drawn = Term::new().render_svg(&session);
    testkit::golden(FILE, &COLOURS.iter().fold(drawn, |drawn, (theirs, ours)| drawn.replace(theirs, ours)));
}
