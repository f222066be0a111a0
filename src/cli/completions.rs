//! `sidecar-init completions` and `man`: shell scripts, the proposals that they request, and the manual. A script passes the
//! words of a line to `sidecar-init completions SHELL -- WORD..`.

use super::tree::{self, Extent, tree};
use super::{Exit, RunResult, arguments::with_command, help, report, run};
use clap::Arg;
use command_line::shell::{Proposals, Shell};
use command_line::{complete, manual};
use mesh::sources::{Raw, SettingReader, pflag, text};
use mesh::{InputProblem, Mesh, Setting};
use sidecar_init::sys::lookup::{self, LookupPlaces};
use std::{ffi::OsString, path::Path};

/// Programs that the scripts complete; the second is another name of the first.
const PROGRAMS: [&str; 2] = ["sidecar-init", "istio-iptables"];

pub(super) fn run(raw: &Raw, mut problems: Vec<InputProblem>, line: &[OsString]) -> RunResult {
    if raw.get(Setting::Shell).is_none() {
        problems.push(InputProblem::of("completions", "needs the name of a shell: bash, zsh or fish"));
    }
    let shell = |reader: &mut SettingReader<'_>| run::one_of(reader, Setting::Shell, &Shell::ALL);
    let (_, shell) = run::begin(raw, problems, run::ANSWER, shell)?;
    match (shell, line) {
        (None, _) => Ok(Exit::Done),
        (Some(shell), []) => report::text(&shell.script(&PROGRAMS)),
        (Some(shell), line) => {
            let line = shell.words(line.to_vec());
            report::text(&shell.answer(proposals(line, shell.replaces_whole_words())))
        }
    }
}

/// Proposals for a line. With `whole`, a value includes its `--flag=`.
fn proposals(line: Vec<OsString>, whole: bool) -> Proposals {
    let line: Vec<String> = with_command(line).iter().map(|word| text(word)).collect();
    match &line[..] {
        [_, command, before @ .., last] if command == command_line::topics::HELP => {
            return topics(before, last);
        }
        [_, command, _, ..] if command == tree::VERSION => return Proposals::Words(Vec::new()),
        _ => {}
    }
    let mut program = tree(pflag::mesh_of(&line).unwrap_or_default(), Extent::Proposed);
    program.build();
    complete::proposals(&program, &line, whole, &namespaces)
}

fn topics(before: &[String], last: &str) -> Proposals {
    let before: String = before.iter().map(|word| format!("{word} ")).collect();
    let word = |(word, about): (String, String)| Some((word.strip_prefix(&before)?.to_owned(), about));
    let mut words: Vec<_> = help::words().into_iter().filter_map(word).collect();
    // A command of two words is completed word by word.
    words.retain(|(word, _)| word.starts_with(last) && !word.contains(' '));
    Proposals::Words(words)
}

fn namespaces(argument: &Arg, start: &str, before: &str) -> Option<Proposals> {
    let settings = [Setting::NetworkNamespace, Setting::Netns];
    settings.iter().find(|setting| argument.get_id() == setting.row().long)?;
    argument.get_value_names().filter(|names| *names == ["NAME"])?;
    Some(match start.contains('/') {
        true => Proposals::Files,
        false => Proposals::starting(lookup::known(&LookupPlaces::default()), start, before),
    })
}

pub(super) fn manual(raw: &Raw, mut problems: Vec<InputProblem>) -> RunResult {
    if raw.get(Setting::ManDirectory).is_none() {
        problems
            .push(InputProblem::of("man", "needs a folder to write to, such as /usr/local/share/man/man1"));
    }
    let path = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (_, folder) =
        run::begin(raw, problems, run::LOG, |reader| reader.one_of(Setting::ManDirectory, "a folder", path))?;
    let program = tree(Mesh::default(), Extent::All);
    if let Some(folder) = folder {
        manual::write(&program, Path::new(&folder))?;
    }
    Ok(Exit::Done)
}
