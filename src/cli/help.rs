//! `--help` and `sidecar-init help`, for commands and topics; most topics are sections of `docs/troubleshooting.md`.

use super::tree::{self, Extent, tree};
use super::{RunResult, command::COMMANDS, report};
use crate::cni;
use command_line::columns;
use command_line::topics::{self, HelpTopic};
use diagnose::fold;
use mesh::{Mesh, settings};
use std::ffi::OsString;

pub(super) fn text<'a>(path: impl IntoIterator<Item = &'a str>, mesh: Mesh, extent: Extent) -> String {
    let mut program = tree(mesh, extent);
    program.build();
    let mut command = &mut program;
    for name in path {
        command = command.find_subcommand_mut(name).expect("the parser knows the commands of the tree");
    }
    let help = match extent {
        Extent::Summary => command.render_help(),
        Extent::Full | Extent::All | Extent::Proposed => command.render_long_help(),
    };
    help.ansi().to_string()
}

pub(super) fn run(words: &[OsString], mesh: Mesh) -> RunResult {
    // The parser has read --mesh; no other flag changes the output.
    let words = words.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.take_while(|word| !word.starts_with('-')).collect();
    let name = words.join(" ");
    if words.is_empty() {
        return report::text(&text([], mesh, Extent::Full));
    }
    let commands: Vec<String> = commands().map(|(name, _)| name).collect();
    let basic = tree::BASIC.iter().map(|(name, _)| *name);
    if commands.iter().map(String::as_str).chain(basic).any(|known| known == name) {
        return report::text(&text(name.split(' '), mesh, Extent::Full));
    }
    let width = columns::of_help();
    report::text(&topics::text(tree::PROGRAM, &name, &topics(width), &commands, width)?)
}

fn commands() -> impl Iterator<Item = (String, String)> {
    let commands = COMMANDS.iter().map(|entry| (entry.name.to_owned(), entry.about.to_owned()));
    commands.chain([(cni::COMMAND.to_owned(), tree::CNI_ABOUT.to_owned())])
}

pub(super) fn words() -> Vec<(String, String)> {
    commands().chain(topics(columns::HELP).into_iter().map(|topic| (topic.name, topic.title))).collect()
}

fn topics(width: usize) -> Vec<HelpTopic> {
    let title = "Variables that commands read".to_owned();
    let own = vec![HelpTopic::new("environment", title, &environment(width))];
    topics::topics(tree::PROGRAM, COMMANDS.iter().map(|entry| (entry.name, entry.exits)), own, width)
}

fn environment(width: usize) -> String {
    let with_variables = settings::all().filter(|row| !row.variables.is_empty());
    let entry = |row: &settings::SettingRow| {
        let flag = if row.long.is_empty() { String::new() } else { format!("{}: ", row.option()) };
        format!("{}\n{}\n", row.variables.join(", "), fold(&format!("    {flag}{}", row.help), 4, width))
    };
    let mut entries: Vec<String> = with_variables.map(entry).collect();
    entries.sort();
    entries.dedup();
    entries.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_their_flags() {
        let variables = environment(80);
        assert!(variables.contains("PROXY_UID\n    --proxy-uid: "), "{variables}");
    }
}
