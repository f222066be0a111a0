//! Calls of kubectl by the plugin, each with the rights that it needs in the cluster.

use injection::cluster_lint::NeededResource;
use serde_json::Value;

/// Group, resource and verb, as in a role.
pub(crate) type ClusterRight = [&'static str; 3];

/// Kind of object that makes pods by a selector, with kubectl's names for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodWorkload {
    pub(crate) name: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) short: &'static str,
}

pub(crate) const WORKLOADS: &[PodWorkload] = &[
    PodWorkload { name: "deployment", plural: "deployments", short: "deploy" },
    PodWorkload { name: "replicaset", plural: "replicasets", short: "rs" },
    PodWorkload { name: "statefulset", plural: "statefulsets", short: "sts" },
    PodWorkload { name: "daemonset", plural: "daemonsets", short: "ds" },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    GetPod,
    GetWorkload(&'static PodWorkload),
    ListPods,
    GetService,
    ListEndpointSlices,
    ListAgents,
    ExecInAgent,
    DebugPod,
    ListForLint(&'static NeededResource),
    GetConfigMap,
}

const GET_PODS: ClusterRight = ["", "pods", "get"];
const LIST_PODS: ClusterRight = ["", "pods", "list"];
/// Roles of `docker/kubectl/clusterrole.yaml`: reading pods and Services, running programs in agents, adding ephemeral
/// containers, and reading the objects for lint.
const ROLES: [&str; 4] =
    ["sidecar-capture", "sidecar-capture-agent", "sidecar-capture-debug", "sidecar-capture-lint"];

impl CallKind {
    /// Rights that the API server checks, and the role that grants them. kubectl reads a pod before it starts a program in
    /// it. A session over WebSocket was a `get` until Kubernetes 1.35, and is a `create` since, like one over SPDY.
    pub(crate) fn rights(self) -> (&'static str, Vec<ClusterRight>) {
        let [read, agent, debug, lint] = ROLES;
        match self {
            Self::GetPod => (read, vec![GET_PODS]),
            Self::GetWorkload(workload) => (read, vec![["apps", workload.plural, "get"]]),
            Self::ListPods => (read, vec![LIST_PODS]),
            Self::GetService => (read, vec![["", "services", "get"]]),
            Self::ListEndpointSlices => (read, vec![["discovery.k8s.io", "endpointslices", "list"]]),
            Self::ListAgents => (agent, vec![LIST_PODS]),
            Self::ExecInAgent => {
                (agent, vec![GET_PODS, ["", "pods/exec", "create"], ["", "pods/exec", "get"]])
            }
            // kubectl waits until the container runs, attaches to it, and reads its log if it has already ended.
            Self::DebugPod => {
                let within = [("pods/ephemeralcontainers", "patch"), ("pods/attach", "create")];
                let within = within.into_iter().chain([("pods/attach", "get"), ("pods/log", "get")]);
                let within = within.map(|(resource, verb)| ["", resource, verb]);
                (debug, [GET_PODS, LIST_PODS, ["", "pods", "watch"]].into_iter().chain(within).collect())
            }
            Self::ListForLint(resource) => {
                let (name, group) = resource.name.split_once('.').unwrap_or((resource.name, ""));
                (lint, vec![[group, name, "list"]])
            }
            Self::GetConfigMap => (lint, vec![["", "configmaps", "get"]]),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct KubectlCall {
    pub(crate) kind: CallKind,
    /// Words after kubectl's own flags.
    pub(crate) words: Vec<String>,
    pub(crate) input: Option<String>,
}

impl KubectlCall {
    pub(crate) fn get(kind: CallKind, namespace: Option<&str>, words: &[&str]) -> Self {
        let namespace = namespace.into_iter().flat_map(|name| ["-n", name]);
        let words = ["get"].into_iter().chain(words.iter().copied()).chain(namespace).chain(["-o", "json"]);
        Self { kind, words: words.map(str::to_owned).collect(), input: None }
    }
}

pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> + Clone {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use testkit::cluster::{Rule, granted};

    #[test]
    fn roles_grant_exactly_the_rights_of_the_calls() {
        use CallKind::{DebugPod, ExecInAgent, GetConfigMap, GetPod, GetService};
        use CallKind::{GetWorkload, ListAgents, ListEndpointSlices, ListForLint, ListPods};
        let others = [GetPod, ListPods, GetService, ListEndpointSlices, ListAgents, ExecInAgent, DebugPod];
        let listed = injection::cluster_lint::RESOURCES.iter().map(ListForLint);
        let all = WORKLOADS.iter().map(GetWorkload).chain(listed).chain(others).chain([GetConfigMap]);
        let needed: BTreeSet<(String, Rule)> = all
            .map(CallKind::rights)
            .flat_map(|(role, rights)| rights.into_iter().map(move |right| (role, right)))
            .map(|(role, right)| (role.to_owned(), right.map(str::to_owned).into()))
            .collect();
        assert_eq!(granted("kubectl/clusterrole.yaml"), needed);
    }
}
