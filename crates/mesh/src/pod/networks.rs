//! Networks that a pod asks of Multus, by its annotation in JSON or in the short form `[NAMESPACE/]NAME[@INTERFACE]`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The annotation of the Network Plumbing Working Group's specification.
pub(super) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// Networks by which Multus calls the plugin of a mesh: they have no interface.
const PLUGINS: [&str; 4] = ["istio-cni", "linkerd-cni", "kuma-cni", "sidecar-cni"];

#[derive(Deserialize)]
struct MultusNetwork {
    name: String,
    interface: Option<String>,
}

/// The interfaces that the networks add to the pod. Multus numbers those without a name by their place in the list.
pub(super) fn interfaces(annotations: &BTreeMap<String, String>) -> Vec<String> {
    let Some(text) = annotations.get(NETWORKS) else { return Vec::new() };
    let short = |item: &str| {
        let (name, interface) = item.split_once('@').map_or((item, None), |(name, own)| (name, Some(own)));
        MultusNetwork { name: name.to_owned(), interface: interface.map(str::to_owned) }
    };
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let networks = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).unwrap_or_default(),
        false => items.map(short).collect::<Vec<_>>(),
    };
    let numbered = networks.into_iter().zip(1..);
    let others = numbered.filter(|(network, _)| !PLUGINS.iter().any(|plugin| network.name.contains(plugin)));
    others.map(|(network, at)| network.interface.unwrap_or_else(|| format!("net{at}"))).collect()
}
