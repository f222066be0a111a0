//! Tables of all settings, one for each mesh and a common one. Meanings and defaults are upstream's unless the help differs.

pub mod levels;
pub mod mapping;
mod table;

use crate::mesh::{Feature, Mesh};
use std::fmt;
use table::TABLE;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingTable {
    Of(Mesh),
    Common,
}

impl SettingTable {
    pub fn rows(self) -> &'static [SettingRow] {
        match self {
            Self::Of(mesh) => mesh.settings(),
            Self::Common => TABLE,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setting {
    table: SettingTable,
    place: u16,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name())
    }
}

/// Settings of a call for a mesh, in `--help` order.
pub fn of(mesh: Mesh) -> impl Iterator<Item = &'static SettingRow> + Clone {
    let (first, others) = TABLE.split_at(TABLE.partition_point(|row| row.topic == Topic::Capture));
    first.iter().chain(mesh.settings()).chain(others)
}

pub fn all() -> impl Iterator<Item = &'static SettingRow> + Clone {
    Mesh::ALL.iter().flat_map(|mesh| mesh.settings()).chain(TABLE)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    Value(&'static str),
    /// Bare, or with `=true`, `=false`, `=1`, `=0`.
    Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    Capture,
    Operation,
    Manifest,
    Facts,
    Validation,
    Logging,
    /// Accepted so that old manifests keep working.
    Compatibility,
    /// Settings that exist only in the replaced program.
    DropIn,
    Packet,
    Diff,
    Explain,
    Lint,
    Render,
    Status,
    Trace,
    Sandbox,
    /// Options of `cni install` and `cni uninstall`.
    Install,
    Repair,
    AmbientHost,
    /// Options of `completions` and `man`.
    Generate,
}

impl Topic {
    const OF_ONE_COMMAND: &str = "This command";

    pub fn heading(self) -> &'static str {
        match self {
            Self::Capture => "Capture",
            Self::Operation => "Operation",
            Self::Manifest => "Manifest",
            Self::Facts => "Host facts",
            Self::Validation => "Validation",
            Self::Logging => "Logging",
            Self::DropIn => "Flags of the replaced program",
            Self::Compatibility => "Accepted for compatibility, without effect",
            Self::Packet => "The packet",
            _ => Self::OF_ONE_COMMAND,
        }
    }

    pub fn is_of_one_command(self) -> bool {
        matches!(self.heading(), "The packet" | Self::OF_ONE_COMMAND)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct SettingRow {
    pub setting: Setting,
    pub long: &'static str,
    pub short: Option<char>,
    /// The first one set wins.
    pub variables: &'static [&'static str],
    /// The mesh's annotations with the same meaning; the first one present wins.
    pub annotations: &'static [&'static str],
    pub file_key: Option<&'static str>,
    /// Separator that joins the values of a repeated flag; `None` if the last one wins.
    pub separator: Option<&'static str>,
    pub example: Option<&'static str>,
    pub values: &'static [&'static str],
    pub features: &'static [Feature],
    pub refused: Option<[&'static str; 2]>,
    pub kind: SettingKind,
    pub topic: Topic,
    pub help: &'static str,
}

pub const ANNOTATIONS: &str = "sidecar-init/";

impl SettingRow {
    /// Name of the setting: its flag without dashes, or else its variable.
    pub fn name(&self) -> &'static str {
        if self.long.is_empty() { self.variables[0] } else { self.long }
    }

    /// Name on the command line: `--flag`, or the variable if there is no flag.
    pub fn option(&self) -> String {
        match self.long {
            "" => self.variables[0].to_owned(),
            long => format!("--{long}"),
        }
    }

    pub fn short_option(&self) -> String {
        self.short.map_or_else(|| self.option(), |letter| format!("-{letter}"))
    }

    pub fn is_written(&self, word: &str) -> bool {
        self.option() == word || self.short_option() == word
    }

    pub fn mention(&self) -> String {
        match self.long {
            "" => self.option(),
            long => format!("{{--{long}}}"),
        }
    }

    /// Name in annotations and network configurations: the flag name, else the variable name. Only pods' settings have one.
    pub fn key(&self) -> Option<String> {
        let of_pod = self.topic == Topic::Capture && self.setting != Setting::EnvoyUser;
        let of_pod = of_pod || self.setting == Setting::DnsServers;
        of_pod.then(|| self.name().to_ascii_lowercase().replace('_', "-"))
    }

    pub fn annotation(&self) -> Option<String> {
        self.key().map(|key| format!("{ANNOTATIONS}{key}"))
    }
}

pub fn alternatives(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Most similar name, by clap's measure and threshold for commands.
pub fn nearest<'a>(misspelt: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.7;
    let names: Vec<&str> = names.collect();
    // A name that ends in the misspelt one wins over similar names: `istio-inbound-ports` for `inbound-ports`.
    let is_end = |name: &&str| name.strip_suffix(misspelt).is_some_and(|start| start.ends_with('-'));
    let mut longer = names.iter().copied().filter(is_end).filter(|_| misspelt.contains('-'));
    if let (Some(only), None) = (longer.next(), longer.next()) {
        return Some(only);
    }
    let measured = names.into_iter().map(|name| (strsim::jaro(misspelt, name), name));
    let best = measured.filter(|(alike, _)| *alike > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name)
}

/// Likely intended value: few letters differ, or only their case. A different digit makes a different value.
pub fn nearest_value<'a>(desired: &str, values: &[&'a str]) -> Option<&'a str> {
    let typos = |value: &str| strsim::osa_distance(&desired.to_lowercase(), &value.to_lowercase());
    let limit = if desired.chars().count() < 6 { 1 } else { 2 };
    let digits = |word: &str| word.chars().filter(char::is_ascii_digit).collect::<String>();
    let is_near = |value: &&str| digits(value) == digits(desired) && typos(value) <= limit;
    values.iter().copied().filter(is_near).min_by_key(|value| typos(value))
}

impl Setting {
    pub(crate) const fn at(table: SettingTable, place: u16) -> Self {
        Self { table, place }
    }

    pub fn row(self) -> &'static SettingRow {
        &self.table.rows()[usize::from(self.place)]
    }

    pub fn mesh(self) -> Option<Mesh> {
        match self.table {
            SettingTable::Of(mesh) => Some(mesh),
            SettingTable::Common => None,
        }
    }

    /// True if this flag makes a query use the flags' rules instead of the existing rules.
    pub fn describes_rules(self) -> bool {
        self.row().topic == Topic::Capture && self.mesh().is_some()
    }

    pub fn is_for(self, mesh: Mesh) -> bool {
        self.mesh().is_none_or(|own| own == mesh)
    }
}

/// Features that do not distinguish flags: list syntax, and omitting a direction.
const COARSE_FEATURES: [Feature; 2] = [Feature::Ranges, Feature::Directions];

pub fn counterparts(setting: Setting, mesh: Mesh) -> Vec<String> {
    let mut found = Vec::new();
    for feature in setting.row().features.iter().filter(|feature| !COARSE_FEATURES.contains(feature)) {
        let same = mesh.settings().iter().filter(|row| row.features.contains(feature));
        for option in same.filter(|row| !row.long.is_empty()).map(SettingRow::option) {
            if !found.contains(&option) {
                found.push(option);
            }
        }
    }
    found
}

/// Remark about a flag (with its dashes) that only other meshes have; `None` if none does.
pub(crate) fn foreign(name: &str, mesh: Mesh) -> Option<String> {
    let named = |other: &Mesh| other.settings().iter().find(|row| row.is_written(name));
    let of = |other: &Mesh| Some((*other, named(other)?.setting));
    let others: Vec<(Mesh, Setting)> =
        Mesh::ALL.iter().filter(|other| **other != mesh).filter_map(of).collect();
    let (first, setting) = others.first()?;
    let names: Vec<&str> = others.iter().map(|(other, _)| other.name()).collect();
    let whose = format!("is a flag of {}", names.join(" and "));
    if mesh == Mesh::default() {
        return Some(format!("{whose}; add --mesh {first}"));
    }
    let same = counterparts(*setting, mesh);
    Some(match same.is_empty() {
        true => format!("{whose}, without a counterpart for {mesh}; drop it, or give --mesh {first}"),
        false => format!("{whose}; for {mesh} use {}", same.join(" or ")),
    })
}

/// `settings! { TYPE of TABLE; TOPIC { NAME: "long" 'short' ["VARIABLE"] KIND, "help"; .. } .. }`; `_` for no short form.
/// Optional after the variables: `@ ["annotation"]`, a pod's annotations with the same meaning, the first present one winning;
/// `key "path"` in configuration files; `joined ","` for a repeatable flag, whose values form a list; `example "value"`;
/// `of [..]`, all values if they are few; `features [..]` of `docs/meshes.md` that the setting covers;
/// `refused ["why", "remedy"]` for an unsupported setting.
macro_rules! settings {
    (
        $holder:ident of $table:expr;
        $($topic:ident { $($setting:ident: $long:literal $short:tt $variables:tt $(@ $annotations:tt)? $(key $key:literal)? $(joined $separator:literal)? $(example $example:literal $(of $values:tt)?)? $(features [$($feature:ident),*])? $(refused $refused:tt)?, $kind:expr, $help:literal;)* })*
    ) => {
        enum SettingIndex {
            $($($setting,)*)*
        }

        #[expect(non_upper_case_globals, reason = "they act as enum variants, and are matched as such")]
        impl $holder {
            $($(#[doc = $help] pub const $setting: $crate::settings::Setting =
                $crate::settings::Setting::at($table, SettingIndex::$setting as u16);)*)*
        }

        pub(crate) const TABLE: &[$crate::settings::SettingRow] = &[$($($crate::settings::SettingRow {
            setting: $holder::$setting,
            long: $long,
            short: $crate::settings::settings!(@option $short),
            variables: &$variables,
            annotations: $crate::settings::settings!(@list $($annotations)?),
            file_key: $crate::settings::settings!(@option $($key)?),
            separator: $crate::settings::settings!(@option $($separator)?),
            example: $crate::settings::settings!(@option $($example)?),
            values: $crate::settings::settings!(@list $($($values)?)?),
            features: &[$($($crate::mesh::Feature::$feature,)*)?],
            refused: $crate::settings::settings!(@option $($refused)?),
            kind: $kind,
            topic: $crate::settings::Topic::$topic,
            help: $help,
        },)*)*];
    };
    (@option $(_)?) => { None };
    (@option $value:tt) => { Some($value) };
    (@list) => { &[] };
    (@list $list:tt) => { &$list };
}

pub(crate) use settings;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_its_beginning_is_recognised() {
        let names = ["inbound-capture-port", "istio-inbound-ports", "istio-outbound-ports"];
        let of = |misspelt| nearest(misspelt, names.into_iter());
        assert_eq!(of("inbound-ports"), Some("istio-inbound-ports"));
        assert_eq!(of("inbound-captur-port"), Some("inbound-capture-port"));
        assert_eq!(of("zzz"), None);
    }

    #[test]
    fn misspelt_values_are_recognised() {
        let (formats, families) = (&["text", "json", "yaml"][..], &["dualstack", "ipv4"][..]);
        let modes = &["REDIRECT", "TPROXY"];
        for (desired, values, expected) in [
            ("jsn", formats, Some("json")),
            ("JSON", formats, Some("json")),
            ("yml", formats, Some("yaml")),
            ("xml", formats, None),
            ("", formats, None),
            ("ipv6", families, None),
            ("ipv4x", families, Some("ipv4")),
            // In short words, one letter may differ; from six letters on, two.
            ("jxxn", formats, None),
            ("tpxxxy", modes, Some("TPROXY")),
            ("txxxxy", modes, None),
            ("redirct", modes, Some("REDIRECT")),
        ] {
            assert_eq!(nearest_value(desired, values), expected, "{desired}");
        }
    }

    #[test]
    fn alternatives_are_joined_by_commas_and_or() {
        for (words, expected) in
            [(&[][..], ""), (&["a"], "a"), (&["a", "b"], "a or b"), (&["a", "b", "c"], "a, b or c")]
        {
            assert_eq!(alternatives(words), expected);
        }
    }

    #[test]
    fn each_row_agrees_with_itself() {
        for row in all() {
            let name = row.name();
            assert_eq!(row.setting.row().name(), name);
            // Common settings have no mesh feature.
            let is_of_one = row.setting.mesh().is_some() && row.topic == Topic::Capture;
            assert_eq!(!row.features.is_empty(), is_of_one, "{name}");
            assert_eq!(row.example.is_some(), row.kind != SettingKind::Switch, "{name}");
            let is_among = |example| row.values.is_empty() || row.values.contains(&example);
            assert!(row.example.is_none_or(is_among), "{name}");
            for value in row.values {
                assert!(row.help.contains(value), "the help of {name} lacks {value}");
            }
            let is_ours = row.setting.mesh().is_none_or(|mesh| mesh == Mesh::Istio) && !row.long.is_empty();
            if let Some(first) = row.variables.first().filter(|_| is_ours) {
                assert_eq!(*first, row.long.to_uppercase().replace('-', "_"));
            }
        }
    }

    #[test]
    fn capture_settings_describe_rules() {
        let describing = [Setting::InboundPorts, Setting::ProxyUid, crate::kuma::Kuma::Vnet];
        assert!(describing.into_iter().all(Setting::describes_rules));
        // Not about capture; not of one mesh; both.
        let others = [crate::kuma::Kuma::DryRun, Setting::Mesh, Setting::PodIps];
        assert!(!others.into_iter().any(Setting::describes_rules));
    }

    #[test]
    fn settings_of_a_pod_have_keys() {
        for (setting, key) in [
            (Setting::InboundPorts, Some("istio-inbound-ports")),
            (Setting::OwnerGroups, Some("istio-outbound-owner-groups")),
            (Setting::DnsServers, Some("dns-servers")),
            (Setting::Mesh, Some("mesh")),
            (Setting::EnvoyUser, None),
            (Setting::PodIps, None),
            (Setting::DryRun, None),
        ] {
            assert_eq!(setting.row().key().as_deref(), key);
            assert_eq!(setting.row().annotation(), key.map(|key| format!("sidecar-init/{key}")));
        }
        assert_eq!(Setting::OwnerGroups.row().mention(), "ISTIO_OUTBOUND_OWNER_GROUPS");
        assert_eq!(Setting::DryRun.row().mention(), "{--dry-run}");
    }

    #[test]
    fn mesh_settings_are_between_common_ones() {
        let names: Vec<&str> = of(Mesh::Linkerd).map(SettingRow::name).collect();
        assert_eq!(names[..2], ["mesh", "incoming-proxy-port"]);
        let count = Mesh::Linkerd.settings().len();
        assert_eq!(names[count + 1], "dry-run");
        assert!(Setting::Mesh.is_for(Mesh::Kuma) && Setting::InboundPorts.is_for(Mesh::Istio));
        assert!(!Setting::InboundPorts.is_for(Mesh::Kuma));
    }

    #[test]
    fn a_flag_of_another_mesh_is_known() {
        for (name, mesh, expected) in [
            ("-i", Mesh::Linkerd, "istio, without a counterpart for linkerd; drop it, or give --mesh istio"),
            ("-b", Mesh::Linkerd, "istio; for linkerd use --ports-to-redirect"),
            ("--istio-local-exclude-ports", Mesh::Kuma, "istio; for kuma use --exclude-inbound-ports"),
            ("--inbound-ports-to-ignore", Mesh::Istio, "linkerd; add --mesh linkerd"),
            ("--ipv6", Mesh::Istio, "linkerd and ambient; add --mesh linkerd"),
        ] {
            assert_eq!(foreign(name, mesh), Some(format!("is a flag of {expected}")), "{name} for {mesh}");
        }
        assert_eq!(foreign("--nope", Mesh::Istio), None);
        assert_eq!(foreign("--envoy-port", Mesh::Istio), None);
        assert_eq!(foreign("--", Mesh::Kuma), None);
    }
}
