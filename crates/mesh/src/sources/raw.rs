//! Unparsed settings: values with their sources.

use super::origin::PodOrigin;
use crate::mesh::Mesh;
use crate::settings::{self, Setting, SettingKind, SettingRow};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Flag(&'static str),
    Variable(&'static str),
    Annotation(String),
    /// Default for an annotation that the pod lacks.
    Preset(String),
    Container {
        name: String,
        word: String,
    },
    Field(String),
    Key(String),
    Default(Setting),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(long) => write!(f, "--{long}"),
            Self::Variable(name) => f.write_str(name),
            Self::Annotation(name) | Self::Field(name) | Self::Key(name) => f.write_str(name),
            Self::Preset(annotation) => write!(f, "{annotation} (default)"),
            Self::Container { name, word } => write!(f, "container {name}: {word}"),
            Self::Default(setting) => write!(f, "--{}", setting.row().long),
        }
    }
}

impl Source {
    /// True for a flag of a call or of a container; the injector's defaults count as flags.
    pub(crate) fn is_flag(&self) -> bool {
        match self {
            Self::Container { word, .. } => word.starts_with("--"),
            other => matches!(other, Self::Flag(_) | Self::Default(_)),
        }
    }

    pub fn is_of_pod(&self) -> bool {
        match self {
            Self::Annotation(_) | Self::Preset(_) | Self::Container { .. } | Self::Field(_) => true,
            Self::Flag(_) | Self::Variable(_) | Self::Key(_) | Self::Default(_) => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub value: String,
    pub source: Source,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    given: BTreeMap<Setting, Given>,
    links: Vec<(&'static str, String)>,
    /// Prefix for problems if there may be several pods.
    pod: Option<PodOrigin>,
}

impl Raw {
    pub fn of(given: impl IntoIterator<Item = (Setting, Given)>) -> Self {
        Self { given: given.into_iter().collect(), ..Self::default() }
    }

    pub fn of_flags(given: impl IntoIterator<Item = (Setting, impl Into<String>)>) -> Self {
        Self::of(given.into_iter().map(|(setting, value)| {
            (setting, Given { value: value.into(), source: Source::Flag(setting.row().long) })
        }))
    }

    #[must_use]
    pub fn without(mut self, setting: Setting) -> Self {
        self.given.remove(&setting);
        self
    }

    pub fn of_pod(self, pod: impl Into<PodOrigin>) -> Self {
        Self { pod: Some(pod.into()).filter(|pod| !pod.title.is_empty()), ..self }
    }

    pub fn over(self, below: Self) -> Self {
        let given = below.given.into_iter().chain(self.given).collect();
        let links = self.links.into_iter().chain(below.links).collect();
        Self { given, links, pod: self.pod.or(below.pod) }
    }

    pub fn named(&self, source: &Source) -> String {
        match &self.pod {
            Some(pod) if source.is_of_pod() => pod.named(&source.to_string()),
            Some(_) | None => source.to_string(),
        }
    }

    /// Takes the flags and, for every other setting that the command `takes`, the first of its variables that `variable` finds.
    /// As in upstream, empty variables count as unset, unless the setting has no flag; Service addresses always do.
    pub fn new(
        flags: impl IntoIterator<Item = (Setting, String)>,
        takes: impl Fn(&SettingRow) -> bool,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let mut given = BTreeMap::new();
        let mut links = Vec::new();
        for row in settings::all().filter(|row| takes(row)) {
            let found = row.variables.iter().find_map(|&name| {
                let value = text(&variable(name)?);
                if is_service_link(name, &value) {
                    links.push((name, value));
                    return None;
                }
                let counts = row.long.is_empty() || !value.is_empty();
                counts.then_some(Given { value, source: Source::Variable(name) })
            });
            given.extend(found.map(|value| (row.setting, value)));
        }
        for (setting, value) in flags {
            let row = setting.row();
            let source = Source::Flag(row.long);
            let value = match (given.get(&setting), row.separator) {
                (Some(before), Some(separator)) if before.source == source => {
                    before.value.clone() + separator + &value
                }
                _ => value,
            };
            given.insert(setting, Given { value, source });
        }
        Self { given, links, pod: None }
    }

    pub fn get(&self, setting: Setting) -> Option<&Given> {
        self.given.get(&setting)
    }

    pub fn stated(&self, setting: Setting) -> Option<&Given> {
        self.get(setting).filter(|given| !given.value.trim().is_empty())
    }

    /// The given mesh, or the default. An unknown name is refused later.
    pub fn mesh(&self) -> Mesh {
        self.get(Setting::Mesh).and_then(|given| given.value.trim().parse().ok()).unwrap_or_default()
    }

    /// True if flags describe rules or name another mesh. Variables don't count: a proxy's container has them anyway.
    pub fn describes_rules(&self) -> bool {
        let names_rules = |setting: Setting| {
            setting.describes_rules() || (setting == Setting::Mesh && self.mesh() != Mesh::default())
        };
        self.iter().any(|(setting, given)| matches!(given.source, Source::Flag(_)) && names_rules(setting))
    }

    #[must_use]
    pub fn without_rules(mut self) -> Self {
        self.given.retain(|setting, _| !setting.describes_rules());
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (Setting, &Given)> {
        self.given.iter().map(|(&setting, given)| (setting, given))
    }

    /// Ignored variables with our names, which Kubernetes sets to a Service's address.
    pub fn service_links(&self) -> &[(&'static str, String)] {
        &self.links
    }

    /// Value of a switch before validation. A non-boolean value is refused later.
    pub fn is_on(&self, setting: Setting) -> bool {
        debug_assert_eq!(setting.row().kind, SettingKind::Switch);
        self.get(setting).and_then(|given| boolean(trim(&given.value))).unwrap_or(false)
    }
}

/// True for a variable that Kubernetes sets for a Service in the namespace: `NAME_PORT`, with a URL.
fn is_service_link(name: &str, value: &str) -> bool {
    let protocols = ["tcp://", "udp://", "sctp://"];
    name.ends_with("_PORT") && protocols.iter().any(|protocol| value.starts_with(protocol))
}

/// Invalid UTF-8 becomes the replacement character, which no setting accepts.
pub fn text(value: &OsStr) -> String {
    value.to_string_lossy().into_owned()
}

/// Spaces around a value have no meaning; other white space is refused.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Booleans of Go's `strconv.ParseBool`.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_a_pod_name_the_pod() {
        let given = Given { value: "80".to_owned(), source: Source::Annotation("a/b".to_owned()) };
        let values = Raw::of([(Setting::InboundPorts, given.clone())]);
        assert_eq!(values.named(&given.source), "a/b");
        let of_pod = values.of_pod("Pod web");
        assert_eq!(of_pod.get(Setting::InboundPorts), Some(&given));
        assert_eq!(of_pod.named(&given.source), "Pod web: a/b");
        assert_eq!(of_pod.named(&Source::Flag("mesh")), "--mesh");
    }

    fn raw(given: &[(Setting, &str, Source)]) -> Raw {
        let given = given.iter().map(|(setting, value, source)| {
            (*setting, Given { value: (*value).to_owned(), source: source.clone() })
        });
        Raw::of(given)
    }

    #[test]
    fn flags_of_capture_describe_rules() {
        let (flag, variable) = (Source::Flag("x"), Source::Variable("X"));
        for (given, expected) in [
            (&[][..], false),
            (&[(Setting::InboundPorts, "80", flag.clone())], true),
            (&[(Setting::InboundPorts, "80", variable.clone())], false),
            (&[(Setting::PodIps, "10.0.0.1", flag.clone())], false),
            (&[(Setting::Mesh, "istio", flag.clone())], false),
            (&[(Setting::Mesh, "linkerd", flag.clone())], true),
            (&[(Setting::Mesh, "linkerd", variable)], false),
            (
                &[
                    (Setting::Mesh, "linkerd", Source::Annotation("m".to_owned())),
                    (Setting::PodIps, "", flag),
                ],
                false,
            ),
        ] {
            assert_eq!(raw(given).describes_rules(), expected, "{given:?}");
        }
    }

    #[test]
    fn settings_are_removed_singly_or_all_that_describe_rules() {
        let given = [(Setting::InboundPorts, "80"), (Setting::PodIps, "10.0.0.1"), (Setting::DryRun, "true")];
        let left = |raw: Raw| raw.iter().map(|(setting, _)| setting.row().name()).collect::<Vec<_>>();
        assert_eq!(left(Raw::of_flags(given).without_rules()), ["dry-run", "pod-ips"]);
        assert_eq!(left(Raw::of_flags(given).without(Setting::PodIps)), ["istio-inbound-ports", "dry-run"]);
    }

    #[test]
    fn variables_count_unless_they_are_empty_or_links_of_services() {
        let read = |variables: &[(&str, &str)], flags: &[(Setting, &str)]| {
            let flags = flags.iter().map(|(setting, value)| (*setting, (*value).to_owned()));
            let value =
                |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| value.into());
            Raw::new(flags, |row| row.setting.is_for(Mesh::Istio), value)
        };
        let value = |raw: &Raw, setting| {
            raw.get(setting).map(|Given { value, source }| format!("{value} by {source}"))
        };
        let linked = read(&[("INBOUND_CAPTURE_PORT", "tcp://10.0.0.1:80"), ("PROXY_UID", "udp://x")], &[]);
        assert_eq!(linked.get(Setting::InboundCapturePort), None);
        assert_eq!(linked.service_links(), [("INBOUND_CAPTURE_PORT", "tcp://10.0.0.1:80".to_owned())]);
        assert!(value(&linked, Setting::ProxyUid).is_some(), "its name does not end in _PORT");
        let plain = read(
            &[("INBOUND_CAPTURE_PORT", "15002"), ("PROXY_UID", ""), ("ISTIO_OUTBOUND_OWNER_GROUPS", "")],
            &[],
        );
        assert_eq!(plain.service_links(), []);
        let expected = Some("15002 by INBOUND_CAPTURE_PORT");
        assert_eq!(value(&plain, Setting::InboundCapturePort).as_deref(), expected);
        assert_eq!(value(&plain, Setting::ProxyUid), None);
        assert!(value(&plain, Setting::OwnerGroups).is_some(), "the setting has no flag");
        let twice = read(&[("PROXY_UID", "1")], &[(Setting::ProxyUid, "2"), (Setting::ProxyUid, "3")]);
        assert_eq!(value(&twice, Setting::ProxyUid).as_deref(), Some("3 by --proxy-uid"));
    }

    #[test]
    fn upper_layer_counts() {
        let above = Raw::of_flags([(Setting::PodIps, "1")]);
        let below = Raw::of_flags([(Setting::PodIps, "2"), (Setting::DryRun, " t")]);
        let whole = above.clone().over(below.clone().of_pod("below"));
        assert_eq!(whole.get(Setting::PodIps).map(|given| given.value.as_str()), Some("1"));
        assert!(whole.is_on(Setting::DryRun) && !whole.is_on(Setting::CniMode));
        let of = Source::Field("x".to_owned());
        assert_eq!(whole.named(&of), "below: x");
        assert_eq!(above.of_pod("above").over(below.of_pod("below")).named(&of), "above: x");
    }
}
