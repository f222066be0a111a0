//! Completions of a command line, from its clap definition.

use crate::shell::Proposals;
use clap::{Arg, Command, ValueHint};

/// Completes values specific to the program, from `(argument, start, prefix)`; the prefix comes before each proposal.
pub type OwnValues<'a> = &'a dyn Fn(&Arg, &str, &str) -> Option<Proposals>;

/// Completions of the last word of `line`, whose first word is the program. With `whole`, a value includes its `--flag=`. The
/// command must be built.
pub fn proposals(program: &Command, line: &[String], whole: bool, own: OwnValues<'_>) -> Proposals {
    let (last, before) = line.split_last().map_or(("", line), |(last, before)| (last.as_str(), before));
    let mut command = program;
    let (mut waiting, mut count, mut is_escaped) = (None, 0, false);
    for word in before.iter().skip(1) {
        if waiting.take().is_some() {
            continue;
        }
        match word.strip_prefix('-').filter(|_| !is_escaped) {
            Some("-") => is_escaped = true,
            Some(_) if !word.contains('=') => {
                let takes_next_word =
                    |arg: &&Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
                waiting = flag(command, word).filter(takes_next_word);
            }
            Some(_) => {}
            None => match command.find_subcommand(word) {
                Some(below) => (command, count) = (below, 0),
                None => count += 1,
            },
        }
    }
    let values =
        |arg, before: &str, start| own(arg, start, before).unwrap_or_else(|| values(arg, before, start));
    if let Some(arg) = waiting {
        return values(arg, "", last);
    }
    let is_flag = last.starts_with('-') && !is_escaped;
    if let Some((name, value)) = last.split_once('=').filter(|(name, _)| is_flag && name.starts_with("--")) {
        let before = if whole { format!("{name}=") } else { String::new() };
        return flag(command, name).map_or(Proposals::Words(Vec::new()), |arg| values(arg, &before, value));
    }
    let mut words = if is_flag { flags(command) } else { commands(command) };
    words.retain(|(word, _)| word.starts_with(last));
    match positional(command, count, is_escaped) {
        Some(arg) if words.is_empty() && !is_flag => values(arg, "", last),
        Some(_) | None => Proposals::Words(words),
    }
}

fn positional(command: &Command, count: usize, is_escaped: bool) -> Option<&Arg> {
    let trailing = command.get_positionals().find(|arg| is_escaped && arg.is_last_set());
    let repeats = |arg: &&Arg| arg.get_num_args().is_some_and(|numbers| numbers.max_values() > 1);
    let all: Vec<&Arg> = command.get_positionals().filter(|arg| !arg.is_last_set()).collect();
    trailing.or(all.get(count).copied()).or(all.into_iter().find(repeats))
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match word.strip_prefix("--") {
        Some(long) => {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(long) || aliases.contains(&long)
        }
        None => arg.get_short().is_some_and(|letter| word == format!("-{letter}")),
    })
}

fn values(arg: &Arg, before: &str, start: &str) -> Proposals {
    let known = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    let known: Vec<String> = known.map(|value| value.get_name().to_owned()).collect();
    let name = arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
    match (arg.get_value_hint(), name) {
        _ if !known.is_empty() => Proposals::starting(known, start, before),
        (ValueHint::DirPath, _) | (_, Some("DIR" | "FOLDER")) => Proposals::Folders,
        (ValueHint::FilePath | ValueHint::AnyPath, _) | (_, Some("FILE" | "PATH")) => Proposals::Files,
        _ => Proposals::Words(Vec::new()),
    }
}

fn flags(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional());
    let forms = |arg: &Arg| {
        let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let about = about.split(" [default").next().unwrap_or_default().to_owned();
        let short = arg.get_short().map(|letter| format!("-{letter}"));
        let long = arg.get_long().map(|long| format!("--{long}"));
        short.into_iter().chain(long).map(move |form| (form, about.clone())).collect::<Vec<_>>()
    };
    shown.flat_map(forms).collect()
}

fn commands(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    let about = |below: &Command| below.get_about().map(ToString::to_string).unwrap_or_default();
    shown.map(|below| (below.get_name().to_owned(), about(below))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    fn check(line: &str, expected: &[&str]) {
        let native = Arg::new("native").long("native").num_args(0..=1).require_equals(true);
        let inject = Command::new("inject")
            .arg(Arg::new("file").long("filename").alias("fileName").short('f').value_name("FILE"))
            .arg(native.default_missing_value("true").value_parser(["auto", "true"]))
            .arg(Arg::new("output").long("output").value_parser(["text", "json"]))
            .arg(Arg::new("old").long("old").hide(true))
            .arg(Arg::new("diff").long("diff").action(ArgAction::SetTrue));
        let man = Command::new("man")
            .arg(Arg::new("folder").value_name("DIR"))
            .arg(Arg::new("form").value_parser(["roff", "text"]))
            .arg(Arg::new("viewer").last(true).value_name("FILE"));
        let mut program = Command::new("program").subcommand(inject).subcommand(man);
        program.build();
        let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = match proposals(&program, &line, false, &|_, _, _| None) {
            Proposals::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
            Proposals::Files => vec!["FILES".to_owned()],
            Proposals::Folders => vec!["FOLDERS".to_owned()],
        };
        assert_eq!(found, expected, "{line:?}");
    }

    #[test]
    fn commands_flags_and_values_are_proposed() {
        check("program ", &["inject", "man", "help"]);
        check("program in", &["inject"]);
        check("program inject ", &[]);
        check("program inject --", &["--filename", "--native", "--output", "--diff", "--help"]);
        check("program inject --output ", &["text", "json"]);
        check("program inject --output=j", &["json"]);
        check("program inject --diff --fi", &["--filename"]);
        check("program inject -f ", &["FILES"]);
        check("program man ", &["FOLDERS"]);
        check("program man there ", &["roff", "text"]);
        check("program man there text ", &[]);
        check("program man there -- ", &["FILES"]);
        check("program inject -- --fi", &[]);
    }

    #[test]
    fn a_value_that_needs_an_equals_sign_is_not_the_next_word() {
        check("program inject --native ", &[]);
        check("program inject --native=", &["auto", "true"]);
        check("program inject --native --output=j", &["json"]);
    }

    #[test]
    fn a_flag_is_known_by_its_aliases() {
        check("program inject --fileName ", &["FILES"]);
        check("program inject --fileName=", &["FILES"]);
    }
}
