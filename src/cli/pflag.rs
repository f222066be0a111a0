//! The walk over the words of a call, as Go's pflag makes it ([`mesh::sources::pflag`]).
//!
//! clap ends at the first word that it does not know. Here all errors are reported together, including invalid values of
//! known flags: words that are no flags of the command are taken out, each with its problem. What is left is the call,
//! unless clap has something to print.

use super::command::{COMMANDS, Entry};
use mesh::Mesh;
use mesh::settings::{self, Row, Setting, Topic};
use mesh::sources::pflag::{self, Flags, Word};
use mesh::{Problem, sources};
use std::ffi::OsString;

/// Upstream's log flags may stand before the command as well.
pub(super) fn is_global(row: &Row) -> bool {
    matches!(row.topic, Topic::Logging | Topic::Compatibility)
}

/// What a walk over the words finds.
pub(super) struct ParsedArgs {
    /// The words that clap will understand. The first one is the program.
    pub(super) words: Vec<OsString>,
    /// The mesh whose flags are taken.
    pub(super) mesh: Mesh,
    /// What is wrong with the others.
    pub(super) problems: Vec<Problem>,
    /// The command and its flags in the order of the words. `None` where clap has to answer: asked for help or the
    /// version, or met with a word after which it goes no further.
    pub(super) read: Option<(&'static Entry, Vec<(Setting, String)>)>,
    /// The command line of another program, where the command takes one.
    pub(super) behind: Vec<OsString>,
}

/// Walks over the words. The first one is the program.
pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> ParsedArgs {
    let words: Vec<OsString> = words.into_iter().collect();
    let mesh = pflag::mesh_of(&words).unwrap_or_default();
    let mut words = words.into_iter();
    let mut parser = ArgParser {
        entry: None,
        mesh,
        flags: Flags::of(settings::of(mesh).filter(|row| is_global(row))),
        group: None,
        met_words: 0,
        is_for_clap: false,
        known: words.next().into_iter().collect(),
        given: Vec::new(),
        problems: Vec::new(),
    };
    let mut behind = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        match parser.read(&text) {
            WordAction::Keep(given) => {
                parser.take(given);
                parser.known.push(word);
            }
            WordAction::KeepAs(row, value) => parser.take_as(row, value),
            WordAction::KeepWithNext(mut given, row) => match words.next() {
                Some(value) => {
                    given.push((row, sources::text(&value)));
                    parser.take(given);
                    parser.known.extend([word, value]);
                }
                None => {
                    let text = "needs a value; write --flag= for an empty one";
                    parser.problems.push(Problem::of(&row.option(), text));
                }
            },
            WordAction::Drop => {}
            WordAction::DropWithValue => drop(words.next_if(|next| parser.may_be_value(next))),
            WordAction::End if word == "--" && parser.entry.is_some_and(Entry::takes_command) => {
                parser.known.push(word);
                behind.extend(words);
                parser.known.extend(behind.iter().cloned());
                break;
            }
            // What follows is no flag, whatever it looks like.
            WordAction::End if word == "--" && parser.entry.is_some() => {
                for word in words {
                    if let WordAction::KeepAs(row, value) = parser.bare(&sources::text(&word)) {
                        parser.take_as(row, value);
                    }
                }
                break;
            }
            // Whatever clap makes of the rest (`help`, a command that does not exist), it ends there.
            WordAction::End => {
                parser.is_for_clap = true;
                parser.known.push(word);
                parser.known.extend(words);
                break;
            }
        }
    }
    let ArgParser { entry, mesh, is_for_clap, known, given, problems, .. } = parser;
    let read = entry.filter(|_| !is_for_clap).map(|entry| (entry, given));
    ParsedArgs { words: known, mesh, problems, read, behind }
}

/// Flags with their values.
type Given = Vec<(&'static Row, String)>;

/// What becomes of a word.
enum WordAction {
    Keep(Given),
    /// As the flag that is meant, with the word as its value.
    KeepAs(&'static Row, String),
    /// With the next word, whatever that is, as the value of this flag.
    KeepWithNext(Given, &'static Row),
    Drop,
    /// With the next word, if that may be its value: an unknown flag may take one.
    DropWithValue,
    /// From here on, all is kept.
    End,
}

struct ArgParser {
    entry: Option<&'static Entry>,
    mesh: Mesh,
    /// Those that may stand here.
    flags: Flags,
    /// The command of which another is expected.
    group: Option<String>,
    /// How many words were there of those that may stand alone.
    met_words: usize,
    /// Whether clap is asked for something that only it can answer.
    is_for_clap: bool,
    known: Vec<OsString>,
    given: Vec<(Setting, String)>,
    problems: Vec<Problem>,
}

impl ArgParser {
    fn read(&mut self, word: &str) -> WordAction {
        match pflag::word(word, &self.flags) {
            Word::End => WordAction::End,
            Word::Flags(given) => WordAction::Keep(given),
            Word::NeedsValue(given, row) => WordAction::KeepWithNext(given, row),
            Word::Unknown { name, has_value } if self.is_of_clap(&name, has_value) => {
                self.is_for_clap = true;
                WordAction::Keep(Vec::new())
            }
            Word::Unknown { name, has_value } => self.unknown(&name, has_value),
            Word::Bare => self.bare(word),
        }
    }

    /// Takes a word that stands for a flag.
    fn take_as(&mut self, row: &'static Row, value: String) {
        self.known.push(format!("--{}={value}", row.long).into());
        self.take(vec![(row, value)]);
    }

    fn take(&mut self, given: Given) {
        self.given.extend(given.into_iter().map(|(row, value)| (row.setting, value)));
    }

    fn bare(&mut self, word: &str) -> WordAction {
        if self.entry.is_none() {
            self.entry = COMMANDS.iter().find(|entry| entry.within() == (self.group.as_deref(), word));
            if let Some(entry) = self.entry {
                self.flags = entry.flags(self.mesh);
                return WordAction::Keep(Vec::new());
            }
            if self.group.is_none() && COMMANDS.iter().any(|entry| entry.within().0 == Some(word)) {
                self.group = Some(word.to_owned());
                return WordAction::Keep(Vec::new());
            }
            return WordAction::End;
        }
        let meant = self.entry.and_then(|entry| entry.words().nth(self.met_words));
        if let Some(setting) = meant {
            self.met_words += 1;
            return WordAction::KeepAs(setting.row(), word.to_owned());
        }
        let text = match self.entry {
            Some(entry) if entry.takes_command() => "is not expected; a command follows --".to_owned(),
            Some(_) | None => pflag::stray(&self.flags),
        };
        self.problems.push(Problem::with_item("argument", word, text));
        WordAction::Drop
    }

    fn unknown(&mut self, name: &str, has_value: bool) -> WordAction {
        let mut of_commands = settings::of(self.mesh).filter(|row| !row.long.is_empty());
        let text = match self.entry {
            None if of_commands.any(|row| name == row.option()) => {
                format!("belongs after a command: sidecar-init COMMAND {name}")
            }
            Some(_) | None => pflag::unknown(name, &self.flags),
        };
        self.problems.push(Problem::of(name, text));
        if has_value { WordAction::Drop } else { WordAction::DropWithValue }
    }

    /// Whether clap answers: every command has help, and the program alone has a version.
    fn is_of_clap(&self, name: &str, has_value: bool) -> bool {
        match name {
            "-h" => true,
            "--help" => !has_value,
            "-V" => self.entry.is_none(),
            "--version" => self.entry.is_none() && !has_value,
            _ => false,
        }
    }

    /// Whether a word is neither a flag nor a command.
    fn may_be_value(&self, word: &OsString) -> bool {
        let is_command = self.entry.is_none() && COMMANDS.iter().any(|entry| word == entry.name);
        !word.to_string_lossy().starts_with('-') && !is_command
    }
}
