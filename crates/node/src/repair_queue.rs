//! The node's broken pods with their tries and due times, at a limited rate. Times are arguments: no clock is read.

use crate::validation_failure::{FailureSignature, ValidationFailure, validation_failure};
use backon::ExponentialBackoff;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Random delay of first calls, because many nodes see the same failure at the same time.
const SPREAD: Duration = Duration::from_millis(200);
/// Delay before the second try for a pod; `MAX_DELAY` limits later ones.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(300);

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
    use serde_json::json;

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
}
