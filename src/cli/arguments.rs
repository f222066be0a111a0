//! Parses arguments as Go's pflag does ([`mesh::sources::pflag`]), and reports all errors together. clap prints help but does not
//! parse calls: it stops at the first unknown word, and building its tree takes longer than the rest of a dry run.

use super::command::{COMMANDS, Command, CommandEntry, is_global};
use super::tree::{Extent, VERSION};
use super::{Exit, RunResult, help, linkerd_init, report};
use crate::cni;
use command_line::{errors, topics::HELP};
use mesh::settings::{self, Setting, SettingKind, SettingRow, nearest};
use mesh::sources::pflag::{self, Flags, PflagWord};
use mesh::{InputProblem, Mesh, Problems, sources};
use std::ffi::{OsStr, OsString};
use std::{mem, path::Path};

/// Handles requests for help, and passes any other call to `call`.
pub(super) fn read(
    words: Vec<OsString>,
    call: impl FnOnce(&'static CommandEntry, Parser) -> Exit,
) -> RunResult {
    let words = with_command(words);
    let mut parser = Parser::new(&words);
    for (at, word) in words.iter().enumerate().skip(1) {
        if let Some(asked) = parser.read(word) {
            return answer(asked, &parser, &words[at + 1..]);
        }
    }
    if let Next::Value(row) = parser.next {
        parser.problems.push(InputProblem::of(&row.option(), pflag::lacks_value(row)));
    }
    match parser.entry {
        Some(entry) => {
            parser.mesh = entry.mesh.unwrap_or(parser.mesh);
            parser.problems = strays_joined(parser.problems, &parser.flags);
            Ok(call(entry, parser))
        }
        None if parser.group.is_some() => {
            let text = "takes no flags: the container runtime passes the configuration on standard input and in variables";
            Err(Problems(vec![InputProblem::of(cni::COMMAND, text)]).into())
        }
        None if parser.problems.is_empty() => {
            report::advice(&help::text([], parser.mesh, Extent::Summary));
            Ok(Exit::BadInput)
        }
        None => Err(Problems(parser.problems).into()),
    }
}

/// Inserts the command that the program's name selects: a drop-in or the plugin.
pub(super) fn with_command(mut words: Vec<OsString>) -> Vec<OsString> {
    let name = words.first().and_then(|path| Path::new(path).file_name()).map(OsStr::to_string_lossy);
    let command = match name.as_deref() {
        Some("istio-iptables") => Some(Command::IstioIptables.entry().name),
        Some("kumactl") => Some(Command::KumaInit.entry().name),
        Some(name) if linkerd_init::CALLED.contains(&name) => Some(Command::LinkerdInit.entry().name),
        Some(cni::PLUGIN) => Some(cni::COMMAND),
        Some(_) | None => None,
    };
    if let Some(command) = command {
        words.insert(1, command.into());
    }
    words
}

/// Number of stray words that suggest file names: the shell replaces an unquoted `*` with them.
const MANY_STRAYS: usize = 4;

const FORMER_NAMES: [(&str, &str); 3] = [("check", "diff"), ("doctor", "status"), ("probe", "verify")];

/// A command and its former flag, whose output is now the default.
const FORMER_FLAG: (&str, &str) = ("explain", "--matrix");

const NAMESPACE_FLAGS: [&str; 3] = ["--netns", "--namespace", "-n"];

fn takes(flags: &Flags, setting: Setting) -> bool {
    flags.rows().any(|row| row.setting == setting)
}

fn is_manifest(word: &str) -> bool {
    !word.contains("://") && [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end))
}

fn stray(word: &str, flags: &Flags) -> String {
    let follows = |what: &str, setting: Setting| {
        format!("is not expected; give a {what} with {}", setting.row().option())
    };
    if sources::boolean(word).is_some() || word.starts_with('-') {
        pflag::stray(flags)
    } else if is_manifest(word) && takes(flags, Setting::Filename) {
        follows("manifest", Setting::Filename)
    } else if word.starts_with(|c: char| c.is_ascii_alphabetic()) && takes(flags, Setting::NetworkNamespace) {
        follows("network namespace", Setting::NetworkNamespace)
    } else {
        "is not expected".to_owned()
    }
}

fn strays_joined(problems: Vec<InputProblem>, known: &Flags) -> Vec<InputProblem> {
    let is_stray = |problem: &InputProblem| {
        problem.item.as_deref().is_some_and(|word| problem.text == stray(word, known))
    };
    let (strays, mut others): (Vec<_>, Vec<_>) = problems.iter().cloned().partition(is_stray);
    if strays.len() < MANY_STRAYS {
        return problems;
    }
    let more = strays.len() - 1;
    let text =
        format!("and {more} more are not expected; quote '*', which the shell replaces with file names");
    others.extend(strays.into_iter().next().map(|first| InputProblem { text, ..first }));
    others
}

/// Reports earlier problems first, except for `--help`.
fn answer(asked: HelpRequest, parser: &Parser, rest: &[OsString]) -> RunResult {
    let mut problems = parser.problems.clone();
    match (asked, rest.first()) {
        (HelpRequest::Help(extent), _) => report::text(&help::text(parser.path(), parser.mesh, extent)),
        (HelpRequest::Topic, _) if problems.is_empty() => help::run(rest, parser.mesh),
        (HelpRequest::Version, None) if problems.is_empty() => {
            report::text(concat!("sidecar-init ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        (HelpRequest::Version, Some(word)) if ["-h", "--help"].iter().any(|flag| word == flag) => {
            report::text(&help::text([VERSION], parser.mesh, Extent::Full))
        }
        (HelpRequest::Version, Some(word)) => {
            let text = format!("is not expected; {VERSION} takes no arguments");
            problems.push(InputProblem::with_item("argument", &sources::text(word), text));
            Err(Problems(problems).into())
        }
        (HelpRequest::Version | HelpRequest::Topic | HelpRequest::Refusal, _) => {
            Err(Problems(problems).into())
        }
    }
}

pub(super) struct Parser {
    pub(super) mesh: Mesh,
    pub(super) entry: Option<&'static CommandEntry>,
    pub(super) group: Option<String>,
    /// Flags of the command; before a command, the global flags.
    flags: Flags,
    next: Next,
    positional: usize,
    /// Flags with their values in the order of the words; the last of a repeated flag wins.
    pub(super) given: Vec<(Setting, String)>,
    pub(super) problems: Vec<InputProblem>,
    pub(super) trailing: Vec<OsString>,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Any,
    /// The value of this flag, even if it looks like a flag.
    Value(&'static SettingRow),
    UnknownValue,
    /// An argument, even if it looks like a flag.
    Argument,
    Trailing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelpRequest {
    Help(Extent),
    Version,
    Topic,
    Refusal,
}

impl Parser {
    pub(super) fn new(words: &[OsString]) -> Self {
        let mesh = pflag::mesh_of(words).unwrap_or_default();
        Self {
            mesh,
            entry: None,
            group: None,
            flags: Flags::of(settings::of(mesh).filter(|row| is_global(row))),
            next: Next::Any,
            positional: 0,
            given: Vec::new(),
            problems: Vec::new(),
            trailing: Vec::new(),
        }
    }

    fn path(&self) -> impl Iterator<Item = &str> {
        let group = self.group.iter().map(String::as_str);
        group.chain(self.entry.map(|entry| entry.within().1))
    }

    fn argument(&self) -> Option<Setting> {
        let entry = self.entry?;
        entry.words().nth(self.positional).or_else(|| entry.words().last().filter(|_| entry.repeats))
    }

    /// Parses a word. A request for help or the version ends the call.
    pub(super) fn read(&mut self, word: &OsStr) -> Option<HelpRequest> {
        let text = sources::text(word);
        match mem::replace(&mut self.next, Next::Any) {
            Next::Value(row) => self.take(vec![(row, text)]),
            Next::UnknownValue if self.may_be_value(&text) => {}
            Next::Any | Next::UnknownValue => return self.read_any(&text),
            Next::Argument => {
                self.next = Next::Argument;
                self.take_argument(text);
            }
            Next::Trailing => {
                self.next = Next::Trailing;
                self.trailing.push(word.to_owned());
            }
        }
        None
    }

    fn read_any(&mut self, word: &str) -> Option<HelpRequest> {
        match pflag::word(word, &self.flags) {
            PflagWord::End => match self.entry {
                None => {
                    let text = "is not expected before a command (see --help)";
                    self.problems.push(InputProblem::with_item("argument", word, text));
                    return Some(HelpRequest::Refusal);
                }
                Some(entry) if entry.trailing.is_some() => self.next = Next::Trailing,
                Some(_) => self.next = Next::Argument,
            },
            PflagWord::Flags(given, waiting) => {
                self.take(given);
                self.next = waiting.map_or(Next::Any, Next::Value);
            }
            PflagWord::Unknown { name, .. }
                if self.entry.is_some_and(|entry| (entry.name, &*name) == FORMER_FLAG) => {}
            PflagWord::Unknown { name, has_value } => match self.asked(&name, has_value) {
                Some(asked) => return Some(asked),
                None => {
                    self.refuse(&name);
                    self.next = if has_value { Next::Any } else { Next::UnknownValue };
                }
            },
            PflagWord::Bare if self.entry.is_some() => self.take_argument(word.to_owned()),
            PflagWord::Bare => return self.read_command(word),
        }
        None
    }

    fn read_command(&mut self, word: &str) -> Option<HelpRequest> {
        let is_first = self.group.is_none();
        let former = FORMER_NAMES.iter().find(|(former, _)| is_first && *former == word);
        let word = former.map_or(word, |(_, name)| *name);
        self.entry = COMMANDS.iter().find(|entry| entry.within() == (self.group.as_deref(), word));
        if let Some(entry) = self.entry {
            self.flags = entry.flags(self.mesh);
        } else if is_first && COMMANDS.iter().any(|entry| entry.within().0 == Some(word)) {
            self.group = Some(word.to_owned());
        } else if is_first && word == VERSION {
            return Some(HelpRequest::Version);
        } else if is_first && word == HELP {
            return Some(HelpRequest::Topic);
        } else {
            let known = COMMANDS.iter().filter(|entry| entry.within().0 == self.group.as_deref());
            let groups = [cni::COMMAND, VERSION, HELP].into_iter().filter(|_| is_first);
            let intended = nearest(word, known.map(|entry| entry.within().1).chain(groups));
            let whole = |word: &str| self.path().chain([word]).collect::<Vec<_>>().join(" ");
            let text = errors::unknown("command", intended.map(whole).as_deref());
            let problem = InputProblem::of(&whole(word), text);
            self.problems.push(problem);
            return Some(HelpRequest::Refusal);
        }
        None
    }

    fn take(&mut self, given: Vec<(&'static SettingRow, String)>) {
        self.given.extend(given.into_iter().map(|(row, value)| (row.setting, value)));
    }

    fn take_argument(&mut self, word: String) {
        let is_manifest = is_manifest(&word) && takes(&self.flags, Setting::Filename);
        // A file among destinations is a manifest without its flag.
        let argument = self.argument().filter(|setting| *setting != Setting::Destination || !is_manifest);
        if let Some(setting) = argument {
            self.positional += 1;
            self.given.push((setting, word));
            return;
        }
        let text = match self.entry {
            Some(CommandEntry { trailing: Some(_), .. }) => {
                "is not expected; give a command with --".to_owned()
            }
            Some(_) | None => self.continued(&word).unwrap_or_else(|| stray(&word, &self.flags)),
        };
        self.problems.push(InputProblem::with_item("argument", &word, text));
    }

    /// Problem with a word that continues the flag before it, as in `--dual-stack true` and `-b 80 443`.
    fn continued(&self, word: &str) -> Option<String> {
        let (setting, value) = self.given.last()?;
        let option = setting.row().option();
        if setting.row().kind == SettingKind::Switch && sources::boolean(word).is_some() {
            return Some(format!("is not expected; write {option}={word}"));
        }
        let is_port = |text: &str| text.split(',').all(|port| port.parse::<u16>().is_ok());
        (is_port(value) && is_port(word))
            .then(|| format!("is not expected; separate values with commas: {option}={value},{word}"))
    }

    fn refuse(&mut self, flag: &str) {
        let mut of_commands = settings::of(self.mesh).filter(|row| !row.long.is_empty());
        let text = match self.entry {
            None if of_commands.any(|row| row.is_written(flag)) => {
                format!("belongs after a command: sidecar-init COMMAND {flag}")
            }
            Some(_) if NAMESPACE_FLAGS.contains(&flag) && takes(&self.flags, Setting::NetworkNamespace) => {
                errors::unknown("flag", Some(Setting::NetworkNamespace.row().option().as_str()))
            }
            Some(_) | None => match pflag::unknown(flag, &self.flags) {
                text if text == pflag::UNKNOWN => errors::unknown("flag", None),
                text => text,
            },
        };
        self.problems.push(InputProblem::of(flag, text));
    }

    fn asked(&self, name: &str, has_value: bool) -> Option<HelpRequest> {
        match name {
            "-h" => Some(HelpRequest::Help(Extent::Summary)),
            "--help" if !has_value => Some(HelpRequest::Help(Extent::Full)),
            "--help-all" if !has_value => Some(HelpRequest::Help(Extent::All)),
            "-V" if self.entry.is_none() => Some(HelpRequest::Version),
            "--version" if self.entry.is_none() && !has_value => Some(HelpRequest::Version),
            _ => None,
        }
    }

    fn may_be_value(&self, word: &str) -> bool {
        let is_next_word = |entry: &CommandEntry| match (self.group.as_deref(), entry.within()) {
            (None, (group, name)) => word == group.unwrap_or(name),
            (own, (group, name)) => group == own && word == name,
        };
        let is_command = self.entry.is_none() && COMMANDS.iter().any(is_next_word);
        !word.starts_with('-') && !is_command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn check(arguments: &[&str], expected: &[(Setting, &str)]) {
        let all = ["sidecar-init", "istio-iptables"].iter().chain(arguments).map(OsString::from);
        let call = |_: &CommandEntry, parser: Parser| {
            assert_eq!(parser.problems, [], "{arguments:?}");
            let flags: BTreeMap<Setting, &str> =
                parser.given.iter().map(|(setting, text)| (*setting, text.as_str())).collect();
            assert_eq!(flags, BTreeMap::from_iter(expected.iter().copied()), "{arguments:?}");
            Exit::Drift
        };
        assert_eq!(read(all.collect(), call).expect("a call"), Exit::Drift);
    }

    #[test]
    fn flags_are_taken_as_pflag_takes_them() {
        for form in [&["-p", "15001"][..], &["-p15001"], &["-p=15001"], &["--envoy-port=15001"]] {
            check(form, &[(Setting::EnvoyPort, "15001")]);
        }
        check(&["--envoy-port", "1", "-p", "2"], &[(Setting::EnvoyPort, "2")]);
        check(&["-p", "-1"], &[(Setting::EnvoyPort, "-1")]);
        check(&["-p", "-b"], &[(Setting::EnvoyPort, "-b")]);
        check(&["-p", "--dry-run"], &[(Setting::EnvoyPort, "--dry-run")]);
        check(&["-x", "", "-b", "*"], &[(Setting::InboundPorts, "*"), (Setting::ServiceExcludeCidr, "")]);
        check(&["--istio-service-exclude-cidr="], &[(Setting::ServiceExcludeCidr, "")]);
        check(&["-n"], &[(Setting::DryRun, "true")]);
        check(&["--dry-run=false"], &[(Setting::DryRun, "false")]);
        check(&["-n", "-n=0"], &[(Setting::DryRun, "0")]);
        check(
            &["-n", "-f=0", "-p", "1"],
            &[(Setting::EnvoyPort, "1"), (Setting::DryRun, "true"), (Setting::RestoreFormat, "0")],
        );
        check(&["-nf"], &[(Setting::DryRun, "true"), (Setting::RestoreFormat, "true")]);
    }
}
