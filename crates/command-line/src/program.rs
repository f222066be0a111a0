//! A program that describes itself to clap: its help with sections, its errors, completions and manual.

use crate::sections::{Exits, described, undescribed};
use crate::{columns, complete::proposals, errors, roff, shell::Shell};
use clap::{
    Arg, ArgMatches, Command, CommandFactory, FromArgMatches, builder::PossibleValuesParser, value_parser,
};
use diagnose::Style;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs, process::ExitCode};

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
        Some((MAN, matches)) => Err(exit_code_of(write_manual(&mut command, sections, matches))),
        Some(_) | None => P::from_arg_matches(&matches).map_err(|error| report(error, &mut command, &args)),
    }
}

const COMPLETIONS: &str = "completions";
const MAN: &str = "man";

/// The command with the sections of its subcommands, and with those commands that every program has.
pub fn command(command: Command, sections: &[CommandHelp]) -> Command {
    let command = with_sections(command, "", sections);
    let shells = PossibleValuesParser::new(Shell::ALL.map(Shell::name));
    let shell = Arg::new("shell").value_name("SHELL").required(true).value_parser(shells).help("The shell");
    let line = Arg::new("word").value_name("WORD").num_args(0..).last(true).hide(true);
    let folder = Arg::new("folder").value_name("DIR").required(true).value_parser(value_parser!(PathBuf));
    command.max_term_width(columns::HELP).subcommands([
        Command::new(COMPLETIONS)
            .about("Print shell completions")
            .arg(shell)
            .arg(line.value_parser(value_parser!(OsString))),
        Command::new(MAN).about("Write the manual pages").arg(
            folder.help("The folder to write to, such as /usr/local/share/man/man1; created if missing"),
        ),
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
    // If stderr fails, the exit status still reports the refusal.
    let _ = writeln!(anstream::stderr(), "{} {problems}", Style::Dropped.paint("error:"));
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
            let _ = writeln!(anstream::stderr(), "{} {error}", Style::Dropped.paint("error:"));
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
            shell.answer(proposals(command, &line, shell.replaces_whole_words()))
        }
    };
    io::stdout().write_all(text.as_bytes())
}

fn write_manual(command: &mut Command, sections: &[CommandHelp], matches: &ArgMatches) -> io::Result<()> {
    let folder = matches.get_one::<PathBuf>("folder").ok_or(io::ErrorKind::InvalidInput)?;
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| io::Error::new(error.kind(), format!("{path} can't be written: {error}"))
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    for (name, text) in pages(command, sections) {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(())
}

/// The manual: a page for each command, by name.
pub fn pages(command: &mut Command, sections: &[CommandHelp]) -> Vec<(String, String)> {
    command.build();
    let mut pages = Vec::new();
    collect(command, command, "", sections, &mut pages);
    pages
}

fn collect(
    program: &Command,
    command: &Command,
    path: &str,
    sections: &[CommandHelp],
    pages: &mut Vec<(String, String)>,
) {
    let name = page_name(program, path);
    pages.push((name.clone(), page(program, command, &name, path, sections)));
    for below in subcommands(command) {
        let path = format!("{path} {}", below.get_name());
        collect(program, below, path.trim_start(), sections, pages);
    }
}

fn page_name(program: &Command, path: &str) -> String {
    format!("{} {path}", program.get_name()).trim_end().replace(' ', "-")
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set())
}

fn page(program: &Command, command: &Command, name: &str, path: &str, sections: &[CommandHelp]) -> String {
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let version = program.get_version().unwrap_or_default();
    let mut text = roff::head(name, &about(command), program.get_name(), version);
    let call = format!("{} {path}", program.get_name());
    let values: String = command
        .get_positionals()
        .filter(|arg| !arg.is_hide_set())
        .map(|arg| format!(" \\fI{}\\fP", roff::escaped(&value_name(arg))))
        .collect();
    let has_subcommands = subcommands(command).next().is_some();
    let subcommand = if has_subcommands { " \\fICOMMAND\\fP" } else { "" };
    text.push_str(&format!(
        "{}.B {}\n[\\fIOPTIONS\\fP]{values}{subcommand}\n",
        roff::heading("Synopsis"),
        roff::escaped(call.trim_end())
    ));
    let help = sections.iter().find(|help| help.command == path);
    // The long description holds the sections too, which have a form of their own here.
    let long = command.get_long_about().map(|text| undescribed(&text.to_string()).to_owned());
    let after = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let description = long.unwrap_or_else(|| about(command)) + "\n\n" + &after.unwrap_or_default();
    text.push_str(&format!("{}{}", roff::heading("Description"), roff::paragraphs(description.trim_end())));
    // Those of all commands say nothing of one that only holds others.
    let is_shown = |arg: &&Arg| {
        !(arg.is_hide_set() || has_subcommands && ["help", "version"].contains(&arg.get_id().as_str()))
    };
    let mut args = command.get_arguments().filter(is_shown).peekable();
    if args.peek().is_some() {
        text.push_str(&roff::heading("Options"));
        args.for_each(|arg| text.push_str(&option(arg)));
    }
    if has_subcommands {
        text.push_str(&roff::heading("Commands"));
        for below in subcommands(command) {
            let path = format!("{path} {}", below.get_name());
            let term = format!(".B {}\\fR(1)\\fP", roff::escaped(&page_name(program, path.trim_start())));
            text.push_str(&roff::entry(&term, [about(below).as_str()]));
        }
    }
    if let Some(CommandHelp { examples, exits, .. }) = help {
        text.push_str(&roff::closing(examples, exits));
    }
    if !path.is_empty() {
        let program_name = roff::escaped(program.get_name());
        text.push_str(&format!("{}.BR {program_name} (1)\n", roff::heading("See also")));
    }
    text
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn option(arg: &Arg) -> String {
    let bold = |form: String| format!("\\fB{}\\fP", roff::escaped(&form));
    let short = arg.get_short().map(|letter| bold(format!("-{letter}")));
    let long = arg.get_long().map(|long| bold(format!("--{long}")));
    let forms: Vec<String> = short.into_iter().chain(long).collect();
    let takes_value = arg.get_action().takes_values();
    let value =
        if takes_value { format!("\\fI{}\\fP", roff::escaped(&value_name(arg))) } else { String::new() };
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut lines: Vec<String> = help.lines().map(str::to_owned).collect();
    let known: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if takes_value && !known.is_empty() {
        lines.push(format!("One of: {}", known.join(", ")));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() {
        lines.push(format!("Default: {}", defaults.join(",")));
    }
    if let Some(variable) = arg.get_env() {
        lines.push(format!("Variable: {}", variable.to_string_lossy()));
    }
    // An argument that is known by its position has no form before its value.
    let term = format!("{} {value}", forms.join(", "));
    roff::entry(term.trim(), lines.iter().map(String::as_str))
}
