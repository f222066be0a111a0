//! Arguments into flags, as Go's pflag takes them.
//!
//! `-p 15001`, `-p15001`, `-p=15001`, `--envoy-port=15001`; switches bare or with `=true`; the last of a
//! repeated flag wins; values may be empty or start with a dash. Values are text here: what they mean is
//! for the policy to say, so that all problems can be told at once.

use super::{
    Exit,
    command::{COMMANDS, Command, Entry},
    options::{self, Choice, Options},
    report,
};
use clap::{
    Arg, ArgAction, ArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
};
use policy::settings::{Kind, Row, Setting, TABLE, Topic};
use policy::{Problem, Problems, sources};
use std::{ffi::OsString, path::Path};

/// A call, as far as its form goes.
#[derive(Debug)]
pub(super) struct Invocation {
    /// The command.
    pub(super) command: Command,
    /// Flags given, with their text.
    pub(super) flags: Vec<(Setting, String)>,
    /// What was given of the command's own options.
    pub(super) options: Options,
    /// What is wrong with the form.
    pub(super) problems: Vec<Problem>,
}

/// Parses the arguments. Called by the name `istio-iptables`, the program is that command.
///
/// # Errors
/// When the call is answered already: help, the version, or a call without a command.
pub(super) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Invocation, Exit> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let called = arguments.first().and_then(|path| Path::new(path).file_name()).map(OsString::from);
    if called.is_some_and(|name| name == "istio-iptables") {
        arguments.insert(1, "istio-iptables".into());
    }
    let mut problems = Vec::new();
    loop {
        match parser(&arguments).try_get_matches_from(&arguments) {
            Ok(matches) => {
                let (name, matches) = matches.subcommand().expect("a command is required");
                let entry = COMMANDS.iter().find(|entry| entry.name == name).expect("commands are known");
                let options = own_options(entry.command, matches);
                return Ok(Invocation {
                    command: entry.command,
                    flags: flags(entry, matches),
                    options,
                    problems,
                });
            }
            Err(error) => match without_culprit(&error, &mut arguments) {
                Some(problem) => problems.push(problem),
                None if problems.is_empty() => return Err(answer(&error)),
                None => return Err(report::bad_input(&Problems(problems))),
            },
        }
    }
}

/// Prints what clap has to say: help, the version, or what is wrong with the call.
fn answer(error: &clap::Error) -> Exit {
    // Nothing sensible is left to do when even the answer can't be printed.
    let _ = error.print();
    if error.use_stderr() { Exit::BadInput } else { Exit::Done }
}

/// Takes the argument that an error complains about out of the list, so that parsing can go on and find the
/// rest of what is wrong. `None` if the error is no single argument's.
fn without_culprit(error: &clap::Error, arguments: &mut Vec<OsString>) -> Option<Problem> {
    let Some(ContextValue::String(culprit)) = error.get(ContextKind::InvalidArg) else { return None };
    let culprit = culprit.split([' ', '=', '[']).next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let index = first_unknown(arguments)?;
            let argument = arguments.remove(index).to_string_lossy().into_owned();
            if !argument.starts_with('-') {
                let text = "is not expected; values of switches are written --dry-run=false";
                return Some(Problem::with_item("argument", &argument, text));
            }
            let is_value = |next: &OsString| {
                let next = next.to_string_lossy();
                !next.starts_with('-') && COMMANDS.iter().all(|entry| entry.name != next)
            };
            if !argument.contains('=') && arguments.get(index).is_some_and(is_value) {
                arguments.remove(index);
            }
            let name = argument.split('=').next().unwrap_or_default();
            Some(Problem::of(name, "no such flag; --help lists those there are"))
        }
        // A flag that takes a value takes whatever follows; only the last argument can lack one.
        ErrorKind::InvalidValue => {
            arguments.pop();
            Some(Problem::of(culprit, "needs a value; write --flag= for an empty one"))
        }
        _ => None,
    }
}

/// The place of the first argument with which the arguments before it stop being understood.
fn first_unknown(arguments: &[OsString]) -> Option<usize> {
    let unknown = |end: &usize| {
        let parsed = parser(arguments).try_get_matches_from(&arguments[..=*end]);
        parsed.is_err_and(|error| error.kind() == ErrorKind::UnknownArgument)
    };
    (1..arguments.len()).find(unknown)
}

fn flags(entry: &Entry, matches: &ArgMatches) -> Vec<(Setting, String)> {
    let value = |row: &Row| {
        // A flag must never get lost on the way: --dry-run is one.
        let value = matches.get_one::<OsString>(row.long)?;
        Some((row.setting, sources::text(value)))
    };
    // A command's own option may bear the name of a flag that it does not take.
    TABLE.iter().filter(|row| !row.long.is_empty() && (entry.takes)(row)).filter_map(value).collect()
}

fn own_options(command: Command, matches: &ArgMatches) -> Options {
    let value =
        |choice: &Choice| Some((choice.long, sources::text(matches.get_one::<OsString>(choice.long)?)));
    options::of(command).iter().filter_map(value).collect()
}

/// The parser for a call. Only a command that the call names gets its flags: all of them for all commands
/// would take longer to build than everything else that a dry run does.
fn parser(arguments: &[OsString]) -> clap::Command {
    let mut parser = clap::Command::new("sidecar-init")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Sets the rules that send a pod's traffic through its service mesh proxy")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .args_override_self(true)
        .disable_help_subcommand(true)
        .subcommands(
            COMMANDS.iter().map(|entry| command(entry, arguments.iter().any(|word| word == entry.name))),
        );
    for row in TABLE.iter().filter(|row| is_global(row)) {
        parser = parser.arg(argument(row).global(true));
    }
    parser
}

/// Upstream's log flags may stand before the command as well.
fn is_global(row: &Row) -> bool {
    matches!(row.topic, Topic::Logging | Topic::Compatibility)
}

fn command(entry: &Entry, called: bool) -> clap::Command {
    let command = clap::Command::new(entry.name).about(entry.about);
    if !called {
        return command;
    }
    let taken = || TABLE.iter().filter(|row| (entry.takes)(row));
    let environment: String = taken()
        .filter(|row| row.long.is_empty())
        .map(|row| format!("  {}\n      {}\n", row.variables.join(", "), row.help))
        .collect();
    let mut command = command.long_about(entry.long_about).args_override_self(true);
    if !environment.is_empty() {
        command = command.after_long_help(format!("Only in the environment:\n{environment}"));
    }
    command
        .args(options::of(entry.command).iter().map(choice))
        .args(taken().filter(|row| !row.long.is_empty() && !is_global(row)).map(argument))
}

fn choice(choice: &Choice) -> Arg {
    let argument = Arg::new(choice.long).long(choice.long).action(ArgAction::Set).help(choice.help);
    valued(argument, choice.kind)
}

fn argument(row: &Row) -> Arg {
    let help = match row.variables {
        [] => row.help.to_owned(),
        variables => format!("{} [env: {}]", row.help, variables.join(", ")),
    };
    let argument =
        Arg::new(row.long).long(row.long).action(ArgAction::Set).help(help).help_heading(row.topic.heading());
    let argument = match row.short {
        Some(short) => argument.short(short),
        None => argument,
    };
    valued(argument, row.kind)
}

fn valued(argument: Arg, kind: Kind) -> Arg {
    let argument = argument.value_parser(clap::value_parser!(OsString));
    match kind {
        Kind::Value(name) => argument.value_name(name).num_args(1).allow_hyphen_values(true),
        Kind::Switch => argument
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .hide_possible_values(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str], expected: &[(Setting, &str)]) {
        let all = ["sidecar-init", "istio-iptables"].iter().chain(arguments).map(OsString::from);
        let invocation = parse(all).expect("no answer");
        assert_eq!(invocation.problems, [], "{arguments:?}");
        let flags: Vec<(Setting, &str)> =
            invocation.flags.iter().map(|(s, text)| (*s, text.as_str())).collect();
        assert_eq!(flags, expected, "{arguments:?}");
    }

    #[test]
    fn the_parser_is_consistent() {
        let every: Vec<OsString> = COMMANDS.iter().map(|entry| entry.name.into()).collect();
        parser(&every).debug_assert();
    }

    #[test]
    fn flags_are_taken_as_pflag_takes_them() {
        use Setting::{DryRun, EnvoyPort, InboundPorts, RestoreFormat, ServiceExcludeCidr};
        for form in [&["-p", "15001"][..], &["-p15001"], &["-p=15001"], &["--envoy-port=15001"]] {
            check(form, &[(EnvoyPort, "15001")]);
        }
        check(&["--envoy-port", "1", "-p", "2"], &[(EnvoyPort, "2")]);
        check(&["-p", "-1"], &[(EnvoyPort, "-1")]);
        check(&["-x", "", "-b", "*"], &[(InboundPorts, "*"), (ServiceExcludeCidr, "")]);
        check(&["-n"], &[(DryRun, "true")]);
        check(&["--dry-run=false"], &[(DryRun, "false")]);
        check(&["-n", "-n=0"], &[(DryRun, "0")]);
        check(&["-n", "-f=0", "-p", "1"], &[(EnvoyPort, "1"), (DryRun, "true"), (RestoreFormat, "0")]);
        check(&["-nf"], &[(DryRun, "true"), (RestoreFormat, "true")]);
    }

    #[test]
    fn every_fault_of_form_is_told_and_the_rest_is_parsed() {
        let call = ["istio-iptables", "--nope", "-p", "1", "--neither=2", "stray", "-Z", "x", "-b"];
        let invocation = parse(call.iter().map(OsString::from)).expect("no answer");
        let told: Vec<String> = invocation.problems.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 5, "{told:?}");
        assert_eq!(invocation.flags, [(Setting::EnvoyPort, "1".to_owned())]);
    }
}
