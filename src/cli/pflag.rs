//! The walk over the words of a call, as Go's pflag makes it: a flag that takes a value takes the word that follows,
//! whatever it is.
//!
//! clap ends at the first word that it does not know. A call is told all that is wrong with it at once, the values of
//! the flags that are right included. So the words that are no flags of the command are taken out here, each with what
//! is wrong with it. What is left is the call, unless clap has something to print.

use super::command::{COMMANDS, Entry};
use policy::settings::{Kind, Row, Setting, TABLE, Topic, nearest};
use policy::{Problem, sources};
use std::ffi::OsString;

/// Upstream's log flags may stand before the command as well.
pub(super) fn is_global(row: &Row) -> bool {
    matches!(row.topic, Topic::Logging | Topic::Compatibility)
}

/// What a walk over the words finds.
pub(super) struct Sifted {
    /// The words that clap will understand. The first one is the program.
    pub(super) words: Vec<OsString>,
    /// What is wrong with the others.
    pub(super) problems: Vec<Problem>,
    /// The command and its flags in the order of the words. `None` where clap has to answer: asked for help or the
    /// version, or met with a word after which it goes no further.
    pub(super) read: Option<(&'static Entry, Vec<(Setting, String)>)>,
}

/// Walks over the words. The first one is the program.
pub(super) fn sift(words: impl IntoIterator<Item = OsString>) -> Sifted {
    let mut words = words.into_iter();
    let mut sieve = Sieve {
        entry: None,
        met_word: false,
        is_for_clap: false,
        known: words.next().into_iter().collect(),
        flags: Vec::new(),
        problems: Vec::new(),
    };
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        let flags_before = sieve.flags.len();
        match sieve.read(&text) {
            Verdict::Keep => sieve.known.push(word),
            Verdict::KeepAs(flag) => sieve.known.push(flag.into()),
            Verdict::KeepWithNext(setting) => match words.next() {
                Some(value) => {
                    sieve.flags.push((setting, sources::text(&value)));
                    sieve.known.extend([word, value]);
                }
                None => {
                    sieve.flags.truncate(flags_before);
                    let flag = setting.row().option();
                    sieve.problems.push(Problem::of(&flag, "needs a value; write --flag= for an empty one"));
                }
            },
            // Switches that stand before an unknown letter go with it.
            Verdict::Drop => sieve.flags.truncate(flags_before),
            Verdict::DropWithValue => {
                sieve.flags.truncate(flags_before);
                drop(words.next_if(|next| sieve.may_be_value(next)));
            }
            // Whatever clap makes of the rest (`help`, a command that does not exist), it ends there.
            Verdict::End => {
                sieve.is_for_clap |= word != "--" || words.peek().is_some();
                sieve.known.push(word);
                sieve.known.extend(words);
                break;
            }
        }
    }
    let Sieve { entry, is_for_clap, known, flags, problems, .. } = sieve;
    let read = entry.filter(|_| !is_for_clap).map(|entry| (entry, flags));
    Sifted { words: known, problems, read }
}

/// What becomes of a word.
enum Verdict {
    Keep,
    /// As the flag that is meant.
    KeepAs(String),
    /// With the next word, whatever that is, as the value of this setting.
    KeepWithNext(Setting),
    Drop,
    /// With the next word, if that may be its value: nobody knows whether the flag takes one.
    DropWithValue,
    /// From here on, all is kept.
    End,
}

/// What a bare switch says.
const ON: &str = "true";

struct Sieve {
    entry: Option<&'static Entry>,
    /// Whether the one word was there that may stand alone.
    met_word: bool,
    /// Whether clap is asked for something that only it can answer.
    is_for_clap: bool,
    known: Vec<OsString>,
    flags: Vec<(Setting, String)>,
    problems: Vec<Problem>,
}

impl Sieve {
    /// The flags that may stand here.
    fn rows(&self) -> impl Iterator<Item = &'static Row> + use<> {
        let entry = self.entry;
        let here = move |row: &&Row| entry.map_or(is_global(row), |entry| entry.takes(row));
        TABLE.iter().filter(here).filter(|row| !row.long.is_empty())
    }

    fn read(&mut self, word: &str) -> Verdict {
        match word.strip_prefix("--") {
            Some("") => Verdict::End,
            Some(long) => self.long(long),
            None if word.len() > 1 && word.starts_with('-') => self.cluster(word),
            None => self.bare(word),
        }
    }

    fn long(&mut self, flag: &str) -> Verdict {
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        match (self.rows().find(|row| row.long == name), value) {
            (Some(row), Some(value)) => self.take(row, value),
            (Some(row), None) => match row.kind {
                Kind::Value(_) => Verdict::KeepWithNext(row.setting),
                Kind::Switch => self.take(row, ON),
            },
            (None, _) if matches!(flag, "help" | "version") => self.leave_to_clap(),
            (None, _) => self.unknown(&format!("--{name}"), value.is_some()),
        }
    }

    /// `-nfp 15001`, `-nfp15001`, `-n=0`.
    fn cluster(&mut self, word: &str) -> Verdict {
        let mut letters = word.chars();
        letters.next(); // The dash.
        while let Some(letter) = letters.next() {
            let rest = letters.as_str();
            let value = rest.strip_prefix('=');
            let row = self.rows().find(|row| row.short == Some(letter));
            match (row, row.map(|row| row.kind)) {
                (Some(row), Some(Kind::Value(_))) if rest.is_empty() => {
                    return Verdict::KeepWithNext(row.setting);
                }
                (Some(row), Some(Kind::Value(_))) => return self.take(row, value.unwrap_or(rest)),
                (Some(row), Some(Kind::Switch)) => match value {
                    Some(value) => return self.take(row, value),
                    None => drop(self.take(row, ON)),
                },
                _ if matches!(letter, 'h' | 'V') => return self.leave_to_clap(),
                _ => return self.unknown(&format!("-{letter}"), word.contains('=')),
            }
        }
        Verdict::Keep
    }

    fn take(&mut self, row: &Row, value: &str) -> Verdict {
        self.flags.push((row.setting, value.to_owned()));
        Verdict::Keep
    }

    fn leave_to_clap(&mut self) -> Verdict {
        self.is_for_clap = true;
        Verdict::Keep
    }

    fn bare(&mut self, word: &str) -> Verdict {
        if self.entry.is_none() {
            self.entry = COMMANDS.iter().find(|entry| entry.name == word);
            return if self.entry.is_some() { Verdict::Keep } else { Verdict::End };
        }
        let meant =
            self.entry.and_then(|entry| entry.word).filter(|_| !std::mem::replace(&mut self.met_word, true));
        if let Some(setting) = meant {
            self.flags.push((setting, word.to_owned()));
            return Verdict::KeepAs(format!("--{}={word}", setting.row().long));
        }
        let text = "is not expected; values of switches are written --dry-run=false";
        self.problems.push(Problem::with_item("argument", word, text));
        Verdict::Drop
    }

    fn unknown(&mut self, name: &str, has_value: bool) -> Verdict {
        let text = match self.similar(name) {
            Some(flag) => format!("no such flag; did you mean --{flag}?"),
            None => "no such flag; --help lists those there are".to_owned(),
        };
        self.problems.push(Problem::of(name, text));
        if has_value { Verdict::Drop } else { Verdict::DropWithValue }
    }

    /// The flag that is most like a misspelt one.
    fn similar(&self, name: &str) -> Option<&'static str> {
        nearest(name.strip_prefix("--")?, self.rows().map(|row| row.long))
    }

    /// Whether a word is neither a flag nor a command.
    fn may_be_value(&self, word: &OsString) -> bool {
        let is_command = self.entry.is_none() && COMMANDS.iter().any(|entry| word == entry.name);
        !word.to_string_lossy().starts_with('-') && !is_command
    }
}
