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
    use std::collections::BTreeSet;
    use testkit::cluster::{Rule, granted};

    #[test]
    fn roles_grant_what_the_calls_need_and_no_more() {
        let needed: BTreeSet<(String, Rule)> = CallKind::all()
            .flat_map(|kind| kind.rights().into_iter().map(move |right| (kind.role(), right)))
            .map(|(role, right)| {
                let rule = [right.group, right.resource, right.verb].map(str::to_owned);
                (role.name().to_owned(), rule.into())
            })
            .collect();
        assert_eq!(granted("kubectl/clusterrole.yaml"), needed);
    }
}
