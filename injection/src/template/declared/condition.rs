//! Conditions: the few things about a sidecar on which a part of a template may depend, and how they are combined.

use super::reading::Reader;
use super::writing::Scene;
use crate::configuration::InboundPolicy;
use crate::sidecar::{Init, Mode};
use crate::template::{Sight, opentelemetry};
use policy::settings::nearest;
use serde_json::Value;

/// What may hold of a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The proxy is an init container that keeps running.
    Native,
    /// The application waits for the proxy.
    Hold,
    Redirect,
    Tproxy,
    /// An init container sets the rules.
    Capture,
    /// A plugin has set them, and an init container checks that.
    Validation,
    /// The agent answers probes.
    StatusPort,
    /// Logs are lines of JSON.
    JsonLogs,
    /// The proxy may bind ports below 1024.
    LowPorts,
    /// The proxy runs as user 0.
    Root,
    /// There is a startup probe.
    StartupProbe,
    /// The proxy hands connections on to loopback, and not to the pod's own address.
    Localhost,
    /// The values ask for a privileged proxy.
    Privileged,
    /// The proxy takes connections through tunnels (`ISTIO_META_ENABLE_HBONE`).
    Hbone,
    /// The mesh asks for OpenTelemetry's names of services in spans.
    ResourceAttributes,
}

/// Each with the word by which templates name it.
pub(super) const CONDITIONS: [(&str, Condition); 15] = [
    ("native", Condition::Native),
    ("hold", Condition::Hold),
    ("redirect", Condition::Redirect),
    ("tproxy", Condition::Tproxy),
    ("capture", Condition::Capture),
    ("validation", Condition::Validation),
    ("statusPort", Condition::StatusPort),
    ("jsonLogs", Condition::JsonLogs),
    ("lowPorts", Condition::LowPorts),
    ("root", Condition::Root),
    ("startupProbe", Condition::StartupProbe),
    ("localhost", Condition::Localhost),
    ("privileged", Condition::Privileged),
    ("hbone", Condition::Hbone),
    ("resourceAttributes", Condition::ResourceAttributes),
];

impl Condition {
    fn holds(self, sight: &Sight<'_>) -> bool {
        let (sidecar, configuration) = (sight.sidecar, sight.configuration);
        match self {
            Self::Native => sidecar.native,
            Self::Hold => sidecar.hold && !sidecar.native,
            Self::Redirect => sidecar.mode == Mode::Redirect,
            Self::Tproxy => sidecar.mode == Mode::Tproxy,
            Self::Capture => sidecar.init == Init::Capture,
            Self::Validation => sidecar.init == Init::Validation,
            Self::StatusPort => sidecar.status_port.is_some(),
            Self::JsonLogs => sidecar.log_as_json,
            Self::LowPorts => sidecar.binds_low_ports,
            Self::Root => sidecar.proxy_identity.user == 0,
            Self::StartupProbe => sidecar.startup_failures.is_some(),
            Self::Localhost => configuration.mesh.inbound_policy == InboundPolicy::Localhost,
            Self::Privileged => configuration.values.proxy.privileged,
            Self::Hbone => {
                sidecar.proxy_metadata.get("ISTIO_META_ENABLE_HBONE").is_some_and(|text| text == "true")
            }
            Self::ResourceAttributes => opentelemetry::asked(&configuration.mesh),
        }
    }
}

/// `native and not hold or tproxy`: alternatives, in each of which everything has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct When(Vec<Vec<(bool, Term)>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Condition(Condition),
    /// A parameter of the template: it holds where that is set, and neither to `false` nor to `0`.
    Parameter(String),
}

impl When {
    /// Reads one; what is wrong with it goes to the reader's problems.
    pub(super) fn read(written: &Value, at: &str, reader: &mut Reader) -> Self {
        let Value::String(text) = written else {
            reader.problem(at, None, "is no text; expected a condition, such as native and not hold");
            return Self::default();
        };
        let mut alternatives = Vec::new();
        for alternative in split(text, "or") {
            let mut all = Vec::new();
            for term in split(&alternative, "and") {
                let (wanted, word) = match term.strip_prefix("not ") {
                    Some(word) => (false, word.trim()),
                    None => (true, term.as_str()),
                };
                if let Some((_, condition)) = CONDITIONS.iter().find(|(name, _)| *name == word) {
                    all.push((wanted, Term::Condition(*condition)));
                } else if reader.parameters.iter().any(|parameter| parameter.name == word) {
                    all.push((wanted, Term::Parameter(word.to_owned())));
                } else {
                    let text = unknown(word, reader);
                    reader.problem(at, Some(word), &text);
                }
            }
            alternatives.push(all);
        }
        Self(alternatives)
    }

    /// Whether it holds.
    pub(super) fn holds(&self, scene: &Scene<'_>) -> bool {
        let holds = |term: &Term| match term {
            Term::Condition(condition) => condition.holds(scene.sight),
            Term::Parameter(name) => {
                scene.parameter(name).is_some_and(|text| !["false", "0"].contains(&text))
            }
        };
        self.0.iter().any(|all| all.iter().all(|(wanted, term)| holds(term) == *wanted))
    }
}

fn unknown(word: &str, reader: &Reader) -> String {
    let parameters = || reader.parameters.iter().map(|parameter| parameter.name.as_str());
    let names = || CONDITIONS.iter().map(|(name, _)| *name).chain(parameters());
    match nearest(word, names()) {
        Some(name) => format!("is no condition; did you mean {name}?"),
        None => format!("is no condition; there are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// The parts between a word that stands alone.
fn split(text: &str, between: &str) -> Vec<String> {
    let mut parts = vec![Vec::new()];
    for word in text.split_whitespace() {
        if word == between {
            parts.push(Vec::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(word);
        }
    }
    parts.into_iter().map(|words| words.join(" ")).collect()
}
