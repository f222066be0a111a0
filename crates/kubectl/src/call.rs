//! The calls of kubectl that the plugin makes, each with the rights that it needs in the cluster.

use crate::workload::PodWorkload;
use injection::cluster_lint::NeededResource;
use std::fmt;

/// A verb on a resource, in the words of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClusterRight {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) verb: &'static str,
}

impl ClusterRight {
    const fn new(group: &'static str, resource: &'static str, verb: &'static str) -> Self {
        Self { group, resource, verb }
    }
}

impl fmt::Display for ClusterRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)
    }
}

/// The role of `docker/kubectl/clusterrole.yaml` that grants a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CaptureRole {
    /// ClusterRole `sidecar-capture`: reads pods and Services.
    Read,
    /// Role `sidecar-capture-agent` in the agents' namespace.
    Agent,
    /// ClusterRole `sidecar-capture-debug`: adds ephemeral containers.
    Debug,
    /// ClusterRole `sidecar-capture-lint`: reads what lint is based on.
    Lint,
}

impl CaptureRole {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "sidecar-capture",
            Self::Agent => "sidecar-capture-agent",
            Self::Debug => "sidecar-capture-debug",
            Self::Lint => "sidecar-capture-lint",
        }
    }
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    GetPod,
    GetWorkload(PodWorkload),
    ListPods,
    GetService,
    ListEndpointSlices,
    ListAgents,
    ExecInAgent,
    DebugPod,
    ListForLint(&'static NeededResource),
    GetConfigMap,
}

const GET_PODS: ClusterRight = ClusterRight::new("", "pods", "get");
const LIST_PODS: ClusterRight = ClusterRight::new("", "pods", "list");

impl CallKind {
    pub(crate) fn role(self) -> CaptureRole {
        match self {
            Self::GetPod
            | Self::GetWorkload(_)
            | Self::ListPods
            | Self::GetService
            | Self::ListEndpointSlices => CaptureRole::Read,
            Self::ListAgents | Self::ExecInAgent => CaptureRole::Agent,
            Self::DebugPod => CaptureRole::Debug,
            Self::ListForLint(_) | Self::GetConfigMap => CaptureRole::Lint,
        }
    }

    /// What the API server checks. kubectl reads a pod before it starts something in it. A session over WebSocket was a
    /// `get` until Kubernetes 1.35, and is a `create` since, as one over SPDY.
    pub(crate) fn rights(self) -> Vec<ClusterRight> {
        match self {
            Self::GetPod => vec![GET_PODS],
            Self::GetWorkload(workload) => vec![ClusterRight::new("apps", workload.plural(), "get")],
            Self::ListPods | Self::ListAgents => vec![LIST_PODS],
            Self::GetService => vec![ClusterRight::new("", "services", "get")],
            Self::ListForLint(resource) => {
                let (name, group) = resource.name.split_once('.').unwrap_or((resource.name, ""));
                vec![ClusterRight::new(group, name, "list")]
            }
            Self::GetConfigMap => vec![ClusterRight::new("", "configmaps", "get")],
            Self::ListEndpointSlices => {
                vec![ClusterRight::new("discovery.k8s.io", "endpointslices", "list")]
            }
            Self::ExecInAgent => {
                vec![
                    GET_PODS,
                    ClusterRight::new("", "pods/exec", "create"),
                    ClusterRight::new("", "pods/exec", "get"),
                ]
            }
            // It waits until the container runs, attaches to it, and reads its log where it has ended before.
            Self::DebugPod => vec![
                GET_PODS,
                LIST_PODS,
                ClusterRight::new("", "pods", "watch"),
                ClusterRight::new("", "pods/ephemeralcontainers", "patch"),
                ClusterRight::new("", "pods/attach", "create"),
                ClusterRight::new("", "pods/attach", "get"),
                ClusterRight::new("", "pods/log", "get"),
            ],
        }
    }

    #[cfg(test)]
    fn all() -> impl Iterator<Item = Self> {
        let others = [
            Self::GetPod,
            Self::ListPods,
            Self::GetService,
            Self::ListEndpointSlices,
            Self::ListAgents,
            Self::ExecInAgent,
            Self::DebugPod,
            Self::GetConfigMap,
        ];
        let listed = injection::cluster_lint::RESOURCES.iter().map(Self::ListForLint);
        PodWorkload::ALL.into_iter().map(Self::GetWorkload).chain(listed).chain(others)
    }
}

/// A call of kubectl.
#[derive(Clone, Debug)]
pub(crate) struct KubectlCall {
    pub(crate) kind: CallKind,
    /// The words after kubectl's own flags.
    pub(crate) words: Vec<String>,
    /// What it reads from standard input.
    pub(crate) input: Option<String>,
}

impl KubectlCall {
    /// `kubectl get` of something, as JSON.
    pub(crate) fn get(kind: CallKind, namespace: Option<&str>, words: &[&str]) -> Self {
        let namespace = namespace.into_iter().flat_map(|name| ["-n", name]);
        let words = ["get"].into_iter().chain(words.iter().copied()).chain(namespace).chain(["-o", "json"]);
        Self { kind, words: words.map(str::to_owned).collect(), input: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::{collections::BTreeSet, fs, path::Path};

    type Rule = (String, String, String, String);

    /// What the roles of the manifest allow: role, group, resource, verb.
    fn granted() -> BTreeSet<Rule> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker/kubectl/clusterrole.yaml");
        let text = fs::read_to_string(path).expect("a manifest");
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        let mut rules = BTreeSet::new();
        for document in &documents {
            let role = document["metadata"]["name"].as_str().expect("a name");
            for rule in document["rules"].as_array().into_iter().flatten() {
                let list = |name: &str| {
                    let items = rule[name].as_array().expect("a list").iter();
                    items.map(|item| item.as_str().expect("a text").to_owned()).collect::<Vec<_>>()
                };
                for (group, resource) in list("apiGroups")
                    .iter()
                    .flat_map(|group| list("resources").into_iter().map(move |r| (group, r)))
                {
                    rules.extend(
                        list("verbs")
                            .into_iter()
                            .map(|verb| (role.to_owned(), group.clone(), resource.clone(), verb)),
                    );
                }
            }
        }
        rules
    }

    #[test]
    fn roles_grant_what_the_calls_need_and_no_more() {
        let needed: BTreeSet<Rule> = CallKind::all()
            .flat_map(|kind| kind.rights().into_iter().map(move |right| (kind.role(), right)))
            .map(|(role, right)| {
                (
                    role.name().to_owned(),
                    right.group.to_owned(),
                    right.resource.to_owned(),
                    right.verb.to_owned(),
                )
            })
            .collect();
        assert_eq!(granted(), needed);
    }
}
