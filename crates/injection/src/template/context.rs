//! The input of templates, and additions to a list of networks.

use crate::admission::AdmissionContext;
use crate::mesh_config::{IstioValues, MeshConfig};
use crate::sidecar::Sidecar;
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

/// A pod's networks for Multus, as JSON or in short form (`k8s.v1.cni.cncf.io/networks`), plus network `NAME` or
/// `NAMESPACE/NAME`. An invalid list stays unchanged.
pub(super) fn with_network(networks: String, network: &str) -> String {
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
