//! Registry of meshes: maps a mesh's name to its folder, and reads and writes the settings stored with rules. Other code uses a
//! [`CapturePolicy`] without naming a mesh.

use crate::facts::{ConfigKeys, Ipv6Advice, ListItem, ProxyProgram};
use crate::limit::{Caution, Limit};
use crate::mesh::{KnownAnnotations, Mesh, meshes};
use crate::policy::{CapturePart, CapturePolicy, PolicyFacts};
use crate::recognition::{RecognizedRule, Role, RuleContext};
use crate::settings::{self, Setting, SettingKind, SettingRow, Topic};
use crate::sources::pflag::{self, Flags, PflagWord};
use crate::sources::{Given, Host, Raw, SettingReader, Source, boolean};
use crate::{InputProblem, Problems, pod::mesh::Form, reason::RuleReason};
use rules::{ByFamily, Family, Ownership, RuleSet, desired::Made};
use std::ops::Deref;

pub struct MeshEntry {
    pub settings: &'static [SettingRow],
    /// The injector's defaults; each applies unless one of the listed settings is given.
    pub injector_defaults: &'static [(Setting, &'static str, &'static [Setting])],
    /// `None` for the default mesh, which owns all other pods.
    pub(crate) pods: Option<&'static Form>,
    pub(crate) annotations: KnownAnnotations,
    pub proxy_program: ProxyProgram,
    pub reasons: &'static [RuleReason],
    /// iptables chains that the mesh's rules lead to, in capitals, with roles.
    pub chains: &'static [(&'static str, Role)],
    pub keys: ConfigKeys,
    /// Advice if IPv6 is not captured, unless [`ConfigKeys::ipv6`] applies.
    pub(crate) without_ipv6: Option<fn(&Raw, bool) -> Ipv6Advice>,
    pub limits: &'static [Limit],
    pub cautions: &'static [Caution],
    /// Remedy if the rules capture only the other family, but the pod has addresses of this one.
    pub remedy_of_gap: ByFamily<&'static str>,
    pub(crate) recognition: Recognition,
}

/// `v4_always!("mesh", "--flag for IPv6")`: remedy for each family's gap in a mesh that always captures IPv4.
macro_rules! v4_always {
    ($mesh:literal, $option:literal) => {
        ::rules::ByFamily {
            v4: concat!("set the rules again: ", $mesh, " always captures IPv4"),
            v6: concat!("set the rules with ", $option),
        }
    };
}

pub(crate) use v4_always;

/// Recognition of rules without a stored reason, where conditions and target are ambiguous.
pub(crate) struct Recognition {
    /// Reason of a rule from its comment, or from conditions with another meaning in this mesh.
    pub(crate) special: fn(&RuleContext<'_>) -> Option<RuleReason>,
    /// The reason's setting that made this rule.
    pub(crate) setting: fn(RuleReason, &RuleContext<'_>) -> Option<Setting>,
    /// Corrects the rules' reasons, given all rules.
    pub(crate) refine: fn(&mut [RecognizedRule<'_>]),
}

impl Recognition {
    pub(crate) const fn of(special: fn(&RuleContext<'_>) -> Option<RuleReason>) -> Self {
        Self { special, setting: |reason, _| reason.settings().first().copied(), refine: |_| {} }
    }
}

macro_rules! folders {
    ($($(#[doc = $doc:literal])* $mesh:ident $module:ident $name:literal;)*) => {
        impl Mesh {
            pub fn entry(self) -> &'static MeshEntry {
                match self {
                    $(Self::$mesh => &crate::$module::ENTRY,)*
                }
            }
        }

        pub const OWNERS: &[Ownership] = &[$(crate::$module::OWNERSHIP,)*];

        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Capture {
            $($(#[doc = $doc])* $mesh(crate::$module::CaptureConfig),)*
        }

        impl Deref for Capture {
            type Target = dyn CapturePolicy;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$mesh(config) => config,)*
                }
            }
        }

        $(impl From<crate::$module::CaptureConfig> for Capture {
            fn from(config: crate::$module::CaptureConfig) -> Self {
                Self::$mesh(config)
            }
        }

        impl CapturePolicy for crate::$module::CaptureConfig {
            fn mesh(&self) -> Mesh {
                Mesh::$mesh
            }

            fn write(&self, family: Family) -> RuleSet {
                crate::$module::write(self, family)
            }

            fn facts(&self) -> PolicyFacts {
                crate::$module::facts(self)
            }

            fn lists(&self) -> Vec<ListItem> {
                crate::$module::lists(self)
            }

            fn without(&self, part: CapturePart) -> Capture {
                match part {
                    CapturePart::Dns => crate::$module::without_dns(self.clone()).into(),
                    CapturePart::Ipv6 => Self { ipv6: false, ..self.clone() }.into(),
                }
            }
        })*

        /// The result is valid only if the reader has no problem. With `numbers_only`, host and pod have different users.
        pub fn configure(reader: &mut SettingReader<'_>, host: &dyn Host, numbers_only: bool) -> Capture {
            let mesh = of(reader);
            refuse(reader, mesh);
            match mesh {
                $(Mesh::$mesh => crate::$module::configure(reader, host, numbers_only).into(),)*
            }
        }
    };
}

meshes!(folders);

impl Mesh {
    pub fn settings(self) -> &'static [SettingRow] {
        self.entry().settings
    }

    pub fn ownership(self) -> Ownership {
        OWNERS[self as usize]
    }

    pub(crate) fn pods(self) -> Option<&'static Form> {
        self.entry().pods
    }

    pub fn nearest(word: &str) -> Option<&'static str> {
        settings::nearest(word, Self::ALL.iter().map(|mesh| mesh.name()))
    }
}

pub fn of(reader: &mut SettingReader<'_>) -> Mesh {
    let complaint = format!("is not a mesh; expected {}", settings::alternatives(Mesh::NAMES));
    reader.optional(Setting::Mesh, &complaint, |text| text.parse::<Mesh>().ok());
    reader.raw.mesh()
}

/// Refuses unsupported settings; in annotations, which the mesh's own programs read too, only warns.
fn refuse(reader: &mut SettingReader<'_>, mesh: Mesh) {
    for row in mesh.settings() {
        let Some([why, remedy]) = row.refused else { continue };
        let (items, source) = reader.items(row.setting);
        let is_on = match row.kind {
            SettingKind::Switch => reader.switch(row.setting),
            SettingKind::Value(_) => !items.is_empty(),
        };
        match source {
            _ if !is_on => {}
            Source::Annotation(name) => reader.warn(format!("{name}: {why}")),
            _ => reader.blame(row.setting, &format!("{why}; {remedy}")),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub capture: Capture,
    pub warnings: Vec<String>,
}

/// Reads only capture settings. Problems found `before` come first.
pub fn resolve(raw: &Raw, host: &dyn Host, before: Vec<InputProblem>) -> Result<Resolved, Problems> {
    resolve_as(raw, host, before, false)
}

pub(crate) fn resolve_as(
    raw: &Raw,
    host: &dyn Host,
    before: Vec<InputProblem>,
    numbers_only: bool,
) -> Result<Resolved, Problems> {
    let mut reader = SettingReader::new(raw, before);
    let capture = configure(&mut reader, host, numbers_only);
    let warnings = reader.finish()?;
    Ok(Resolved { capture, warnings })
}

/// Creates a record; `at` is UTC in RFC 3339. Pods with the same settings have the same record.
pub fn made(version: &str, command: &str, settings: String, at: &str) -> Made {
    let at = at.split_once('.').map_or(at.to_owned(), |(seconds, _)| format!("{seconds}Z"));
    Made { version: version.to_owned(), command: command.to_owned(), at, settings }
}

/// Capture settings as flags in shell syntax, with one-letter flags where possible, as space is limited.
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

/// Parses a record by [`settings_text`]; `None` for other text, or a record from a version with other settings.
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
    use crate::sources::NullHost;
    use proptest::prelude::*;

    #[test]
    fn misspelt_mesh_is_recognized_and_refused() {
        for (word, nearest) in [("linkrd", Some("linkerd")), ("kuma", Some("kuma")), ("zzz", None)] {
            assert_eq!(Mesh::nearest(word), nearest, "{word}");
        }
        let refused = |name: &str| {
            let raw = Raw::of_flags([(Setting::Mesh, name)]);
            resolve(&raw, &NullHost, Vec::new()).expect_err(name).0[0].to_string()
        };
        let expected = "expected istio, linkerd, kuma or ambient";
        assert_eq!(refused("consul"), format!("--mesh: \"consul\" is not a mesh; {expected}"));
        assert_eq!(
            refused("isto"),
            format!("--mesh: \"isto\" is not a mesh; did you mean istio? {expected}")
        );
    }

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
