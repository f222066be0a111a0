//! Words as Go's pflag takes them: which are flags, and whether the next word is a value.
//!
//! The command line and the arguments of containers are read by this one walk: `-p 15001`, `-p15001`, `-p=15001`,
//! `--envoy-port=15001`; switches bare or with `=true`; a flag that takes a value takes the word that follows, whatever
//! it is.

use super::raw::text;
use crate::mesh::Mesh;
use crate::settings::{Setting, SettingKind, SettingRow, counterpart, nearest};
use std::ffi::OsStr;

#[derive(Debug)]
pub enum PflagWord {
    /// `--`: no flags follow.
    End,
    Flags(Vec<(&'static SettingRow, String)>),
    /// The same, and one more whose value is the next word.
    NeedsValue(Vec<(&'static SettingRow, String)>, &'static SettingRow),
    /// Something like an unknown flag, as far as its name goes.
    Unknown {
        name: String,
        has_value: bool,
    },
    /// No flag.
    Bare,
}

/// The flags of a call, each with the letter that it has there.
#[derive(Clone, Debug)]
pub struct Flags(pub Vec<(&'static SettingRow, Option<char>)>);

impl Flags {
    /// The flags of rows that have their own letters.
    pub fn of(rows: impl Iterator<Item = &'static SettingRow>) -> Self {
        Self(rows.map(|row| (row, row.short)).collect())
    }

    pub fn rows(&self) -> impl Iterator<Item = &'static SettingRow> {
        self.0.iter().map(|(row, _)| *row).filter(|row| !row.long.is_empty())
    }

    pub fn row(&self, letter: char) -> Option<&'static SettingRow> {
        self.0.iter().find(|(_, short)| *short == Some(letter)).map(|(row, _)| *row)
    }
}

pub fn word(word: &str, flags: &Flags) -> PflagWord {
    match word.strip_prefix("--") {
        Some("") => PflagWord::End,
        Some(long) => of_long(long, flags.rows()),
        None if word.len() > 1 && word.starts_with('-') => of_cluster(word, flags),
        None => PflagWord::Bare,
    }
}

/// The mesh that words are for, which decides what the others mean: the last that is named before `--`.
pub fn mesh_of(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Option<Mesh> {
    let flag = Setting::Mesh.row().option();
    let mut words = words.into_iter().map(|word| text(word.as_ref())).take_while(|word| word != "--");
    let mut mesh = None;
    // A name that is misspelt is refused where it is read; until then it counts as the nearest one.
    let intended = |value: String| Mesh::nearest(value.trim()).and_then(|name| name.parse().ok());
    while let Some(word) = words.next() {
        let value = match word.strip_prefix(&flag) {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        mesh = value.and_then(intended).or(mesh);
    }
    mesh
}

/// The problem with a flag that resembles none.
pub const UNKNOWN: &str = "unknown flag";

/// The problem with a flag that a call does not take. Where another mesh could be named there, its flags
/// are known as such.
pub fn unknown(name: &str, flags: &Flags) -> String {
    let takes_mesh = flags.rows().any(|row| row.setting == Setting::Mesh);
    let mesh = flags.rows().find_map(|row| row.setting.mesh()).filter(|_| takes_mesh);
    if let Some(text) = mesh.and_then(|mesh| counterpart::foreign(name, mesh)) {
        return text;
    }
    let similar =
        name.strip_prefix("--").and_then(|misspelt| nearest(misspelt, flags.rows().map(|row| row.long)));
    match similar {
        Some(flag) => format!("unknown flag; did you mean --{flag}?"),
        None => UNKNOWN.to_owned(),
    }
}

/// The problem with a word that belongs to no flag. Most are values of switches.
pub fn stray(flags: &Flags) -> String {
    let switches = || flags.rows().filter(|row| row.kind == SettingKind::Switch);
    let known = switches().find(|row| row.long == "dry-run").or_else(|| switches().next());
    match known {
        Some(row) => format!("is not expected; values of switches are written {}=false", row.option()),
        None => "is not expected".to_owned(),
    }
}

fn of_long(flag: &str, mut rows: impl Iterator<Item = &'static SettingRow>) -> PflagWord {
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (flag, None),
    };
    match (rows.find(|row| row.long == name), value) {
        (Some(row), Some(value)) => PflagWord::Flags(vec![(row, value)]),
        (Some(row), None) => match row.kind {
            SettingKind::Value(_) => PflagWord::NeedsValue(Vec::new(), row),
            SettingKind::Switch => PflagWord::Flags(vec![(row, "true".to_owned())]),
        },
        (None, value) => PflagWord::Unknown { name: format!("--{name}"), has_value: value.is_some() },
    }
}

/// `-nfp 15001`, `-nfp15001`, `-n=0`.
fn of_cluster(word: &str, flags: &Flags) -> PflagWord {
    let mut found = Vec::new();
    for (at, letter) in word[1..].char_indices() {
        let Some(row) = flags.row(letter) else {
            return PflagWord::Unknown { name: format!("-{letter}"), has_value: word.contains('=') };
        };
        let rest = &word[1 + at + letter.len_utf8()..];
        match (row.kind, rest.strip_prefix('=')) {
            (SettingKind::Value(_), _) if rest.is_empty() => return PflagWord::NeedsValue(found, row),
            (SettingKind::Value(_), value) => {
                found.push((row, value.unwrap_or(rest).to_owned()));
                return PflagWord::Flags(found);
            }
            (SettingKind::Switch, Some(value)) => {
                found.push((row, value.to_owned()));
                return PflagWord::Flags(found);
            }
            (SettingKind::Switch, None) => found.push((row, "true".to_owned())),
        }
    }
    PflagWord::Flags(found)
}
