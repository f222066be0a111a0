//! `docs/injector-reference.md`: all commands and flags, generated from clap's definitions and compared with the file.
//!
//! `UPDATE_GOLDENS=1` writes it instead.

use crate::arguments::{InjectorArguments, SECTIONS};
use clap::{Arg, Command, CommandFactory};
use command_line::program;
use std::fmt::Write;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/injector-reference.md");

const HEAD: &str = "# Reference of the injector

All commands and flags of `sidecar-injector`, generated from the code. [Configuration of the injector](injection.md) describes
its configuration files and the annotations of pods.
";

/// A command without subcommands: its name, its help, and the line of each flag.
struct ReferenceSection {
    name: String,
    about: String,
    flags: Vec<(String, String)>,
}

fn page() -> String {
    let mut sections = Vec::new();
    collect(&mut sections, "sidecar-injector", &program::command(InjectorArguments::command(), SECTIONS));
    let lines = || sections.iter().flat_map(|section| &section.flags);
    let is_shared = |line: &str| lines().filter(|(_, other)| other == line).count() > 1;
    let mut text = HEAD.to_owned() + "\n## Shared flags\n\nSeveral commands take these flags.\n\n";
    let mut seen = Vec::new();
    for (_, line) in lines().filter(|(_, line)| is_shared(line)) {
        if !seen.contains(&line) {
            text.push_str(line);
            seen.push(line);
        }
    }
    for ReferenceSection { name, about, flags } in &sections {
        write!(text, "\n## `{name}`\n\n{about}.\n").expect("writing to a string");
        let (shared, own): (Vec<_>, Vec<_>) = flags.iter().partition(|(_, line)| is_shared(line));
        if !own.is_empty() {
            text.push('\n');
        }
        own.iter().for_each(|(_, line)| text.push_str(line));
        if !shared.is_empty() {
            let names: Vec<&str> = shared.iter().map(|(name, _)| name.as_str()).collect();
            write!(text, "\n[Shared flags](#shared-flags): {}.\n", names.join(", "))
                .expect("writing to a string");
        }
    }
    text
}

/// The sections of a command, or of its subcommands.
fn collect(into: &mut Vec<ReferenceSection>, name: &str, command: &Command) {
    if command.has_subcommands() {
        for below in command.get_subcommands() {
            collect(into, &format!("{name} {}", below.get_name()), below);
        }
        return;
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let flags = command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help");
    let flags = flags.map(|flag| {
        let long_name = flag.get_long().map(|long| format!("`--{long}`")).unwrap_or_default();
        (long_name, line(flag))
    });
    into.push(ReferenceSection { name: name.to_owned(), about: cell(&about), flags: flags.collect() });
}

fn line(flag: &Arg) -> String {
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let (meaning, of_help) = help.split_once(" [default: ").unwrap_or((&help, ""));
    let of_clap: Vec<_> = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default = match (of_help, flag.get_action().takes_values()) {
        ("", true) => of_clap.join(","),
        ("", false) => String::new(),
        (of_help, _) => of_help.trim_end_matches(']').to_owned(),
    };
    let default = if default.is_empty() { default } else { format!(" Default: {}.", cell(&default)) };
    format!("- {}: {}{}.{default}\n", names(flag), cell(meaning), others(flag))
}

fn names(flag: &Arg) -> String {
    let values = flag.get_value_names().filter(|_| flag.get_action().takes_values());
    let values = values.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    let values = values.map(|values| format!(" {values}")).unwrap_or_default();
    let short = flag.get_short().map(|short| format!("`-{short}` ")).unwrap_or_default();
    match flag.get_long() {
        Some(long) => format!("{short}`--{long}{values}`"),
        None => format!("`{}`", values.trim()),
    }
}

/// What else is to be known of a flag: words that it takes, its other names, its variable.
fn others(flag: &Arg) -> String {
    let words: Vec<String> =
        flag.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let aliases: Vec<String> =
        flag.get_all_aliases().unwrap_or_default().iter().map(|name| format!("`--{name}`")).collect();
    let variable = flag.get_env().map(|name| format!("`{}`", name.to_string_lossy()));
    let part = |what: &str, names: Vec<String>| {
        if names.is_empty() { String::new() } else { format!("; {what} {}", names.join(", ")) }
    };
    let words = if flag.get_action().takes_values() { words } else { Vec::new() };
    part("one of", words) + &part("also", aliases) + &part("variable", variable.into_iter().collect())
}

/// Text in which no character means anything to Markdown.
fn cell(text: &str) -> String {
    text.replace('*', "\\*").replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn the_reference_is_made_from_the_commands() {
    testkit::golden(FILE, &page());
}
