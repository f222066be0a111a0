//! Injected pods whose validation failed because no rules capture their traffic: the validating container exits with a certain
//! code, and is restarted with growing delays. Istio's controller checks the same (`cni/pkg/repair/repaircontroller.go`,
//! `matchesFilter`).

use crate::arguments::{NameList, names};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use mesh::pod::{self, Skip};

/// How broken pods differ from others.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureSignature {
    /// The containers that validate the rules
    #[arg(
        long = "validation-containers",
        value_name = "NAMES",
        default_value = "istio-validation,sidecar-validation",
        value_parser = names
    )]
    pub(crate) containers: NameList,
    /// How they exit where nothing captures
    #[arg(long, value_name = "NUMBER", default_value = "126", value_parser = clap::value_parser!(i32).range(1..=255))]
    pub(crate) exit_code: i32,
}

/// One failure of a validation; a further one compares as unequal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValidationFailure {
    pub(crate) container: String,
    /// Number of the container's restarts, which distinguishes failures.
    pub(crate) restarts: i32,
    /// The runtime's ID of the failed container; empty if not reported.
    pub(crate) container_id: String,
}

/// The failure of a pod's validation; `None` if it did not fail, or the pod was not injected.
pub(crate) fn validation_failure(pod: &Pod, signature: &FailureSignature) -> Option<ValidationFailure> {
    let is_leaving = pod.metadata.deletion_timestamp.is_some();
    let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    if is_leaving || on_host || !is_injected(pod) {
        return None;
    }
    let status = pod.status.as_ref()?;
    let inits = status.init_container_statuses.iter().flatten();
    let containers = inits.chain(status.container_statuses.iter().flatten());
    containers.filter(|container| signature.containers.contains(&container.name)).find_map(|container| {
        // The last termination counts; a container that has succeeded since has another exit code.
        let [now, before] = [&container.state, &container.last_state]
            .map(|state| state.as_ref().and_then(|state| state.terminated.as_ref()));
        let failed = now.or(before).filter(|failed| failed.exit_code == signature.exit_code)?;
        Some(ValidationFailure {
            container: container.name.clone(),
            restarts: container.restart_count,
            container_id: failed.container_id.clone().unwrap_or_default(),
        })
    })
}

/// True for injected pods. Other reasons not to capture a pod are reported by the repair.
fn is_injected(pod: &Pod) -> bool {
    let namespace = pod.namespace().unwrap_or_default();
    let known = pod::Pod {
        labels: Some(pod.labels().clone()),
        ..pod::Pod::annotated(&pod.name_any(), &namespace, pod.annotations().clone())
    };
    let nowhere: [&str; 0] = [];
    !matches!(
        pod::skip_unnamed(&known, &nowhere),
        Some(Skip::NotInjected | Skip::OfMesh { before: true, .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Annotations that the meshes' injectors leave.
    const INJECTED: [(&str, &str); 3] = [
        ("sidecar.istio.io/status", "{}"),
        ("linkerd.io/proxy-version", "edge-26.8.1"),
        ("kuma.io/sidecar-injected", "true"),
    ];

    fn check(state: &Value, last: &Value, expected: Option<&str>) {
        INJECTED.iter().for_each(|injected| check_of(*injected, state, last, expected));
    }

    fn check_of((name, value): (&str, &str), state: &Value, last: &Value, expected: Option<&str>) {
        let pod = json!({
            "metadata": { "name": "web", "annotations": { name: value } },
            "status": { "initContainerStatuses": [{
                "name": "istio-validation", "image": "i", "imageID": "i", "ready": false, "restartCount": 3,
                "state": state, "lastState": last,
            }] },
        });
        let signature =
            FailureSignature { containers: Box::from(["istio-validation".to_owned()]), exit_code: 126 };
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let found = validation_failure(&pod, &signature);
        assert_eq!(found.as_ref().map(|failure| &*failure.container_id), expected, "{state} {last}");
        let mut other = pod.clone();
        other.metadata.annotations = None;
        assert_eq!(validation_failure(&other, &signature), None, "it was not injected");
        let mut other = pod.clone();
        other.spec =
            Some(serde_json::from_value(json!({ "containers": [], "hostNetwork": true })).expect("a spec"));
        assert_eq!(validation_failure(&other, &signature), None, "its network is the node's");
        let other = FailureSignature { containers: Box::from(["another".to_owned()]), ..signature };
        assert_eq!(validation_failure(&pod, &other), None, "it validates nothing");
    }

    #[test]
    fn the_last_end_decides() {
        let ended = |code: i32, id: &str| json!({ "terminated": { "exitCode": code, "containerID": id } });
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        let running = json!({ "running": {} });
        check(&ended(126, "a"), &json!({}), Some("a"));
        check(&ended(126, "b"), &ended(126, "a"), Some("b"));
        check(&waiting, &ended(126, "a"), Some("a"));
        check(&running, &ended(126, "a"), Some("a"));
        check(&ended(0, "b"), &ended(126, "a"), None);
        check(&ended(1, "b"), &ended(126, "a"), None);
        check(&waiting, &ended(1, "a"), None);
        check(&waiting, &json!({}), None);
        check(&running, &json!({}), None);
    }
}
