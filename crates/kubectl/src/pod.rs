//! The pod that a command names, directly or by a workload, as read from the API server.

use crate::kubectl::{CallKind, Kubectl, KubectlCall, PodWorkload, WORKLOADS, items};
use crate::{arguments::PodArguments, failure::CaptureFailure};
use diagnose::{Style, TextLine};
use mesh::settings::nearest;
use serde_json::Value;
use std::{collections::BTreeSet, net::IpAddr};

/// Parses `NAME`, `pod/NAME` or `deployment/NAME`: the workload, unless the word names a pod, and the name.
fn named(word: &str) -> Result<(Option<&'static PodWorkload>, &str), String> {
    const EXPECTED: &str =
        "expected NAME, pod/NAME, deployment/NAME, replicaset/NAME, statefulset/NAME or daemonset/NAME";
    // Kubernetes' rule, so that no name is parsed as a flag or a path.
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let is_name = |name: &str| {
        let has_ends = !name.is_empty() && !name.starts_with(['-', '.']) && !name.ends_with(['-', '.']);
        name.len() <= 253 && name.chars().all(is_inner) && has_ends
    };
    let (kind, name) = word.split_once('/').unwrap_or(("pod", word));
    if !is_name(name) {
        return Err(format!("is not an object name; {EXPECTED}"));
    }
    if ["pod", "pods", "po"].contains(&kind) {
        return Ok((None, name));
    }
    let workload = WORKLOADS.iter().find(|one| [one.name, one.plural, one.short].contains(&kind));
    let known = ["pod"].into_iter().chain(WORKLOADS.iter().map(|one| one.name));
    let meant = || nearest(kind, known).map(|meant| format!("; did you mean {meant}/{name}?"));
    let unknown = || format!("does not name a pod{}; {EXPECTED}", meant().unwrap_or_default());
    workload.map(|workload| (Some(workload), name)).ok_or_else(unknown)
}

#[derive(Clone, Debug)]
pub(crate) struct TargetPod {
    pub(crate) object: Value,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: Option<String>,
    /// Running container: its name, and its id as a runtime's URL. All containers of a pod share one network namespace.
    pub(crate) container: Option<RunningContainer>,
    pub(crate) uses_host_network: bool,
    /// Number of pods that the word matches.
    pub(crate) candidates: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningContainer {
    pub(crate) name: String,
    pub(crate) id: String,
}

impl TargetPod {
    /// Gets the named pod: for a workload, its first ready pod by name.
    pub(crate) fn of(arguments: &PodArguments) -> Result<(Kubectl, Self), CaptureFailure> {
        let kubectl = Kubectl::new(&arguments.connection);
        let (word, namespace) = (&*arguments.name, arguments.connection.namespace.as_deref());
        let (workload, name) = named(word).map_err(|text| CaptureFailure::input("POD", Some(word), text))?;
        let (call, object, candidates) = match workload {
            Some(workload) => of_workload(&kubectl, workload, name, namespace)?,
            None => {
                let call = KubectlCall::get(CallKind::GetPod, namespace, &["pod", name]);
                let object = kubectl.object(&call)?;
                (call, object, 1)
            }
        };
        let pod = Self::read(object, candidates).map_err(|why| kubectl.unread(&call, why))?;
        Ok((kubectl, pod))
    }

    fn read(object: Value, candidates: usize) -> Result<Self, String> {
        if object["kind"] != "Pod" {
            return Err("did not print a pod".to_owned());
        }
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let (Some(name), Some(namespace)) =
            (text(&object["metadata"]["name"]), text(&object["metadata"]["namespace"]))
        else {
            return Err("printed a pod without name or namespace".to_owned());
        };
        let container = running(&object["status"])?;
        let uses_host_network = object["spec"]["hostNetwork"] == true;
        let node = text(&object["spec"]["nodeName"]);
        Ok(Self { namespace, name, node, container, uses_host_network, candidates, object })
    }

    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub(crate) fn basis_line(&self, basis: &str) -> TextLine {
        let of = match self.candidates {
            0 | 1 => String::new(),
            several => format!(" (one of {several} pods)"),
        };
        TextLine::hanging(2).styled(Style::Quiet, format!("{basis}{of}:"))
    }

    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        items(&self.object["status"]["podIPs"]).filter_map(|one| one["ip"].as_str()?.parse().ok()).collect()
    }

    pub(crate) fn declared_ports(&self) -> BTreeSet<u16> {
        let ports =
            items(&self.object["spec"]["containers"]).flat_map(|container| items(&container["ports"]));
        let tcp = ports.filter(|port| port["protocol"].as_str().unwrap_or("TCP") == "TCP");
        tcp.filter_map(|port| u16::try_from(port["containerPort"].as_u64()?).ok()).collect()
    }
}

/// Selected pod of a workload, with the call that lists its pods, and their number.
fn of_workload(
    kubectl: &Kubectl,
    workload: &'static PodWorkload,
    name: &str,
    namespace: Option<&str>,
) -> Result<(KubectlCall, Value, usize), CaptureFailure> {
    let call = KubectlCall::get(CallKind::GetWorkload(workload), namespace, &[workload.name, name]);
    let object = kubectl.object(&call)?;
    let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
    let selector = selector(&object["spec"]["selector"]);
    let (Some(namespace), Some(selector)) = (namespace, selector) else {
        return Err(kubectl.unread(&call, "printed an object without namespace or selector".to_owned()));
    };
    let call = KubectlCall::get(CallKind::ListPods, Some(&namespace), &["pods", "-l", &selector]);
    let list = kubectl.object(&call)?;
    let pods: Vec<&Value> = items(&list["items"]).collect();
    let rank = |pod: &Value| {
        let is_ready =
            items(&pod["status"]["conditions"]).any(|one| one["type"] == "Ready" && one["status"] == "True");
        let is_running = pod["status"]["phase"] == "Running";
        let is_ending = !pod["metadata"]["deletionTimestamp"].is_null();
        (is_ending, !is_ready, !is_running, pod["metadata"]["name"].as_str().map(str::to_owned))
    };
    let Some(first) = pods.iter().min_by_key(|pod| rank(pod)) else {
        let (kind, see) = (workload.name, format!("kubectl get pods -n {namespace} -l '{selector}'"));
        let text = format!("{kind} {name} has no pod in namespace {namespace}; see {see}");
        return Err(CaptureFailure::NoAnswer(text));
    };
    // Items of a list lack these fields.
    let mut object = (*first).clone();
    object["kind"] = "Pod".into();
    object["apiVersion"] = "v1".into();
    let candidates = pods.len();
    Ok((call, object, candidates))
}

/// First running container with an id, which simulated nodes do not report; sidecars may be init containers.
fn running(status: &Value) -> Result<Option<RunningContainer>, String> {
    let lists = [&status["containerStatuses"], &status["initContainerStatuses"]];
    let all = lists.into_iter().flat_map(items);
    let has_id = |one: &Value| one["containerID"].as_str().is_some_and(|id| !id.is_empty());
    let mut running = all.filter(|one| one["state"]["running"].is_object() && has_id(one));
    let Some(one) = running.next() else { return Ok(None) };
    let (name, id) =
        (one["name"].as_str().unwrap_or_default(), one["containerID"].as_str().unwrap_or_default());
    if !is_container_id(id) {
        return Err(format!(
            "printed a pod whose container {name} has the id {id:?}, expected RUNTIME://DIGITS"
        ));
    }
    Ok(Some(RunningContainer { name: name.to_owned(), id: id.to_owned() }))
}

/// True for `containerd://3f4e9c..`: the string becomes a word of a command that runs as root on a node.
fn is_container_id(text: &str) -> bool {
    let is_runtime = |c: char| c.is_ascii_lowercase() || c == '-';
    text.split_once("://").is_some_and(|(runtime, id)| {
        !runtime.is_empty()
            && runtime.chars().all(is_runtime)
            && id.len() >= 12
            && id.chars().all(|c| c.is_ascii_hexdigit())
    })
}

/// Label selector in the form of kubectl's `-l`; `None` if it selects all objects, or has an unknown operator.
fn selector(selector: &Value) -> Option<String> {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms: Vec<String> =
        labels.map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect::<Option<_>>()?;
    for expression in items(&selector["matchExpressions"]) {
        let key = expression["key"].as_str()?;
        let values = items(&expression["values"]).filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        terms.push(match expression["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!terms.is_empty()).then(|| terms.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_of_kubectl_are_parsed() {
        for (word, kind, name) in [
            ("web-0", "pod", "web-0"),
            ("pod/web-0", "pod", "web-0"),
            ("po/web.1", "pod", "web.1"),
            ("deploy/web", "deployment", "web"),
            ("statefulsets/web", "statefulset", "web"),
            ("ds/web", "daemonset", "web"),
            ("replicaset/web", "replicaset", "web"),
        ] {
            let found = named(word).map(|(workload, name)| (workload.map_or("pod", |one| one.name), name));
            assert_eq!(found, Ok((kind, name)), "{word}");
        }
        for (word, part) in [
            ("-web", "is not an object name"),
            ("pod/", "is not an object name"),
            ("pod/a/b", "is not an object name"),
            ("Web", "expected NAME"),
            ("deployent/web", "did you mean deployment/web?"),
            ("node/web", "does not name a pod"),
        ] {
            let error = named(word).expect_err(word);
            assert!(error.contains(part), "{word}: {error}");
        }
    }

    #[test]
    fn selectors_become_words_of_kubectl() {
        let all = json!({
            "matchLabels": { "app": "web" },
            "matchExpressions": [
                { "key": "tier", "operator": "In", "values": ["a", "b"] },
                { "key": "track", "operator": "NotIn", "values": ["old"] },
                { "key": "live", "operator": "Exists" },
                { "key": "dead", "operator": "DoesNotExist" },
            ],
        });
        let expected = "app=web,tier in (a,b),track notin (old),live,!dead";
        assert_eq!(selector(&all).as_deref(), Some(expected));
        assert_eq!(selector(&json!({})), None);
        assert_eq!(selector(&json!({ "matchExpressions": [{ "key": "a", "operator": "Gt" }] })), None);
    }

    #[test]
    fn a_container_without_an_id_has_no_route() {
        let without_id = json!({ "name": "a", "state": { "running": {} } });
        assert_eq!(running(&json!({ "containerStatuses": [without_id] })), Ok(None));
        let id = "containerd://0123456789ab";
        let other = json!({ "name": "b", "containerID": id, "state": { "running": {} } });
        let found = Some(RunningContainer { name: "b".to_owned(), id: id.to_owned() });
        assert_eq!(running(&json!({ "containerStatuses": [without_id, other] })), Ok(found));
    }

    #[test]
    fn only_valid_container_ids_are_accepted() {
        for id in ["containerd://0123456789ab", "cri-o://0123456789abcdef"] {
            assert!(is_container_id(id), "{id}");
        }
        for id in [
            "",
            "0123456789ab",
            "containerd://",
            "containerd://0123",
            "containerd:///run/netns/a",
            "--x://0123456789a;",
        ] {
            assert!(!is_container_id(id), "{id}");
        }
    }
}
