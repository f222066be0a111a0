//! A program that describes itself to clap: its help with sections, its errors, completions and manual.

use crate::sections::{Exits, described};
use crate::{columns, complete::proposals, errors, manual, output, shell::Shell};
use clap::{
    Arg, ArgMatches, Command, CommandFactory, FromArgMatches, builder::PossibleValuesParser, value_parser,
};
use std::io::{self, Write};
use std::path::PathBuf;
use std::{ffi::OsString, process::ExitCode};

/// The exit status for invalid input, of every program.
pub const BAD_INPUT: u8 = 2;

#[derive(Clone, Copy, Debug)]
pub struct CommandHelp {
    /// The path below the program, such as `environment operator`; empty for the program itself.
    pub command: &'static str,
    pub examples: &'static [&'static str],
    pub exits: &'static Exits,
}

/// Parses the arguments, the program's name first.
///
/// # Errors
/// The exit status where nothing is left to do: help, completions or the manual were printed, or the arguments were refused.
pub fn parse<P: CommandFactory + FromArgMatches>(
    args: impl IntoIterator<Item = OsString>,
    sections: &[CommandHelp],
) -> Result<P, ExitCode> {
    let mut command = command(P::command(), sections);
    let args: Vec<OsString> = args.into_iter().collect();
    let matches = match command.try_get_matches_from_mut(&args) {
        Ok(matches) => matches,
        Err(error) => return Err(report(error, &mut command, &args)),
    };
    match matches.subcommand() {
        Some((COMPLETIONS, matches)) => Err(exit_code_of(complete(&mut command, matches))),
        Some((MAN, matches)) => {
            let folder = matches.get_one::<PathBuf>("folder").expect("it is required");
            Err(exit_code_of(manual::write(&command, folder)))
        }
        Some(_) | None => P::from_arg_matches(&matches).map_err(|error| report(error, &mut command, &args)),
    }
}

const COMPLETIONS: &str = "completions";
const MAN: &str = "man";

/// The command with the sections of its subcommands, and with those commands that every program has.
pub fn command(command: Command, sections: &[CommandHelp]) -> Command {
    let command = with_sections(command, "", sections);
    let shells = PossibleValuesParser::new(Shell::ALL.map(Shell::name));
    let shell = Arg::new("shell").value_name("SHELL").required(true).value_parser(shells).help("Shell");
    let line = Arg::new("word").value_name("WORD").num_args(0..).last(true).hide(true);
    let folder = Arg::new("folder").value_name("DIR").required(true).value_parser(value_parser!(PathBuf));
    command.max_term_width(columns::HELP).subcommands([
        Command::new(COMPLETIONS)
            .about("Print shell completions")
            .arg(shell)
            .arg(line.value_parser(value_parser!(OsString))),
        Command::new(MAN)
            .about("Write the manual pages")
            .arg(folder.help("Folder of the pages, such as /usr/local/share/man/man1; created if missing")),
    ])
}

fn with_sections(command: Command, path: &str, sections: &[CommandHelp]) -> Command {
    let help = sections.iter().find(|help| help.command == path);
    let command = match help {
        Some(CommandHelp { examples, exits, .. }) => {
            let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
            let text = described(&about.unwrap_or_default(), examples, exits, columns::of_help());
            command.long_about(text)
        }
        None => command,
    };
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |below| with_sections(below, path.trim_start(), sections))
    })
}

/// Prints what clap reports instead of a parsed call: help, the version, or problems.
fn report(error: clap::Error, command: &mut Command, args: &[OsString]) -> ExitCode {
    if !errors::is_refusal(&error) {
        // Nothing sensible is left to do when even the answer can't be printed.
        let _ = error.print();
        return if error.use_stderr() { ExitCode::from(BAD_INPUT) } else { ExitCode::SUCCESS };
    }
    let mut commands = Vec::new();
    collect_names(command, &mut commands);
    let problems = errors::all_problems(command, args, error, &commands);
    output::fail(problems);
    ExitCode::from(BAD_INPUT)
}

fn collect_names(command: &Command, found: &mut Vec<String>) {
    for below in command.get_subcommands() {
        found.push(below.get_name().to_owned());
        collect_names(below, found);
    }
}

fn exit_code_of(done: io::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // EPIPE: the reader, such as `head`, has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::fail(error);
            ExitCode::FAILURE
        }
    }
}

fn complete(command: &mut Command, matches: &ArgMatches) -> io::Result<()> {
    let shell = matches.get_one::<String>("shell").and_then(|name| Shell::named(name));
    let shell = shell.ok_or(io::ErrorKind::InvalidInput)?;
    let line: Vec<OsString> =
        matches.get_many::<OsString>("word").map(|words| words.cloned().collect()).unwrap_or_default();
    let text = match line.is_empty() {
        true => shell.script(&[command.get_name()]),
        false => {
            command.build();
            let line: Vec<String> =
                shell.words(line).iter().map(|word| word.to_string_lossy().into_owned()).collect();
            shell.answer(proposals(command, &line, shell.replaces_whole_words(), &|_, _, _| None))
        }
    };
    io::stdout().write_all(text.as_bytes())
}
