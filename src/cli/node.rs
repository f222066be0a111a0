//! `sidecar-init cni repair --watch`, in the words of operators: the work of `sidecar-node`, which takes the place of this
//! program before any setting is read, because it has other flags.

use super::arguments::{ParsedWord, Parser, with_command};
use super::{Exit, command, report};
use crate::cni::{NODE_PROGRAM, beside};
use mesh::{InputProblem, Problems, sources::boolean};
use sidecar_init::sys::exec;
use std::ffi::{OsStr, OsString};
use std::{io, os::unix::process::CommandExt, path::PathBuf, process::Command};

#[derive(Debug, thiserror::Error)]
enum NodeProgramFailure {
    #[error(
        "cni repair --watch is done by {NODE_PROGRAM}, which is neither at {} nor on PATH; put it at one of them, or repair \
         one container by --netns or --pid", .0.display()
    )]
    Missing(PathBuf),
    #[error("{} can't be started", .0.display())]
    Start(PathBuf, #[source] io::Error),
}

/// The first word is the program. Returns only on failure.
pub(super) fn hand_over(words: &[OsString]) -> Option<Exit> {
    let arguments = for_node(words)?;
    let problems = contradictions(&arguments);
    if !problems.is_empty() {
        return Some(report::bad_input(&Problems(problems)));
    }
    let ours = beside(NODE_PROGRAM);
    let found = if ours.is_file() { Some(ours.clone()) } else { exec::find(NODE_PROGRAM) };
    let failure = match found {
        None => NodeProgramFailure::Missing(ours),
        Some(program) => {
            let error = Command::new(&program).arg("repair").args(arguments).exec();
            NodeProgramFailure::Start(program, error)
        }
    };
    Some(report::failure(&failure, Exit::Failed))
}

/// The words besides `cni repair`, if `--watch` is among them.
fn for_node(words: &[OsString]) -> Option<Vec<OsString>> {
    // Other calls are not read twice.
    if !words.iter().any(|word| word == "repair") {
        return None;
    }
    let words = with_command(words.to_vec());
    let mut parser = Parser::new(&words);
    let mut words = words.into_iter().skip(1);
    let mut arguments = Vec::new();
    // Flags may precede the command.
    while parser.entry.is_none() {
        let word = words.next()?;
        let is_in_group = parser.group.is_some();
        if let ParsedWord::Answer(_) = parser.read(&word) {
            return None;
        }
        if parser.entry.is_none() && parser.group.is_some() == is_in_group {
            arguments.push(word);
        }
    }
    if parser.entry?.command != command::Command::CniRepair {
        return None;
    }
    // `sidecar-node` takes switches without a value.
    arguments.extend(words.map(|word| if is_watch(&word) { "--watch".into() } else { word }));
    arguments.iter().any(|word| word == "--watch").then_some(arguments)
}

fn is_watch(word: &OsStr) -> bool {
    let value = word.to_str().and_then(|word| word.strip_prefix("--watch="));
    value.and_then(boolean).unwrap_or(false)
}

fn contradictions(arguments: &[OsString]) -> Vec<InputProblem> {
    let is = |word: &OsString, flag: &str| word.to_string_lossy().split('=').next() == Some(flag);
    let given = |flag: &&str| arguments.iter().any(|word| is(word, flag));
    let text = "contradicts --watch, which finds the pods of a node by itself; give one of them";
    ["--netns", "--pid"].into_iter().filter(given).map(|flag| InputProblem::of(flag, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed_over(words: &str) -> Option<Vec<String>> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        for_node(&words).map(|arguments| arguments.iter().map(text).collect())
    }

    #[test]
    fn only_a_repair_that_watches_is_handed_over() {
        assert_eq!(handed_over("p cni repair --watch"), Some(vec!["--watch".to_owned()]));
        assert_eq!(handed_over("p cni repair --node a --watch -x").map(|words| words.len()), Some(4));
        assert_eq!(handed_over("sidecar-cni repair --watch"), Some(vec!["--watch".to_owned()]));
        for (words, expected) in [
            ("p --log_as_json cni repair --watch=true -x", "--log_as_json --watch -x"),
            ("p --log_output_level debug cni repair --watch", "--log_output_level debug --watch"),
            ("p cni --log_as_json repair --watch", "--log_as_json --watch"),
        ] {
            assert_eq!(handed_over(words).map(|words| words.join(" ")).as_deref(), Some(expected), "{words}");
        }
        for words in [
            "p",
            "p cni repair",
            "p cni repair --pid 1",
            "p cni repair --watch=false",
            "p cni install --watch",
            "p repair cni --watch",
            "p apply --watch repair",
        ] {
            assert_eq!(handed_over(words), None, "{words}");
        }
    }
}
