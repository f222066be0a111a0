//! What Go's pflag needs and clap can't say: a layer that looks at the words before clap takes them.
//!
//! clap ends at the first word that it does not know. A call is told all that is wrong with it at once, the values of
//! the flags that are right included. So the words that are no flags of the command are taken out here, each with what
//! is wrong with it; clap gets the rest. The walk is pflag's own: a flag that takes a value takes the word that
//! follows, whatever it is.

use super::command::{COMMANDS, Entry};
use policy::Problem;
use policy::settings::{Kind, Row, TABLE, Topic};
use std::ffi::OsString;

/// Upstream's log flags may stand before the command as well.
pub(super) fn is_global(row: &Row) -> bool {
    matches!(row.topic, Topic::Logging | Topic::Compatibility)
}

/// The words that clap will understand, and what is wrong with the others. The first word is the program.
pub(super) fn sift(words: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<Problem>) {
    let mut words = words.into_iter();
    let mut sieve = Sieve {
        entry: None,
        met_word: false,
        known: words.next().into_iter().collect(),
        problems: Vec::new(),
    };
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        match sieve.read(&text) {
            Verdict::Keep => sieve.known.push(word),
            Verdict::KeepAs(flag) => sieve.known.push(flag.into()),
            Verdict::KeepWithNext => match words.next() {
                Some(value) => sieve.known.extend([word, value]),
                None => {
                    let flag = sieve.option_at_end(&text);
                    sieve.problems.push(Problem::of(&flag, "needs a value; write --flag= for an empty one"));
                }
            },
            Verdict::Drop => {}
            Verdict::DropWithValue => drop(words.next_if(|next| sieve.may_be_value(next))),
            // Whatever clap makes of the rest (`help`, a command that does not exist), it ends there.
            Verdict::End => {
                sieve.known.push(word);
                sieve.known.extend(words);
                break;
            }
        }
    }
    (sieve.known, sieve.problems)
}

/// What becomes of a word.
enum Verdict {
    Keep,
    /// As the flag that is meant.
    KeepAs(String),
    /// With the next word as its value, whatever that is.
    KeepWithNext,
    Drop,
    /// With the next word, if that may be its value: nobody knows whether the flag takes one.
    DropWithValue,
    /// From here on, all is kept.
    End,
}

struct Sieve {
    entry: Option<&'static Entry>,
    /// Whether the one word was there that may stand alone.
    met_word: bool,
    known: Vec<OsString>,
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
        let (name, has_value) = flag.split_once('=').map_or((flag, false), |(name, _)| (name, true));
        match self.rows().find(|row| row.long == name).map(|row| row.kind) {
            Some(Kind::Value(_)) if !has_value => Verdict::KeepWithNext,
            Some(Kind::Value(_) | Kind::Switch) => Verdict::Keep,
            None if matches!(flag, "help" | "version") => Verdict::Keep,
            None => self.unknown(&format!("--{name}"), has_value),
        }
    }

    /// `-nfp 15001`, `-nfp15001`, `-n=0`.
    fn cluster(&mut self, word: &str) -> Verdict {
        let mut letters = word.chars().skip(1).peekable();
        while let Some(letter) = letters.next() {
            match self.rows().find(|row| row.short == Some(letter)).map(|row| row.kind) {
                Some(Kind::Value(_)) if letters.peek().is_none() => return Verdict::KeepWithNext,
                Some(Kind::Value(_)) => return Verdict::Keep,
                Some(Kind::Switch) if letters.peek() == Some(&'=') => return Verdict::Keep,
                Some(Kind::Switch) => {}
                None if matches!(letter, 'h' | 'V') => return Verdict::Keep,
                None => return self.unknown(&format!("-{letter}"), word.contains('=')),
            }
        }
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

    /// The flag that is most like a misspelt one, by the measure and the threshold that clap has for commands.
    fn similar(&self, name: &str) -> Option<&'static str> {
        const ALIKE: f64 = 0.7;
        let wanted = name.strip_prefix("--")?;
        let measured = self.rows().map(|row| (strsim::jaro(wanted, row.long), row.long));
        let best = measured.filter(|(alike, _)| *alike > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, flag)| flag)
    }

    /// Whether a word is neither a flag nor a command.
    fn may_be_value(&self, word: &OsString) -> bool {
        let is_command = self.entry.is_none() && COMMANDS.iter().any(|entry| word == entry.name);
        !word.to_string_lossy().starts_with('-') && !is_command
    }

    /// The flag with which a word ends, as its long form is written.
    fn option_at_end(&self, word: &str) -> String {
        let short = word.chars().last().filter(|_| !word.starts_with("--"));
        let row = self.rows().find(|row| short.is_some() && row.short == short);
        row.map_or_else(|| word.to_owned(), Row::option)
    }
}
