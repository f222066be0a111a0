//! clap errors as [`InputProblem`]s.

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use mesh::settings::{alternatives, nearest, nearest_value};
use mesh::{InputProblem, Problems};
use std::{error::Error as _, ffi::OsString};

/// Returns all problems with the arguments: clap stops at the first, so the loop parses again without each refused flag.
pub fn all_problems(command: &mut Command, words: &[OsString], first: Error, known: &[String]) -> Problems {
    let commands: Vec<&str> = known.iter().map(String::as_str).collect();
    let (mut found, mut removed): (Vec<InputProblem>, Vec<String>) = (Vec::new(), Vec::new());
    let (mut words, mut error) = (words.to_vec(), first);
    loop {
        let new = problems(&error, &commands).into_iter();
        found.extend(new.filter(|problem| !removed.contains(&problem.name)));
        let Some((flag, rest)) = without_refused(&words, &error, &commands) else { break };
        removed.push(flag);
        words = rest;
        match command.try_get_matches_from_mut(&words) {
            Err(next) if is_refusal(&next) => error = next,
            Ok(_) | Err(_) => break,
        }
    }
    Problems(found)
}

/// True for refused arguments; false for help and the version.
pub fn is_refusal(error: &Error) -> bool {
    error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// Returns the refused flag and the other words; `None` if `words` lack the flag or parsing again would not help.
fn without_refused(words: &[OsString], error: &Error, commands: &[&str]) -> Option<(String, Vec<OsString>)> {
    let flag = name(&context_text(error, ContextKind::InvalidArg)?);
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let is_refused =
        is_unknown || matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation);
    if !is_refused || !flag.starts_with('-') {
        return None;
    }
    let with_value = format!("{flag}=");
    let is_flag =
        |word: &OsString| word.to_str().is_some_and(|word| word == flag || word.starts_with(&with_value));
    let at = words.iter().position(is_flag)?;
    let is_value = |word: &OsString| {
        word.to_str().is_some_and(|word| !(word.starts_with('-') || is_unknown && commands.contains(&word)))
    };
    let has_value = words[at] == *flag && words.get(at + 1).is_some_and(is_value);
    let rest = words.iter().enumerate().filter(|(place, _)| *place != at && !(has_value && *place == at + 1));
    Some((flag, rest.map(|(_, word)| word.clone()).collect()))
}

fn problems(error: &Error, commands: &[&str]) -> Vec<InputProblem> {
    let flag = |kind| context_text(error, kind).map(|form| name(&form)).unwrap_or_default();
    let value = || context_text(error, ContextKind::InvalidValue).unwrap_or_default();
    let arg = flag(ContextKind::InvalidArg);
    let problem = match error.kind() {
        ErrorKind::UnknownArgument if arg.starts_with('-') => {
            let intended = context_text(error, ContextKind::SuggestedArg).map(|form| name(&form));
            InputProblem::of(&arg, unknown("flag", intended.as_deref()))
        }
        ErrorKind::UnknownArgument => InputProblem::with_item("argument", &arg, "is not expected"),
        ErrorKind::InvalidSubcommand => {
            let command = context_text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let intended = nearest(&command, commands.iter().copied());
            InputProblem::of(&command, unknown("command", intended))
        }
        ErrorKind::MissingSubcommand => {
            let within = context_text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let subcommands = alternatives(&context_texts(error, ContextKind::ValidSubcommand));
            InputProblem::of(&within, format!("needs a command: {subcommands}"))
        }
        ErrorKind::InvalidValue if value().is_empty() => InputProblem::of(&arg, "needs a value"),
        ErrorKind::InvalidValue => InputProblem::with_item(&arg, &value(), not_among(error, &value())),
        ErrorKind::ValueValidation => {
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            InputProblem::with_item(&arg, &value(), format!("is not valid: {cause}"))
        }
        ErrorKind::MissingRequiredArgument => {
            let required = |form: &&str| InputProblem::of(&name(form), format!("is required: {form}"));
            return context_texts(error, ContextKind::InvalidArg).iter().map(required).collect();
        }
        ErrorKind::ArgumentConflict => {
            let other = flag(ContextKind::PriorArg);
            let text = match other == arg || other.is_empty() {
                true => "is given more than once; give it once".to_owned(),
                false => format!("contradicts {other}; give one of them"),
            };
            InputProblem::of(&arg, text)
        }
        ErrorKind::TooManyValues | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            InputProblem::of(&arg, "has the wrong number of values (see --help)")
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            InputProblem::of("arguments", first)
        }
    };
    vec![problem]
}

pub fn unknown(what: &str, intended: Option<&str>) -> String {
    match intended {
        Some(intended) => format!("unknown {what}; did you mean {intended}?"),
        None => format!("unknown {what} (see --help)"),
    }
}

fn not_among(error: &Error, value: &str) -> String {
    let known = context_texts(error, ContextKind::ValidValue);
    if known.is_empty() {
        return "is not valid (see --help)".to_owned();
    }
    let intended = nearest_value(value, &known).map(|intended| format!("; did you mean {intended}?"));
    format!("is not {}{}", alternatives(&known), intended.unwrap_or_default())
}

fn context_text(error: &Error, kind: ContextKind) -> Option<String> {
    context_texts(error, kind).first().map(|&text| text.to_owned())
}

fn context_texts(error: &Error, kind: ContextKind) -> Vec<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text],
        Some(ContextValue::Strings(texts)) => texts.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The flag in a form such as `--action <ACTION>`, or an argument's name.
fn name(form: &str) -> String {
    form.split([' ', '=']).next().unwrap_or_default().trim_matches(['<', '>', '[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction, value_parser};

    fn command() -> Command {
        let repair = Command::new("repair")
            .arg(Arg::new("node").long("node").value_name("NAME").required(true))
            .arg(Arg::new("action").long("action").value_name("ACTION").value_parser(["repair", "label"]))
            .arg(Arg::new("rate").long("rate").value_name("NUMBER").value_parser(value_parser!(u16)))
            .arg(Arg::new("watch").long("watch").action(ArgAction::SetTrue))
            .arg(Arg::new("once").long("once").action(ArgAction::SetTrue).conflicts_with("watch"));
        Command::new("program").subcommand_required(true).subcommand(repair)
    }

    #[test]
    fn all_refusals_of_a_call_are_reported() {
        for (call, expected) in [
            (
                "repair --bogus 1 --rate x --action=labl --stray",
                &[
                    "unknown flag --bogus (see --help)",
                    "--rate: \"x\" is not valid: invalid digit found in string",
                    "--action: \"labl\" is not repair or label; did you mean label?",
                    "unknown flag --stray (see --help)",
                    "--node: is required: --node <NAME>",
                ][..],
            ),
            (
                "--bogus repair --rate 1x --node 1",
                &[
                    "unknown flag --bogus (see --help)",
                    "--rate: \"1x\" is not valid: invalid digit found in string",
                ],
            ),
            ("repair --node 1 stray --bogus", &["argument: \"stray\" is not expected"]),
        ] {
            let words: Vec<OsString> =
                std::iter::once("program").chain(call.split(' ')).map(Into::into).collect();
            let error = command().try_get_matches_from(&words).expect_err(call);
            let found = all_problems(&mut command(), &words, error, &["repair".to_owned()]);
            let found: Vec<String> = found.0.iter().map(ToString::to_string).collect();
            let mut sorted = found.clone();
            sorted.sort();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(sorted, expected, "{call}: {found:?}");
        }
    }

    #[test]
    fn every_refusal_has_the_style_of_the_others() {
        for (call, expected) in [
            ("repai", "unknown command repai; did you mean repair?"),
            ("zzz", "unknown command zzz (see --help)"),
            ("--bogus", "unknown flag --bogus (see --help)"),
            ("repair --nod 1", "unknown flag --nod; did you mean --node?"),
            ("repair --node 1 stray", "argument: \"stray\" is not expected"),
            ("repair", "--node: is required: --node <NAME>"),
            (
                "repair --node 1 --action labl",
                "--action: \"labl\" is not repair or label; did you mean label?",
            ),
            ("repair --node 1 --action x", "--action: \"x\" is not repair or label"),
            ("repair --node 1 --action", "--action: needs a value"),
            ("repair --node 1 --rate x", "--rate: \"x\" is not valid: invalid digit found in string"),
            ("repair --node 1 --watch --once", "--watch: contradicts --once; give one of them"),
            ("repair --node 1 --node 2", "--node: is given more than once; give it once"),
        ] {
            let words = std::iter::once("program").chain(call.split(' '));
            let error = command().try_get_matches_from(words).expect_err(call);
            let found: Vec<String> = problems(&error, &["repair"]).iter().map(ToString::to_string).collect();
            assert_eq!(found, [expected], "{call}");
        }
    }
}
