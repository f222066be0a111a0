//! `docs/reference.md`: all commands and settings, made from the tables.

use crate::cli::{command::COMMANDS, tree};
use mesh::Mesh;
use mesh::settings::{self, SettingKind, SettingRow};

const HEAD: &str = "# Reference

All commands of `sidecar-init` and the settings that they share, generated from the code. `sidecar-init COMMAND --help` describes
all options of a command, with examples and exit codes.

- Lists are separated by commas. Ports may be ranges: `8000-9000`.
- A switch is written bare, or with `=true` or `=false`.
- Flags override variables, and variables override defaults. Of several variables, the first one that is set counts.
- [Manifests](manifests.md) lists the annotations of pods that set the same.
- [Meshes](meshes.md) lists the capture settings of linkerd, Kuma and ambient.
";

fn page() -> String {
    let mut text = format!("{HEAD}\n## Commands\n\n");
    for entry in COMMANDS {
        let own = tree::rows(entry, Mesh::default()).into_iter().filter(|row| row.topic.is_of_one_command());
        let own: Vec<String> = own.map(SettingRow::option).collect();
        let own = if own.is_empty() { String::new() } else { format!(" Options: {}.", code(&own)) };
        text.push_str(&format!("- `{}`: {}.{own}\n", entry.name, cell(entry.about)));
    }
    let mut heading = "";
    for row in settings::of(Mesh::default()).filter(|row| !row.topic.is_of_one_command()) {
        if row.topic.heading() != heading {
            heading = row.topic.heading();
            text.push_str(&format!("\n## {heading}\n\n"));
        }
        text.push_str(&setting(row));
    }
    text
}

pub(super) fn setting(row: &SettingRow) -> String {
    let (meaning, default) = match row.help.split_once(" [default: ") {
        Some((meaning, default)) => (meaning, default.trim_end_matches(']')),
        None => (row.help, ""),
    };
    let value = match row.kind {
        SettingKind::Value(name) => format!(" {name}"),
        SettingKind::Switch => String::new(),
    };
    let short = row.short.map(|short| format!("`-{short}` ")).unwrap_or_default();
    let mut text = format!("- {short}`{}{value}`: {}.", row.option(), cell(meaning));
    let mut part = |name: &str, given: String| {
        if !given.is_empty() {
            text.push_str(&format!(" {name}: {given}."));
        }
    };
    part("Default", cell(default));
    if !row.long.is_empty() {
        part(if row.variables.len() > 1 { "Variables" } else { "Variable" }, code(row.variables));
    }
    text + "\n"
}

pub(super) fn code(words: &[impl AsRef<str>]) -> String {
    words.iter().map(|word| format!("`{}`", word.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Text in which no character means anything to Markdown.
fn cell(text: &str) -> String {
    text.replace('*', "\\*").replace('|', "\\|").replace('_', "\\_").replace('<', "&lt;")
}

#[test]
fn the_reference_is_made_from_the_tables() {
    testkit::golden(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference.md"), &page());
}
