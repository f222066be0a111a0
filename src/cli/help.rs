//! `--help` and `sidecar-init help`: of commands, and of topics, which are exit codes, variables, and the sections of
//! `docs/troubleshooting.md`.

mod markdown;
mod topics;

use super::command::COMMANDS;
use super::tree::{self, Extent, tree};
use super::{Exit, report};
use crate::cni;
use command_line::columns;
use mesh::settings::nearest;
use mesh::{InputProblem, Mesh, Problems};
use std::ffi::OsString;

/// The topic that lists all others.
const ALL: &str = "topics";

/// The help of the program, or of the command with these words.
pub(super) fn text<'a>(path: impl IntoIterator<Item = &'a str>, mesh: Mesh, extent: Extent) -> String {
    let mut program = tree(mesh, extent);
    program.build();
    let mut command = &mut program;
    for name in path {
        command = command.find_subcommand_mut(name).expect("the parser knows the commands of the tree");
    }
    let help = match extent {
        Extent::Summary => command.render_help(),
        Extent::Full | Extent::All => command.render_long_help(),
    };
    help.ansi().to_string()
}

/// `sidecar-init help` with these words after it.
pub(super) fn run(words: &[OsString], mesh: Mesh) -> Exit {
    // The parser has read --mesh; no other flag changes what is shown.
    let words = words.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.take_while(|word| !word.starts_with('-')).collect();
    let name = words.join(" ");
    if words.is_empty() {
        return report::text(&text([], mesh, Extent::Full));
    }
    if is_command(&name) {
        return report::text(&text(name.split(' '), mesh, Extent::Full));
    }
    if name == ALL {
        return report::text(&topics::list());
    }
    match topics::find(&name) {
        Some(topic) => report::text(&topic.text(columns::of_help())),
        None => report::bad_input(&Problems(vec![InputProblem::of(&name, unknown(&name))])),
    }
}

fn is_command(name: &str) -> bool {
    let basic = tree::BASIC.iter().map(|(name, _)| *name).chain([cni::COMMAND]);
    COMMANDS.iter().map(|entry| entry.name).chain(basic).any(|known| known == name)
}

fn unknown(name: &str) -> String {
    let words = words();
    match nearest(name, words.iter().map(|(word, _)| word.as_str())) {
        Some(intended) => format!("unknown topic; did you mean {intended}?"),
        None => format!("unknown topic (see sidecar-init help {ALL})"),
    }
}

/// What may follow `sidecar-init help`, each with its meaning.
pub(super) fn words() -> Vec<(String, String)> {
    let commands = COMMANDS.iter().map(|entry| (entry.name.to_owned(), entry.about.to_owned()));
    let commands = commands.chain([(cni::COMMAND.to_owned(), tree::CNI_ABOUT.to_owned())]);
    let topics = topics::all().into_iter().map(|topic| (topic.name, topic.title));
    let all = (ALL.to_owned(), "List the topics".to_owned());
    commands.chain([all]).chain(topics).collect()
}
