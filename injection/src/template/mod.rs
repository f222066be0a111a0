//! Templates: what of a sidecar becomes which patch of a pod.

pub mod declared;
pub mod go;
mod multus;
mod opentelemetry;
mod trial;

pub use trial::{Trial, trial};

use crate::configuration::Configuration;
use crate::pipeline::Around;
use crate::sidecar::Sidecar;
use policy::{Problem, Problems};
use serde_json::Value;

/// A template.
#[derive(Clone, Debug)]
pub enum Template {
    /// Patches as data; what the configuration writes as a mapping.
    Declared(declared::Template),
    /// A text in Go's language, which becomes YAML; what the configuration writes as a text.
    Go(go::Template),
    /// A text in Go's language that can't be read, and why: what the pods that name it are refused with.
    Unreadable(Problems),
}

/// All that a template sees.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The pod, without what an earlier injection has added.
    pub pod: &'a Value,
    pub around: &'a Around,
    pub sidecar: &'a Sidecar,
    pub configuration: &'a Configuration,
}

impl Template {
    /// Understands what stands under a template's name in a configuration: a text is Go's, a mapping is declared.
    ///
    /// # Errors
    /// Every problem in it, named by `name`.
    pub fn read(name: &str, written: &Value) -> Result<Self, Problems> {
        match written {
            Value::String(text) => go::Template::read(name, text).map(Self::Go),
            Value::Object(_) => declared::Template::read(name, written).map(Self::Declared),
            _ => {
                Err(Problems(vec![Problem::of(name, "is neither a text nor a mapping; expected a template")]))
            }
        }
    }

    /// The built-in templates by their names: `sidecar` (Istio's proxy), `envoy` (Envoy alone), `linkerd`.
    pub fn built_in() -> Vec<(&'static str, Self)> {
        declared::built_in().into_iter().map(|(name, template)| (name, Self::Declared(template))).collect()
    }

    /// Makes of a sidecar with Istio's proxy the one that the template wants, if its proxy has other ports or another user.
    /// Comes before any template is filled in.
    pub fn adapt(&self, sidecar: &mut Sidecar) {
        match self {
            Self::Declared(template) => template.adapt(sidecar),
            Self::Go(_) | Self::Unreadable(_) => {}
        }
    }

    /// The patch of the pod, for a strategic merge. `warnings` gets what is odd about it.
    ///
    /// # Errors
    /// What of the template can't be filled in.
    pub fn render(&self, sight: &Sight<'_>, warnings: &mut Vec<String>) -> Result<Value, Problems> {
        match self {
            Self::Declared(template) => template.render(sight),
            Self::Go(template) => template.render(sight, warnings),
            Self::Unreadable(problems) => Err(problems.clone()),
        }
    }
}
