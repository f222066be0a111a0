//! The node's broken pods, to be repaired at a limited rate: injected pods whose validation failed because no rules capture their
//! traffic. The validating container exits with a known code, and is restarted with growing delays. Istio's controller does the
//! same (`cni/pkg/repair/repaircontroller.go`, `matchesFilter`).

use crate::arguments::{NameList, names};
use backon::ExponentialBackoff;
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use mesh::pod::{self, Skip};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How broken pods differ from others.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureSignature {
    /// Containers that validate the rules
    #[arg(
        long = "validation-containers",
        value_name = "NAMES",
        default_value = "istio-validation,sidecar-validation",
        value_parser = names
    )]
    pub(crate) containers: NameList,
    /// Exit code of a failed validation
    #[arg(long, value_name = "NUMBER", default_value = "126", value_parser = clap::value_parser!(i32).range(1..=255))]
    pub(crate) exit_code: i32,
}

/// One validation failure; a later one compares as unequal.
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
        // Only the last termination matters; a container that has succeeded since has another exit code.
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

/// True for injected pods. Repair reports other reasons not to capture a pod.
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

/// Random delay before first calls, because many nodes see the same failure at the same time.
const SPREAD: Duration = Duration::from_millis(200);
/// Delay before the second try for a pod; `MAX_DELAY` limits later ones.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(300);

/// Times are arguments: no clock is read.
#[derive(Debug)]
pub(crate) struct RepairQueue {
    signature: FailureSignature,
    pods: BTreeMap<String, BrokenPod>,
}

#[derive(Debug)]
struct BrokenPod {
    pod: Pod,
    failure: ValidationFailure,
    backoff: ExponentialBackoff,
    /// `None` while no try can help before the pod fails again.
    due: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueChange {
    None,
    /// The pod's validation has failed, or failed again.
    Broke,
    /// The pod's validation has passed, or the pod is gone.
    Left,
}

impl RepairQueue {
    pub(crate) fn new(signature: FailureSignature) -> Self {
        Self { signature, pods: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn retain(&mut self, uids: &BTreeSet<&str>) {
        self.pods.retain(|uid, _| uids.contains(&**uid));
    }

    pub(crate) fn update(&mut self, pod: Pod, now: Instant) -> QueueChange {
        let Some(uid) = pod.uid() else { return QueueChange::None };
        let Some(failure) = validation_failure(&pod, &self.signature) else { return self.forget(&uid) };
        match self.pods.get_mut(&uid) {
            Some(broken) if broken.failure == failure => {
                broken.pod = pod;
                QueueChange::None
            }
            Some(broken) => {
                // The last try did not help, so the next one waits: a permanently broken pod must not keep the node busy.
                let due = broken.due.unwrap_or_else(|| now + broken.backoff.next().unwrap_or(MAX_DELAY));
                (broken.pod, broken.failure, broken.due) = (pod, failure, Some(due));
                QueueChange::Broke
            }
            None => {
                let backoff = cluster::backoff(FIRST_DELAY, MAX_DELAY, true);
                let due = Some(now + SPREAD.mul_f64(fastrand::f64()));
                self.pods.insert(uid, BrokenPod { pod, failure, backoff, due });
                QueueChange::Broke
            }
        }
    }

    pub(crate) fn forget(&mut self, uid: &str) -> QueueChange {
        if self.pods.remove(uid).is_some() { QueueChange::Left } else { QueueChange::None }
    }

    pub(crate) fn next(&self) -> Option<(Instant, &Pod, &ValidationFailure)> {
        let due = self.pods.values().filter_map(|broken| Some((broken.due?, &broken.pod, &broken.failure)));
        due.min_by_key(|(due, ..)| *due)
    }

    /// Ends the tries for a pod until it fails again.
    pub(crate) fn settle(&mut self, uid: &str) {
        if let Some(broken) = self.pods.get_mut(uid) {
            broken.due = None;
        }
    }

    pub(crate) fn postpone(&mut self, uid: &str, now: Instant) {
        if let Some(broken) = self.pods.get_mut(uid) {
            broken.due = Some(now + broken.backoff.next().unwrap_or(MAX_DELAY));
        }
    }
}

const WINDOW: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct RateLimiter {
    most: usize,
    taken: VecDeque<Instant>,
}

impl RateLimiter {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: VecDeque::new() }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Instant {
        while self.taken.front().is_some_and(|taken| *taken + WINDOW <= now) {
            self.taken.pop_front();
        }
        match self.taken.front() {
            Some(first) if self.taken.len() >= self.most => *first + WINDOW,
            _ => now,
        }
    }

    pub(crate) fn take(&mut self, now: Instant) {
        self.taken.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn queue() -> RepairQueue {
        RepairQueue::new(FailureSignature {
            containers: Box::from(["istio-validation".to_owned()]),
            exit_code: 126,
        })
    }

    fn pod(uid: &str, restarts: i32, exit_code: i32) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": uid, "uid": uid, "annotations": { "sidecar.istio.io/status": "{}" } },
            "status": { "initContainerStatuses": [{
                "name": "istio-validation", "image": "", "imageID": "", "ready": false, "restartCount": restarts,
                "state": { "terminated": { "exitCode": exit_code } },
            }] },
        }))
        .expect("a pod")
    }

    #[test]
    fn a_pod_is_due_once_for_each_failure() {
        let (mut queue, now) = (queue(), Instant::now());
        assert_eq!(queue.update(pod("a", 0, 126), now), QueueChange::Broke);
        assert_eq!(queue.update(pod("a", 0, 126), now), QueueChange::None);
        assert!(queue.next().is_some_and(|(due, ..)| due < now + Duration::from_secs(1)));
        queue.settle("a");
        assert!(queue.next().is_none(), "nothing more helps");
        assert_eq!(queue.update(pod("a", 0, 126), now), QueueChange::None);
        assert!(queue.next().is_none());
        assert_eq!(queue.update(pod("a", 1, 126), now), QueueChange::Broke);
        let due = queue.next().map(|(due, ..)| due - now);
        assert!(due.is_some_and(|due| due >= Duration::from_millis(500)), "{due:?}: too soon after a try");
        assert_eq!(queue.update(pod("a", 2, 0), now), QueueChange::Left);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn pods_that_a_new_list_lacks_are_gone() {
        let (mut queue, now) = (queue(), Instant::now());
        queue.update(pod("a", 0, 126), now);
        queue.update(pod("b", 0, 126), now);
        queue.retain(&BTreeSet::from(["b"]));
        assert_eq!(queue.next().map(|(_, pod, _)| pod.name_any()), Some("b".to_owned()));
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.forget("b"), QueueChange::Left);
    }

    #[test]
    fn no_minute_holds_more_than_the_rate() {
        let mut rate = RateLimiter::new(3);
        let start = Instant::now();
        let mut now = start;
        let mut times = Vec::new();
        for _ in 0..10 {
            now = rate.next(now);
            rate.take(now);
            times.push(now);
            now += Duration::from_secs(1);
        }
        for window in times.windows(4) {
            assert!(window[3] - window[0] >= WINDOW, "{window:?}");
        }
        assert_eq!(times[2] - start, Duration::from_secs(2), "the first ones do not wait");
    }

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
