//! Flags in Go's pflag syntax, for the command line and container arguments: `-p 15001`, `-p15001`, `-p=15001`,
//! `--envoy-port=15001`; switches bare or with `=true`; a flag that takes a value takes any next word.

use super::raw::text;
use crate::mesh::Mesh;
use crate::settings::{Setting, SettingKind, SettingRow, foreign, nearest};
use std::ffi::OsStr;

#[derive(Debug)]
pub enum PflagWord {
    End,
    /// Flags with values, and a flag whose value is the next word.
    Flags(Vec<(&'static SettingRow, String)>, Option<&'static SettingRow>),
    Unknown {
        name: String,
        has_value: bool,
    },
    Bare,
}

#[derive(Clone, Debug)]
pub struct Flags(pub Vec<(&'static SettingRow, Option<char>)>);

impl Flags {
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

pub fn mesh_of(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Option<Mesh> {
    let flag = Setting::Mesh.row().option();
    let mut words = words.into_iter().map(|word| text(word.as_ref())).take_while(|word| word != "--");
    let mut mesh = None;
    // A misspelt name is refused later; until then it counts as the nearest name.
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

pub const UNKNOWN: &str = "unknown flag";

/// Problem with an unknown flag. Other meshes' flags are recognized if the call accepts `--mesh`.
pub fn unknown(name: &str, flags: &Flags) -> String {
    let takes_mesh = flags.rows().any(|row| row.setting == Setting::Mesh);
    let mesh = flags.rows().find_map(|row| row.setting.mesh()).filter(|_| takes_mesh);
    if let Some(text) = mesh.and_then(|mesh| foreign(name, mesh)) {
        return text;
    }
    let similar =
        name.strip_prefix("--").and_then(|misspelt| nearest(misspelt, flags.rows().map(|row| row.long)));
    match similar {
        Some(flag) => format!("unknown flag; did you mean --{flag}?"),
        None => UNKNOWN.to_owned(),
    }
}

/// Problem with a word that belongs to no flag, usually a switch value.
pub fn stray(flags: &Flags) -> String {
    let switches = || flags.rows().filter(|row| row.kind == SettingKind::Switch);
    let known = switches().find(|row| row.long == "dry-run").or_else(|| switches().next());
    match known {
        Some(row) => format!("is not expected; write switch values as {}=false", row.option()),
        None => "is not expected".to_owned(),
    }
}

pub fn lacks_value(row: &SettingRow) -> String {
    format!("needs a value; write {}= for an empty one", row.option())
}

/// Former names of flags, still accepted.
const FORMER: [(&str, &str); 2] = [("format", "output"), ("as", "sender")];

fn of_long(flag: &str, mut rows: impl Iterator<Item = &'static SettingRow>) -> PflagWord {
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (flag, None),
    };
    match (rows.find(|row| row.long == name || FORMER.contains(&(name, row.long))), value) {
        (Some(row), Some(value)) => PflagWord::Flags(vec![(row, value)], None),
        (Some(row), None) if row.kind == SettingKind::Switch => {
            PflagWord::Flags(vec![(row, "true".to_owned())], None)
        }
        (Some(row), None) => PflagWord::Flags(Vec::new(), Some(row)),
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
            (SettingKind::Switch, None) => found.push((row, "true".to_owned())),
            (SettingKind::Value(_), _) if rest.is_empty() => return PflagWord::Flags(found, Some(row)),
            (_, value) => {
                found.push((row, value.unwrap_or(rest).to_owned()));
                break;
            }
        }
    }
    PflagWord::Flags(found, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    #[test]
    fn unknown_flags_have_a_remedy() {
        let of = |mesh: Mesh| Flags::of(settings::of(mesh));
        let (istio, kuma) = (of(Mesh::Istio), of(Mesh::Kuma));
        let own = Flags::of(Mesh::Linkerd.settings().iter());
        assert_eq!(unknown("--zzz", &istio), "unknown flag");
        assert_eq!(unknown("-Z", &istio), "unknown flag");
        assert_eq!(unknown("--proxy-ui", &istio), "unknown flag; did you mean --proxy-uid?");
        assert_eq!(unknown("--kuma-dp-user", &istio), "is a flag of kuma; add --mesh kuma");
        assert_eq!(unknown("-b", &kuma), "is a flag of istio; for kuma use --include-inbound-ports");
        assert_eq!(unknown("--kuma-dp-user", &own), "unknown flag");
    }

    #[test]
    fn stray_words_are_probably_values_of_switches() {
        let no_switch = Flags::of(Mesh::Linkerd.settings().iter().filter(|row| row.long == "proxy-uid"));
        let one = Flags::of(Mesh::Linkerd.settings().iter().filter(|row| row.long == "ipv6"));
        let with_dry_run = Flags::of(settings::of(Mesh::Istio));
        for (flags, expected) in [
            (no_switch, "is not expected"),
            (one, "is not expected; write switch values as --ipv6=false"),
            (with_dry_run, "is not expected; write switch values as --dry-run=false"),
        ] {
            assert_eq!(stray(&flags), expected);
        }
    }

    #[test]
    fn the_last_mesh_before_the_end_of_flags_counts() {
        for (words, expected) in [
            (&["--mesh", "kuma"][..], Some(Mesh::Kuma)),
            (&["--mesh=kuma", "x", "--mesh", "linkerd"], Some(Mesh::Linkerd)),
            (&["--mesh=linkerd", "--", "--mesh=kuma"], Some(Mesh::Linkerd)),
            (&["--mesh=kuma", "--mesh=zzz"], Some(Mesh::Kuma)),
            (&["--meshes=kuma"], None),
            (&["--mesh"], None),
            (&["mesh", "kuma"], None),
            (&["--mesh", " kumma "], Some(Mesh::Kuma)),
        ] {
            assert_eq!(mesh_of(words), expected, "{words:?}");
        }
    }

    #[test]
    fn letters_share_a_dash_until_one_takes_the_rest() {
        let flags = Flags::of(settings::of(Mesh::Istio));
        let read = |text: &str| {
            let pairs = |found: &[(&'static SettingRow, String)]| {
                found.iter().map(|(row, value)| format!("{}={value} ", row.long)).collect::<String>()
            };
            match word(text, &flags) {
                PflagWord::End => "end".to_owned(),
                PflagWord::Flags(found, None) => pairs(&found),
                PflagWord::Flags(found, Some(row)) => format!("{}{}=?", pairs(&found), row.long),
                PflagWord::Unknown { name, has_value } => format!("unknown {name} {has_value}"),
                PflagWord::Bare => "bare".to_owned(),
            }
        };
        for (text, expected) in [
            ("--", "end"),
            ("-", "bare"),
            ("", "bare"),
            ("x", "bare"),
            ("-p15002", "envoy-port=15002 "),
            ("-p=15002", "envoy-port=15002 "),
            ("-np", "dry-run=true envoy-port=?"),
            ("-n=0", "dry-run=0 "),
            ("-nZ", "unknown -Z false"),
            ("-Z=1", "unknown -Z true"),
            ("--envoy-port", "envoy-port=?"),
            ("--envoy-port=", "envoy-port= "),
            ("--dry-run", "dry-run=true "),
            ("--zzz=1", "unknown --zzz true"),
            ("--zzz", "unknown --zzz false"),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }
}
