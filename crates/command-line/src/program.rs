//! Programs defined with clap: help with sections, errors, completions and the manual.

use crate::sections::{Exits, described};
use crate::topics::{self, HELP, HELP_ABOUT, topics};
use crate::{columns, complete::proposals, errors, manual, output, shell::Shell};
use clap::{
    Arg, ArgMatches, Command, CommandFactory, FromArgMatches, builder::PossibleValuesParser, value_parser,
};
use mesh::Problems;
use std::io::{self, Write};
use std::path::PathBuf;
use std::{ffi::OsString, process::ExitCode};

/// Exit status of every program for invalid input.
pub const BAD_INPUT: u8 = 2;

#[derive(Clone, Copy, Debug)]
pub struct CommandHelp {
    /// Path below the program, such as `environment operator`; empty for the program itself.
    pub command: &'static str,
    pub examples: &'static [&'static str],
    pub exits: &'static Exits,
}

/// Parses the arguments, the program's name first.
///
/// # Errors
/// The exit status after help, completions or the manual were printed, or the arguments were refused.
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
        Some((HELP, matches)) => {
            let words = matches.get_many::<String>("word").into_iter().flatten();
            match help(&mut command, &words.map(String::as_str).collect::<Vec<_>>(), sections) {
                Ok(text) => Err(exit_code_of(output::print_styled(&text))),
                Err(problems) => {
                    output::fail(problems);
                    Err(ExitCode::from(BAD_INPUT))
                }
            }
        }
        Some((COMPLETIONS, matches)) => Err(exit_code_of(complete(&mut command, matches))),
        Some((MAN, matches)) => {
            let folder = matches.get_one::<PathBuf>("folder").expect("it is required");
            Err(exit_code_of(manual::write(&command, folder)))
        }
        Some(_) | None => P::from_arg_matches(&matches).map_err(|error| report(error, &mut command, &args)),
    }
}

fn help(command: &mut Command, words: &[&str], sections: &[CommandHelp]) -> Result<String, Problems> {
    let program = program_name(command);
    let commands: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    command.build();
    if let Some(named) =
        words.iter().try_fold(&mut *command, |command, word| command.find_subcommand_mut(word))
    {
        return Ok(named.render_long_help().ansi().to_string());
    }
    let (width, exits) = (columns::of_help(), sections.iter().map(|help| (help.command, help.exits)));
    topics::text(&program, &words.join(" "), &topics(&program, exits, Vec::new(), width), &commands, width)
}

fn program_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).to_owned()
}

const COMPLETIONS: &str = "completions";
const MAN: &str = "man";

/// Adds help sections to a command and its subcommands, and the commands that every program has.
pub fn command(command: Command, sections: &[CommandHelp]) -> Command {
    let command = with_sections(command, "", sections);
    let shells = PossibleValuesParser::new(Shell::ALL.map(Shell::name));
    let shell = Arg::new("shell").value_name("SHELL").required(true).value_parser(shells).help("Shell");
    let line = Arg::new("word").value_name("WORD").num_args(0..).last(true).hide(true);
    let folder = Arg::new("folder").value_name("DIR").required(true).value_parser(value_parser!(PathBuf));
    let pointer = topics::pointer(&program_name(&command));
    command.max_term_width(columns::HELP).after_help(pointer).subcommands([
        Command::new(COMPLETIONS)
            .about("Print shell completions")
            .arg(shell)
            .arg(line.value_parser(value_parser!(OsString))),
        Command::new(MAN)
            .about("Write the manual pages")
            .arg(folder.help("Folder for the pages, such as /usr/local/share/man/man1; created if missing")),
        Command::new(HELP)
            .about(HELP_ABOUT)
            .arg(Arg::new("word").value_name("COMMAND|TOPIC").num_args(0..).help("The command or the topic")),
    ])
}

fn with_sections(command: Command, path: &str, sections: &[CommandHelp]) -> Command {
    let command = command.disable_help_subcommand(true);
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

fn report(error: clap::Error, command: &mut Command, args: &[OsString]) -> ExitCode {
    if !errors::is_refusal(&error) {
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
