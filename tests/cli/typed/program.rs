//! The program's commands and flags, from its help.

use crate::support::program::{Outcome, Run, binary};
use std::path::Path;

pub(crate) fn commands() -> Vec<String> {
    // `help` and `version` take no flags, and `cni` is the first word of commands.
    let others = ["help", "version", "cni"];
    let names = |words: &[&str]| {
        let help = stdout(&[words, &["--help"]].concat());
        let list = help.split_once("\nCommands:\n").expect("a list").1.to_owned();
        let list = list.split("\n\n").next().expect("its end").to_owned();
        let first =
            |line: &str| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')).map(str::to_owned);
        let names = list.lines().filter_map(|line| Some(first(line)?.split(' ').next()?.to_owned()));
        names.filter(|name| !others.contains(&name.as_str())).collect::<Vec<_>>()
    };
    let mut found = names(&[]);
    found.extend(names(&["cni"]).iter().map(|name| format!("cni {name}")));
    assert!(found.len() >= 12, "{found:?}");
    found
}

/// Long flags of a command from its help, each with its value's placeholder; `None` for switches.
pub(crate) fn flags(command: &str) -> Vec<(String, Option<String>)> {
    let help = stdout(&[&command.split(' ').collect::<Vec<_>>()[..], &["--help-all"]].concat());
    let lines = help.lines().filter(|line| line.starts_with("  -") || line.starts_with("      --"));
    let flag = |line: &str| {
        let (_, form) = line.split_once("--")?;
        let end = form.find([' ', '[']).unwrap_or(form.len());
        let value = form.split_once(" <").map(|(_, value)| value.trim_end_matches('>').to_owned());
        Some((form[..end].to_owned(), value))
    };
    lines.filter_map(flag).filter(|(name, _)| !["help", "version"].contains(&name.as_str())).collect()
}

pub(crate) fn stdout(arguments: &[&str]) -> String {
    output(arguments, Path::new(".")).with(0, &arguments.join(" ")).stdout
}

pub(crate) fn output(arguments: &[&str], folder: &Path) -> Outcome {
    binary(arguments).current_dir(folder).outcome()
}
