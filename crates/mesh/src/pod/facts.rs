//! Facts about a pod or template from any source: a manifest, an API server, or a container runtime that passes only
//! annotations. Unknown values are empty or `None`. Reading an object reports every field of the wrong type.

use crate::{data::document::DocumentReader, settings::mapping::PROXY};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub namespace: String,
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: BTreeMap<String, String>,
    pub spec: Option<Spec>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    pub host_network: bool,
    pub runtime_class: String,
    /// Default for containers that set none.
    pub run_as_user: Option<String>,
    pub run_as_group: Option<String>,
    pub init_containers: Vec<Container>,
    pub containers: Vec<Container>,
    pub addresses: Vec<String>,
    /// `None` unless the pod lists all its servers itself.
    pub dns_servers: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// In order; the last of duplicate names wins.
    pub env: Vec<Variable>,
    /// True if another object's variables are set too (`envFrom`).
    pub has_foreign_env: bool,
    pub run_as_user: Option<String>,
    pub run_as_group: Option<String>,
    /// True for a container that keeps running, even among the init containers (`restartPolicy: Always`).
    pub always_restarts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    /// `None` if the cluster supplies the value when the container starts.
    pub value: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub init_containers: Option<Vec<String>>,
    pub containers: Option<Vec<String>>,
}

impl Status {
    pub fn added(&self) -> impl Iterator<Item = &String> {
        self.containers.iter().chain(&self.init_containers).flatten()
    }
}

pub const STATUS: &str = "sidecar.istio.io/status";

impl Pod {
    pub(super) fn read(reader: &mut DocumentReader<'_>, name: &str, namespace: &str) -> Self {
        let (name, namespace) = (name.to_owned(), namespace.to_owned());
        let mut texts = |path: &str| {
            let texts = reader.strings(path).into_iter();
            texts.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
        };
        let (labels, annotations) = (Some(texts("metadata.labels")), texts("metadata.annotations"));
        Self { name, namespace, labels, annotations, spec: Some(spec(reader)) }
    }

    pub fn annotated(name: &str, namespace: &str, annotations: BTreeMap<String, String>) -> Self {
        Self { name: name.to_owned(), namespace: namespace.to_owned(), annotations, ..Self::default() }
    }

    /// The proxy's container, possibly an init container.
    pub fn proxy(&self) -> Option<&Container> {
        let spec = self.spec.as_ref()?;
        spec.containers.iter().chain(&spec.init_containers).find(|container| container.name == PROXY)
    }

    pub(super) fn container_names(&self) -> impl Iterator<Item = &str> {
        let containers =
            self.spec.iter().flat_map(|spec| spec.init_containers.iter().chain(&spec.containers));
        containers.map(|one| one.name.as_str())
    }

    pub fn status(&self) -> Option<Status> {
        serde_json::from_str(self.annotations.get(STATUS)?).ok()
    }
}

impl Container {
    pub fn variable(&self, name: &str) -> Option<&Option<String>> {
        self.env.iter().rev().find(|variable| variable.name == name).map(|variable| &variable.value)
    }
}

fn spec(reader: &mut DocumentReader<'_>) -> Spec {
    if reader.at("spec").is_none() {
        reader.problem("spec", None, "is missing, so the pod's containers are unknown");
        return Spec::default();
    }
    reader.mapping("spec");
    // Under another policy, the cluster's or the node's servers, which no manifest names, come first.
    let names_dns = reader.at("spec.dnsPolicy").is_some_and(|policy| policy == "None");
    let names_dns = names_dns && reader.at("spec.dnsConfig").is_some();
    Spec {
        host_network: reader.boolean("spec.hostNetwork").unwrap_or(false),
        runtime_class: text(reader, "spec.runtimeClassName"),
        run_as_user: id(reader, "spec.securityContext.runAsUser"),
        run_as_group: id(reader, "spec.securityContext.runAsGroup"),
        init_containers: each(reader, "spec.initContainers", container),
        containers: each(reader, "spec.containers", container),
        addresses: addresses(reader),
        dns_servers: names_dns.then(|| each(reader, "spec.dnsConfig.nameservers", text)),
    }
}

fn addresses(reader: &mut DocumentReader<'_>) -> Vec<String> {
    let all = each(reader, "status.podIPs", |reader, path| text(reader, &format!("{path}.ip")));
    if all.is_empty() { reader.string("status.podIP").map(str::to_owned).into_iter().collect() } else { all }
}

fn container(reader: &mut DocumentReader<'_>, path: &str) -> Container {
    reader.mapping(path);
    let at = |field: &str| format!("{path}.{field}");
    Container {
        name: text(reader, &at("name")),
        command: each(reader, &at("command"), text),
        args: each(reader, &at("args"), text),
        env: each(reader, &at("env"), variable),
        has_foreign_env: reader.at(&at("envFrom[0]")).is_some(),
        run_as_user: id(reader, &at("securityContext.runAsUser")),
        run_as_group: id(reader, &at("securityContext.runAsGroup")),
        always_restarts: reader.at(&at("restartPolicy")).is_some_and(|policy| policy == "Always"),
    }
}

fn variable(reader: &mut DocumentReader<'_>, path: &str) -> Variable {
    reader.mapping(path);
    let name = text(reader, &format!("{path}.name"));
    let is_known = reader.at(&format!("{path}.valueFrom")).is_none();
    Variable { name, value: is_known.then(|| text(reader, &format!("{path}.value"))) }
}

fn id(reader: &mut DocumentReader<'_>, path: &str) -> Option<String> {
    reader
        .typed(path, "a whole number", |value| (value.is_i64() || value.is_u64()).then(|| value.to_string()))
}

fn text(reader: &mut DocumentReader<'_>, path: &str) -> String {
    reader.string(path).unwrap_or_default().to_owned()
}

fn each<T>(
    reader: &mut DocumentReader<'_>,
    list: &str,
    read: impl Fn(&mut DocumentReader<'_>, &str) -> T,
) -> Vec<T> {
    (0..reader.list(list).len()).map(|at| read(reader, &format!("{list}[{at}]"))).collect()
}
