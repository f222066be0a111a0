//! The broken pods of the node: which there are, what was done for each, and when the next is due.
//!
//! Pure: it is told the time.

use crate::incident::{Incident, Signs, incident};
use crate::pace;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// Broken pods by their uid.
#[derive(Debug)]
pub(crate) struct Ward {
    signs: Signs,
    cases: BTreeMap<String, Case>,
    /// Those seen while all pods are listed anew; `None` at other times.
    seen: Option<BTreeSet<String>>,
}

/// A broken pod.
#[derive(Clone, Debug)]
struct Case {
    pod: Pod,
    incident: Incident,
    /// How often something was done since it broke.
    tries: u32,
    /// When to do something; `None` while it is known to be of no use before the pod fails again.
    due: Option<Instant>,
}

/// What became of a pod by what the watch told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// It has failed, or failed again.
    Broke,
    /// Its validation has passed, or it is gone.
    Left,
}

impl Ward {
    pub(crate) fn new(signs: Signs) -> Self {
        Self { signs, cases: BTreeMap::new(), seen: None }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.cases.len()
    }

    /// All pods follow, and those that don't are gone.
    pub(crate) fn begin(&mut self) {
        self.seen = Some(BTreeSet::new());
    }

    /// All pods were told.
    pub(crate) fn end(&mut self) {
        if let Some(seen) = self.seen.take() {
            self.cases.retain(|uid, _| seen.contains(uid));
        }
    }

    /// A pod is as it is now.
    pub(crate) fn see(&mut self, pod: Pod, now: Instant) -> Change {
        let Some(uid) = pod.uid() else { return Change::None };
        if let Some(seen) = &mut self.seen {
            seen.insert(uid.clone());
        }
        let Some(incident) = incident(&pod, &self.signs) else { return self.forget(&uid) };
        match self.cases.get_mut(&uid) {
            Some(case) if case.incident == incident => {
                case.pod = pod;
                Change::None
            }
            Some(case) => {
                // It was not helped: what comes next has to wait, or a pod that can't be would keep us busy.
                let due = case.due.unwrap_or_else(|| now + pace::backoff(case.tries));
                *case = Case { pod, incident, tries: case.tries, due: Some(due) };
                Change::Broke
            }
            None => {
                let due = Some(now + pace::backoff(0));
                self.cases.insert(uid, Case { pod, incident, tries: 0, due });
                Change::Broke
            }
        }
    }

    /// A pod is gone.
    pub(crate) fn forget(&mut self, uid: &str) -> Change {
        if self.cases.remove(uid).is_some() { Change::Left } else { Change::None }
    }

    /// The pod that is due first, and when.
    pub(crate) fn next(&self) -> Option<(Instant, &Pod, &Incident)> {
        let due = self.cases.values().filter_map(|case| Some((case.due?, &case.pod, &case.incident)));
        due.min_by_key(|(due, ..)| *due)
    }

    /// All that could be done for a pod is done until it fails again.
    pub(crate) fn settle(&mut self, uid: &str) {
        self.tried(uid, |_| None);
    }

    /// It did not work; says in how long it is due again.
    pub(crate) fn postpone(&mut self, uid: &str, now: Instant) {
        self.tried(uid, |tries| Some(now + pace::backoff(tries)));
    }

    fn tried(&mut self, uid: &str, due: impl FnOnce(u32) -> Option<Instant>) {
        if let Some(case) = self.cases.get_mut(uid) {
            case.tries = case.tries.saturating_add(1);
            case.due = due(case.tries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn ward() -> Ward {
        Ward::new(Signs { containers: vec!["istio-validation".to_owned()], exit_code: 126 })
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
        let (mut ward, now) = (ward(), Instant::now());
        assert_eq!(ward.see(pod("a", 0, 126), now), Change::Broke);
        assert_eq!(ward.see(pod("a", 0, 126), now), Change::None);
        assert!(ward.next().is_some_and(|(due, ..)| due < now + Duration::from_secs(1)));
        ward.settle("a");
        assert!(ward.next().is_none(), "nothing more helps");
        assert_eq!(ward.see(pod("a", 0, 126), now), Change::None);
        assert!(ward.next().is_none());
        assert_eq!(ward.see(pod("a", 1, 126), now), Change::Broke);
        let due = ward.next().map(|(due, ..)| due - now);
        assert!(due.is_some_and(|due| due >= Duration::from_millis(500)), "{due:?}: too soon after a try");
        assert_eq!(ward.see(pod("a", 2, 0), now), Change::Left);
        assert_eq!(ward.len(), 0);
    }

    #[test]
    fn failures_are_tried_again_later_and_later() {
        let (mut ward, now) = (ward(), Instant::now());
        ward.see(pod("a", 0, 126), now);
        for tries in 0..12 {
            ward.postpone("a", now);
            let due = ward.next().map(|(due, ..)| due - now).expect("due");
            assert!(due >= Duration::from_millis(500 << tries.min(8)), "{tries}: {due:?}");
        }
    }

    #[test]
    fn pods_that_a_new_list_lacks_are_gone() {
        let (mut ward, now) = (ward(), Instant::now());
        ward.see(pod("a", 0, 126), now);
        ward.see(pod("b", 0, 126), now);
        ward.begin();
        ward.see(pod("b", 0, 126), now);
        ward.end();
        assert_eq!(ward.next().map(|(_, pod, _)| pod.name_any()), Some("b".to_owned()));
        assert_eq!(ward.len(), 1);
        assert_eq!(ward.forget("b"), Change::Left);
    }
}
