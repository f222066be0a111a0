//! Completions for fish: a line for each command, and for each setting one with all commands that take it.

use super::proposals::{
    DROP_IN, Flag, PROGRAM, Values, brief, commands, flags, global_flags, groups, is_proposed,
};
use crate::cli::command::{COMMANDS, Entry};
use mesh::Mesh;
use mesh::settings::{self, Row};
use std::collections::BTreeSet;

/// A function of fish: whether the words name one of some meshes, or none where the default is among them.
const MESH: &str = r"function __sidecar_init_mesh
    set -l found DEFAULT
    set -l words (commandline -opc)
    for i in (seq (count $words))
        switch $words[$i]
            case '--mesh=*'
                set found (string replace -- --mesh= '' $words[$i])
            case --mesh
                test $i -lt (count $words); and set found $words[(math $i + 1)]
        end
    end
    contains -- $found $argv
end
";

/// The condition that one of the meshes is meant that have a setting; none where all have it.
fn of_meshes(row: &Row) -> String {
    let has: Vec<&str> =
        Mesh::ALL.iter().filter(|mesh| row.setting.is_for(**mesh)).map(|mesh| mesh.name()).collect();
    match has.len() == Mesh::ALL.len() {
        true => String::new(),
        false => format!("; and __sidecar_init_mesh {}", has.join(" ")),
    }
}

/// The script.
pub(super) fn script() -> String {
    let mut text =
        "# What fish completes for sidecar-init. Printed by: sidecar-init completions fish\n".to_owned();
    for name in [PROGRAM, DROP_IN] {
        text.push_str(&format!("complete -c {name} -f\n"));
        text.push_str(&format!("complete -c {name} -s h -l help -d 'Print help'\n"));
    }
    let first = format!("complete -c {PROGRAM} -n __fish_use_subcommand");
    text.push_str(&format!("{first} -s V -l version -d 'Print the version'\n"));
    for (name, about) in commands(None) {
        text.push_str(&format!("{first} -a {name} -d {}\n", quoted(about)));
    }
    for flag in global_flags() {
        text.push_str(&format!("{first} {}\n", options(&flag)));
    }
    for group in groups() {
        let within = commands(Some(group));
        let names: Vec<&str> = within.iter().map(|(name, _)| *name).collect();
        let when = format!(
            "'__fish_seen_subcommand_from {group}; and not __fish_seen_subcommand_from {}'",
            names.join(" ")
        );
        for (name, about) in within {
            text.push_str(&format!("complete -c {PROGRAM} -n {when} -a {name} -d {}\n", quoted(about)));
        }
    }
    text.push_str(&MESH.replace("DEFAULT", Mesh::default().name()));
    let has =
        |entry: &Entry, row: &Row| entry.takes(row) && entry.mesh.is_none_or(|mesh| row.setting.is_for(mesh));
    for row in settings::all().filter(|row| is_proposed(row)) {
        // A letter may be this setting's with some commands and not with others.
        let shorts: BTreeSet<Option<char>> =
            COMMANDS.iter().filter(|entry| has(entry, row)).map(|entry| entry.short(row)).collect();
        for short in shorts {
            let takes = COMMANDS.iter().filter(|entry| has(entry, row) && entry.short(row) == short);
            let (any, own): (Vec<&Entry>, Vec<&Entry>) = takes.partition(|entry| entry.mesh.is_none());
            for (entries, which) in [(any, of_meshes(row)), (own, String::new())] {
                // Their last words differ, so these say enough.
                let names: Vec<&str> = entries.iter().map(|entry| entry.within().1).collect();
                if !names.is_empty() {
                    let when = format!("'__fish_seen_subcommand_from {}{which}'", names.join(" "));
                    let flag = options(&Flag::new(row, short));
                    text.push_str(&format!("complete -c {PROGRAM} -n {when} {flag}\n"));
                }
            }
        }
    }
    for entry in COMMANDS {
        let when = format!("complete -c {PROGRAM} -n '__fish_seen_subcommand_from {}'", entry.within().1);
        match entry.word.map(|setting| (setting.row(), Values::of(setting.row()))) {
            Some((row, Values::Closed(all))) => {
                text.push_str(&format!("{when} -a '{}' -d {}\n", all.join(" "), quoted(brief(row.help))));
            }
            Some((_, Values::Folder)) => {
                text.push_str(&format!("{when} -a '(__fish_complete_directories)'\n"));
            }
            Some((_, Values::File)) => text.push_str(&format!("{when} -F\n")),
            Some((_, Values::Free | Values::Switch)) | None => {}
        }
        if entry.name == DROP_IN {
            for flag in flags(entry, Mesh::default()) {
                text.push_str(&format!("complete -c {DROP_IN} {}\n", options(&flag)));
            }
        }
    }
    text
}

fn options(flag: &Flag) -> String {
    let short = flag.short.map(|short| format!("-s {short} ")).unwrap_or_default();
    let values = match flag.values {
        Values::Switch => String::new(),
        Values::Closed(all) => format!(" -x -a '{}'", all.join(" ")),
        Values::File => " -r -F".to_owned(),
        Values::Folder => " -x -a '(__fish_complete_directories)'".to_owned(),
        Values::Free => " -x".to_owned(),
    };
    format!("{short}-l {}{values} -d {}", flag.long, quoted(flag.help))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
