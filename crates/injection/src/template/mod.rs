//! Templates: from a sidecar to a patch of its pod.

mod built_in;
pub mod go;
mod opentelemetry;

pub use built_in::BuiltIn;

use crate::mesh_config::{IstioValues, MeshConfig};
use crate::{admission::AdmissionContext, sidecar::Sidecar};
use mesh::{InputProblem, Problems, data::document::noun};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug)]
pub struct TemplateContext<'a> {
    /// The pod without additions of an earlier injection.
    pub pod: &'a Value,
    pub admission: &'a AdmissionContext,
    pub sidecar: &'a Sidecar,
    pub values: &'a IstioValues,
    pub mesh: &'a MeshConfig,
}

#[derive(Clone, Debug)]
pub enum InjectionTemplate {
    BuiltIn(BuiltIn),
    Go(go::Template),
    /// Invalid Go template, with the problems for pods that use it.
    Unreadable(Problems),
}

impl InjectionTemplate {
    pub fn read(name: &str, written: &Value) -> Result<Self, Problems> {
        match written {
            Value::String(text) => go::Template::read(name, text).map(Self::Go),
            other => {
                let text =
                    format!("is {}; expected a Go template as a string (see docs/templates.md)", noun(other));
                Err(Problems(vec![InputProblem::of(name, text)]))
            }
        }
    }

    /// Sets the ports and the user of a proxy other than Istio's. Called before any template is rendered.
    pub fn adapt(&self, sidecar: &mut Sidecar) {
        if let Self::BuiltIn(template) = self
            && let Some(proxy) = template.other_proxy()
        {
            sidecar.replace_proxy(proxy);
        }
    }

    /// The patch of the pod, for a strategic merge, and `warnings` about it. Returns every problem of its input.
    pub fn render(
        &self,
        context: &TemplateContext<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Problems> {
        match self {
            Self::BuiltIn(template) => template.render(context),
            Self::Go(template) => template.render(context, warnings),
            Self::Unreadable(problems) => Err(problems.clone()),
        }
    }
}

/// A pod's networks for Multus, as JSON or in the short form (`k8s.v1.cni.cncf.io/networks`), with one more, `NAME` or
/// `NAMESPACE/NAME`. An invalid list is unchanged.
fn with_network(networks: String, network: &str) -> String {
    if networks.trim().is_empty() {
        return network.to_owned();
    }
    let Some(end) = networks.rfind(']') else {
        let is_there = networks.split(',').any(|known| known.trim() == network);
        return if is_there { networks } else { format!("{networks}, {network}") };
    };
    let Ok(Value::Array(known)) = serde_json::from_str(&networks) else { return networks };
    // In JSON, a name can't contain the namespace.
    let (namespace, name) = network.split_once('/').unwrap_or(("", network));
    let is_it = |known: &Value| {
        known["name"] == name
            && known.get("namespace").and_then(Value::as_str).unwrap_or_default() == namespace
    };
    if known.iter().any(is_it) {
        return networks;
    }
    let mut added = json!({"name": name});
    if !namespace.is_empty() {
        added["namespace"] = namespace.into();
    }
    // Inserted as a string, to keep the owner's order and spaces.
    let between = if known.is_empty() { "" } else { ", " };
    format!("{}{between}{added}{}", &networks[..end], &networks[end..])
}
