//! The record stored with rules: the command, and the settings of capture.

use crate::mesh::Mesh;
use crate::settings::{self, Setting, SettingKind, SettingRow, Topic};
use crate::sources::pflag::{self, Flags, PflagWord};
use crate::sources::{Given, Raw, Source, boolean};
use rules::desired::Made;

/// Creates a record; `at` is UTC in RFC 3339. Pods with the same settings have the same record.
pub fn made(version: &str, command: &str, settings: String, at: &str) -> Made {
    let at = at.split_once('.').map_or(at.to_owned(), |(seconds, _)| format!("{seconds}Z"));
    Made { version: version.to_owned(), command: command.to_owned(), at, settings }
}

/// Settings of capture as flags in shell syntax, with one-letter flags where possible: space is limited.
pub fn settings_text(raw: &Raw) -> String {
    let intended = raw.iter().filter(|(setting, _)| setting.is_for(raw.mesh()));
    let capture = intended.map(|(setting, given)| (setting.row(), given.value.trim()));
    let words = capture.filter(|(row, _)| row.topic == Topic::Capture).map(|(row, value)| {
        let flag = row.short_option();
        match row.kind {
            SettingKind::Switch if boolean(value) == Some(true) => flag,
            SettingKind::Switch => format!("{flag}={value}"),
            SettingKind::Value(_) => format!("{flag} {}", quoted(value)),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

pub fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/+=@%".contains(c);
    match !value.is_empty() && value.chars().all(plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', "'\\''")),
    }
}

/// Parses a record by [`settings_text`]; `None` for other text, or the record of a version with other settings.
pub fn parse_settings_text(mesh: Mesh, note: &str) -> Option<Raw> {
    let rows: Vec<&'static SettingRow> =
        settings::of(mesh).filter(|row| row.topic == Topic::Capture).collect();
    let flags = Flags::of(rows.iter().copied());
    let mut given: Vec<(&'static SettingRow, String)> = Vec::new();
    let mut words = shlex::split(note)?.into_iter();
    while let Some(word) = words.next() {
        // A setting without a flag is stored under its variable.
        if let Some(row) = rows.iter().find(|row| row.long.is_empty() && row.option() == word) {
            given.push((row, words.next()?));
            continue;
        }
        match pflag::word(&word, &flags) {
            PflagWord::Flags(found, waiting) => {
                given.extend(found);
                if let Some(row) = waiting {
                    given.push((row, words.next()?));
                }
            }
            PflagWord::End | PflagWord::Unknown { .. } | PflagWord::Bare => return None,
        }
    }
    let source = |row: &SettingRow| match row.long {
        "" => Source::Variable(row.variables[0]),
        long => Source::Flag(long),
    };
    let given = given.into_iter().map(|(row, value)| (row.setting, Given { value, source: source(row) }));
    let named = (mesh != Mesh::default()).then_some((Setting::Mesh, mesh.name()));
    Some(Raw::of(given).over(Raw::of_flags(named)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn settings_text_is_valid_shell_syntax() {
        let flags = [
            (Setting::InboundPorts, "*"),
            (Setting::ServiceExcludeCidr, "10.0.0.0/8,fd00::/8"),
            (Setting::RedirectDns, "true"),
            (Setting::CaptureAllDns, "false"),
            (Setting::DryRun, "true"),
        ];
        let flags = flags.map(|(setting, value)| (setting, value.to_owned()));
        let text = settings_text(&Raw::new(flags, |_| true, |_| None));
        assert_eq!(text, "-b '*' -x 10.0.0.0/8,fd00::/8 --redirect-dns --capture-all-dns=false");
    }

    fn settings() -> impl Strategy<Value = (Mesh, Vec<(Setting, String)>)> {
        let mesh = proptest::sample::select(Mesh::ALL);
        mesh.prop_flat_map(|mesh| {
            let rows: Vec<&'static SettingRow> =
                mesh.settings().iter().filter(|row| row.topic == Topic::Capture).collect();
            let value = |row: &'static SettingRow| match row.kind {
                SettingKind::Switch => {
                    proptest::sample::select(vec!["true".to_owned(), "false".to_owned()]).boxed()
                }
                SettingKind::Value(_) => {
                    "[ -~]{0,12}".prop_map(|text: String| text.trim().to_owned()).boxed()
                }
            };
            let given =
                proptest::sample::select(rows).prop_flat_map(move |row| (Just(row.setting), value(row)));
            (Just(mesh), proptest::collection::vec(given, 0..5))
        })
    }

    proptest! {
        #[test]
        fn settings_text_round_trips((mesh, given) in settings()) {
            let mesh_named = (mesh != Mesh::default()).then(|| (Setting::Mesh, mesh.name().to_owned()));
            let raw = Raw::new(mesh_named.into_iter().chain(given), |_| true, |_| None);
            let values = |raw: &Raw| raw.iter().map(|(setting, given)| (setting, given.value.clone())).collect::<Vec<_>>();
            let read = parse_settings_text(mesh, &settings_text(&raw));
            prop_assert_eq!(read.as_ref().map(values), Some(values(&raw)), "{}", settings_text(&raw));
        }
    }

    #[test]
    fn other_text_is_not_a_record() {
        for text in ["-b", "-b '*", "--no-such-flag 1", "word", "--"] {
            assert_eq!(parse_settings_text(Mesh::Istio, text), None, "{text}");
        }
    }

    #[test]
    fn times_have_seconds() {
        let made = made("1", "apply", String::new(), "1970-01-02T00:00:00.123000Z");
        assert_eq!(made.at, "1970-01-02T00:00:00Z");
    }
}
