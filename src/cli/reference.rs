//! `docs/reference.md`: all commands and settings, made from the tables and compared with the file.
//!
//! `UPDATE_GOLDENS=1` writes it instead.

use super::command::COMMANDS;
use super::tree;
use policy::mesh::Mesh;
use policy::settings::{self, Kind, Row};

const HEAD: &str = "# Reference

All commands and settings, made from the tables in the code: a test compares this page with them.

Lists are separated by commas. Ports may be ranges: `8000-9000`. A switch is written bare, or with `=true` or `=false`. The
command line wins over variables, and those over defaults. Where a setting has several variables, the first that is set
counts.

A pod says a setting by Istio's annotation, by a field or a variable of its container `istio-proxy`, or by an annotation of our
own, `sidecar-init/` and the flag's name. Our own wins. [Pods instead of flags](manifests.md) says where pods are asked.
";

fn page() -> String {
    let mut text =
        format!("{HEAD}\n## Commands\n\n| command | does | settings of its own |\n|---|---|---|\n");
    for entry in COMMANDS {
        let own = tree::rows(entry, Mesh::default()).into_iter().filter(|row| row.topic.is_of_one_command());
        let own: Vec<String> = own.map(|row| format!("`{}`", row.option())).collect();
        text.push_str(&format!("| `{}` | {} | {} |\n", entry.name, cell(entry.about), own.join(" ")));
    }
    text.push_str("\n`sidecar-init COMMAND --help` lists the settings of a command and the meaning of its exit codes.\n");
    let mut heading = String::new();
    for row in settings::of(Mesh::default()) {
        let new = headed(row);
        if new != heading {
            text.push_str(&format!("\n## {new}\n"));
            heading = new;
        }
        text.push_str(&setting(row));
    }
    text
}

/// The topic, and the commands where it is theirs alone.
fn headed(row: &Row) -> String {
    if !row.topic.is_of_one_command() || row.topic.heading() != "This command" {
        return row.topic.heading().to_owned();
    }
    let of = COMMANDS.iter().filter(|entry| entry.topics.iter().any(|topics| topics.contains(&row.topic)));
    let mut names: Vec<&str> = of.map(|entry| entry.name).collect();
    if names.is_empty() {
        names.extend(COMMANDS.iter().filter(|entry| entry.takes(row)).map(|entry| entry.name));
    }
    names.join(", ")
}

pub(super) fn setting(row: &Row) -> String {
    let (meaning, default) = match row.help.split_once(" [default: ") {
        Some((meaning, default)) => (meaning, default.trim_end_matches(']')),
        None => (row.help, ""),
    };
    let value = match row.kind {
        Kind::Value(name) => format!(" {name}"),
        Kind::Switch => String::new(),
    };
    let short = row.short.map(|short| format!("`-{short}` ")).unwrap_or_default();
    let mut text = format!("\n### {short}`{}{value}`\n\n{}.\n\n", row.option(), cell(meaning));
    let mut line = |name: &str, said: String| {
        if !said.is_empty() {
            text.push_str(&format!("- {name}: {said}\n"));
        }
    };
    line("default", cell(default));
    line("values", code(row.values));
    line("example", tree::example(row, row.short).map(|text| code(&[&text])).unwrap_or_default());
    if !row.long.is_empty() {
        line("variables", code(row.variables));
    }
    line("pod", tree::said_by_pods(row).unwrap_or_default());
    line("annotation of our own", row.annotation().map(|name| code(&[&name])).unwrap_or_default());
    text.trim_end().to_owned() + "\n"
}

fn code(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Text in which no character means anything to Markdown.
fn cell(text: &str) -> String {
    text.replace('*', "\\*").replace('|', "\\|").replace('_', "\\_").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::page;
    use std::fs;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference.md");

    #[test]
    fn the_reference_is_made_from_the_tables() {
        let text = page();
        if std::env::var_os("UPDATE_GOLDENS").is_some() {
            fs::write(FILE, &text).expect("the page is written");
        }
        let written = fs::read_to_string(FILE).unwrap_or_default();
        assert!(text == written, "docs/reference.md is not up to date: run this test with UPDATE_GOLDENS=1");
    }
}
