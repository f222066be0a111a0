//! `sidecar-init completions`: scripts for shells, and the proposals that they request.
//!
//! A script passes the words of a line to `sidecar-init completions SHELL -- WORD..`, so the parser of calls decides what may
//! come next, for the mesh and the command of the line. Flags without effect are not proposed.

use super::arguments::{HelpRequest, Next, ParsedWord, Parser, with_command};
use super::{Exit, command::COMMANDS, help, logging::Stdout, report, run, start_logging, tree};
use crate::cni;
use command_line::shell::{Proposals, Shell};
use mesh::settings::{SettingKind, SettingRow, Topic};
use mesh::sources::{Raw, SettingReader, text};
use mesh::{InputProblem, Problems, Setting};
use sidecar_init::sys::lookup::{self, LookupPlaces};
use std::ffi::OsString;

/// The programs that the scripts complete, of which the second is the first by another name.
const PROGRAMS: [&str; 2] = ["sidecar-init", "istio-iptables"];

pub(super) fn run(raw: &Raw, mut problems: Vec<InputProblem>, line: &[OsString]) -> Result<Exit, Problems> {
    if raw.get(Setting::Shell).is_none() {
        problems.push(InputProblem::of("completions", "needs the name of a shell: bash, zsh or fish"));
    }
    let mut reader = SettingReader::new(raw, problems);
    let (_, logging) = run::read(&mut reader);
    let shell = run::one_of(&mut reader, Setting::Shell, &Shell::ALL);
    reader.finish()?;
    start_logging(raw, &logging, Stdout::Answer)?;
    Ok(match (shell, line) {
        (None, _) => Exit::Done,
        (Some(shell), []) => report::text(&shell.script(&PROGRAMS)),
        (Some(shell), line) => {
            let line = shell.words(line.to_vec());
            report::text(&shell.answer(proposals(line, shell.replaces_whole_words())))
        }
    })
}

/// Where `whole` words are needed, a value comes with its `--flag=`.
fn proposals(line: Vec<OsString>, whole: bool) -> Proposals {
    let mut words = with_command(line);
    let last = words.pop().map(|word| text(&word)).unwrap_or_default();
    let mut parser = Parser::new(&words);
    for (at, word) in words.iter().enumerate().skip(1) {
        match parser.read(word) {
            ParsedWord::OfCall => {}
            ParsedWord::Answer(HelpRequest::Topic) => return topics(&words[at + 1..], &last),
            ParsedWord::Answer(_) => return Proposals::Words(Vec::new()),
        }
    }
    match parser.next {
        Next::Value(row) => return values(row, "", &last),
        Next::Trailing => return Proposals::Files,
        Next::Any | Next::UnknownValue | Next::Argument => {}
    }
    let may_be_flag = last.starts_with('-') && !matches!(parser.next, Next::Argument);
    if let Some((flag, value)) = last.split_once('=').filter(|_| may_be_flag && last.starts_with("--")) {
        let row = parser.flags.rows().find(|row| row.option() == flag);
        let before = if whole { format!("{flag}=") } else { String::new() };
        return row.map_or(Proposals::Words(Vec::new()), |row| values(row, &before, value));
    }
    let mut words = match (may_be_flag, parser.argument(), parser.entry) {
        (true, ..) => flags(&parser),
        (false, Some(setting), _) => return values(setting.row(), "", &last),
        (false, None, None) => commands(parser.group.as_deref()),
        // Flags would complete nothing to a dash, which all have in common.
        (false, None, Some(_)) => Vec::new(),
    };
    words.retain(|(word, _)| word.starts_with(&last));
    Proposals::Words(words)
}

/// Words that may follow `help` and `before`.
fn topics(before: &[OsString], last: &str) -> Proposals {
    let before: String = before.iter().map(|word| text(word) + " ").collect();
    let word = |(word, about): (String, String)| Some((word.strip_prefix(&before)?.to_owned(), about));
    let mut words: Vec<_> = help::words().into_iter().filter_map(word).collect();
    // A command of two words is completed word by word.
    words.retain(|(word, _)| word.starts_with(last) && !word.contains(' '));
    Proposals::Words(words)
}

/// Values that begin with `start`, each after `before`.
fn values(row: &SettingRow, before: &str, start: &str) -> Proposals {
    let names_namespace = [Setting::NetworkNamespace, Setting::Netns].contains(&row.setting);
    match row.kind {
        SettingKind::Switch => Proposals::starting(["true", "false"], start, before),
        SettingKind::Value("DIR") => Proposals::Folders,
        SettingKind::Value("FILE" | "PATH") => Proposals::Files,
        SettingKind::Value(_) if names_namespace && start.contains('/') => Proposals::Files,
        SettingKind::Value(_) if names_namespace => {
            Proposals::starting(lookup::known(&LookupPlaces::default()), start, before)
        }
        SettingKind::Value(_) => Proposals::starting(row.values.iter().copied(), start, before),
    }
}

fn flags(parser: &Parser) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (row, short) in &parser.flags.0 {
        let is_listed = parser.entry.is_none_or(|entry| entry.lists(row));
        if is_listed && !row.long.is_empty() && row.topic != Topic::Compatibility {
            let about = row.help.split(" [default").next().unwrap_or(row.help).to_owned();
            found.extend(short.map(|short| (format!("-{short}"), about.clone())));
            found.push((row.option(), about));
        }
    }
    let mut add = |words: [&str; 2], about: &str| {
        found.extend(words.map(|word| (word.to_owned(), about.to_owned())));
    };
    add(["-h", "--help"], "Print help");
    if parser.entry.is_none() && parser.group.is_none() {
        add(["-V", "--version"], "Print the version");
    }
    found
}

fn commands(group: Option<&str>) -> Vec<(String, String)> {
    let of = COMMANDS.iter().filter(|entry| entry.within().0 == group);
    let mut found: Vec<_> = of.map(|entry| (entry.within().1, entry.about)).collect();
    if group.is_none() {
        found.push((cni::COMMAND, tree::CNI_ABOUT));
        found.extend(tree::BASIC);
    }
    found.into_iter().map(|(name, about)| (name.to_owned(), about.to_owned())).collect()
}
