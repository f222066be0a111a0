//! What is known of a pod, from any source: a manifest, an API server, or a container runtime that hands over
//! annotations and nothing else.

use crate::settings::mapping::PROXY;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A pod, or the template of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its name; empty if it has none yet.
    pub name: String,
    /// Its namespace; empty if unknown.
    pub namespace: String,
    /// `None` if they are not known.
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: BTreeMap<String, String>,
    /// `None` if it is not known.
    pub spec: Option<Spec>,
}

/// What a pod consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    pub host_network: bool,
    /// The runtime of its containers (`runtimeClassName`); empty for the node's default.
    pub runtime_class: String,
    /// The user and group of containers that do not set them.
    pub run_as_user: Option<String>,
    pub run_as_group: Option<String>,
    /// In their order.
    pub init_containers: Vec<Container>,
    pub containers: Vec<Container>,
    /// The addresses that it has got, in their order.
    pub addresses: Vec<String>,
    /// Its DNS servers, where it names them all itself.
    pub dns_servers: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// In their order; of two with one name the later counts.
    pub env: Vec<Variable>,
    /// Whether all variables of some other object are set too (`envFrom`).
    pub has_foreign_env: bool,
    pub run_as_user: Option<String>,
    pub run_as_group: Option<String>,
    /// Whether it runs all along, though it may be among the init containers (`restartPolicy: Always`).
    pub always_restarts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub value: Value,
}

/// What a variable is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    /// The cluster fills it in when the container starts.
    Unknowable,
}

/// What the injector has added to a pod, by its annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub init_containers: Vec<String>,
    pub containers: Vec<String>,
}

/// The annotation that injected pods carry.
pub(super) const STATUS: &str = "sidecar.istio.io/status";

impl Pod {
    /// A pod of which annotations are all that is known.
    pub fn annotated(name: &str, namespace: &str, annotations: BTreeMap<String, String>) -> Self {
        Self { name: name.to_owned(), namespace: namespace.to_owned(), annotations, ..Self::default() }
    }

    /// The proxy's container, among those that run all along or those that start first.
    pub fn proxy(&self) -> Option<&Container> {
        let spec = self.spec.as_ref()?;
        spec.containers.iter().chain(&spec.init_containers).find(|container| container.name == PROXY)
    }

    /// What the injector has added by its own record; `None` if there is none, or it can't be read.
    pub fn status(&self) -> Option<Status> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Added {
            #[serde(default)]
            init_containers: Option<Vec<String>>,
            #[serde(default)]
            containers: Option<Vec<String>>,
        }
        let added: Added = serde_json::from_str(self.annotations.get(STATUS)?).ok()?;
        Some(Status {
            init_containers: added.init_containers.unwrap_or_default(),
            containers: added.containers.unwrap_or_default(),
        })
    }
}

impl Container {
    /// A variable's value; `None` if it is not set.
    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.env.iter().rev().find(|variable| variable.name == name).map(|variable| &variable.value)
    }
}
