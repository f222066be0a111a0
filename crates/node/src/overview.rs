//! Captures in the node's network namespaces, read at intervals for metrics, and for an event of each pod whose rules changed.

use crate::arguments::{PodAction, Repair};
use crate::{metrics::NodeMetrics, repairer::Publisher};
use cluster::{error::describe, store::Store};
use diagnose::overview::{NamespaceRow, NamespaceState, Overview, PodName};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::{Client, Resource, ResourceExt, runtime::events::EventType};
use mesh::Mesh;
use sidecar_init::backend::iptables::Lock;
use sidecar_init::observe::{NodeObserver, ObserverSettings};
use std::collections::{BTreeMap, BTreeSet};
use std::{cell::RefCell, convert::Infallible, future, rc::Rc, time::Instant};
use tokio::task;
use tokio::time::{self, MissedTickBehavior};

/// The pods of the node, as the API server has them: an event needs the pod's uid.
pub(crate) type PodReferences = Store<PodName, ObjectReference>;

pub(crate) fn reference(pod: &Pod) -> (PodName, ObjectReference) {
    let name = PodName { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
    (name, pod.object_ref(&()))
}

pub(crate) struct NodeStatus<'a> {
    settings: &'a Repair,
    metrics: &'a NodeMetrics,
    publisher: Publisher,
    pods: Rc<RefCell<PodReferences>>,
    /// Drifts with an event: the pod's uid, because another may get its name, and when the rules were made, if known.
    reported: BTreeMap<PodName, (Option<String>, String)>,
}

impl<'a> NodeStatus<'a> {
    pub(crate) fn new(
        settings: &'a Repair,
        metrics: &'a NodeMetrics,
        client: Client,
        pods: Rc<RefCell<PodReferences>>,
    ) -> Self {
        let publisher = Publisher::new(client, settings);
        Self { settings, metrics, publisher, pods, reported: BTreeMap::new() }
    }

    /// Looks at intervals. Never without `--watch`, nor where pods are only labelled or deleted, which takes no view of the node.
    pub(crate) async fn run(mut self) -> Infallible {
        let Repair { watch, action, status_interval, .. } = self.settings;
        if !watch || *action != PodAction::Repair || status_interval.is_zero() {
            return future::pending().await;
        }
        let mut ticks = time::interval(*status_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut observer = self.observer();
        loop {
            ticks.tick().await;
            let start = Instant::now();
            let looked = task::spawn_blocking(move || {
                let overview = observer.look();
                (observer, overview)
            });
            let overview = match looked.await {
                Ok((same, overview)) => {
                    observer = same;
                    overview.map_err(|error| describe(&error))
                }
                Err(error) => {
                    observer = self.observer();
                    Err(describe(&error))
                }
            };
            self.metrics.looked(start.elapsed(), overview.is_ok());
            match overview {
                Ok(overview) => {
                    self.metrics.count(&overview, self.settings.metrics_per_pod);
                    self.report_drift(&overview).await;
                }
                Err(error) => {
                    self.metrics.pods.clear();
                    tracing::warn!(%error, "the namespaces of the node can't be listed");
                }
            }
        }
    }

    fn observer(&self) -> NodeObserver {
        let owner = Mesh::default().ownership().union(mesh::OWNERS);
        let settings = ObserverSettings { lock: Lock::on_node(0), owner, only: None };
        NodeObserver::new(settings, self.settings.places.lookup())
    }

    /// Publishes an event for each pod whose rules have drifted since the last look.
    async fn report_drift(&mut self, overview: &Overview) {
        let rows = overview.namespaces.iter().filter_map(|row| Some((row.pod.as_ref()?, row)));
        // What can't be read may still be as it was.
        let remains =
            |row: &NamespaceRow| matches!(row.state, NamespaceState::Drifted | NamespaceState::Unknown);
        let remaining: BTreeSet<&PodName> =
            rows.clone().filter(|(_, row)| remains(row)).map(|(pod, _)| pod).collect();
        self.reported.retain(|pod, _| remaining.contains(pod));
        for (pod, row) in rows.filter(|(_, row)| row.state == NamespaceState::Drifted) {
            let changed = |held: &&diagnose::status::Record| held.changed_since;
            let made = row.held_by.iter().filter_map(|held| held.made.as_ref()).find(changed);
            let at = made.map(|made| made.at.clone()).unwrap_or_default();
            // A pod that the API server does not have yet gets its event after a later look.
            let Some(reference) = self.pods.borrow().known().get(pod).cloned() else { continue };
            let drift = (reference.uid.clone(), at);
            if self.reported.get(pod) == Some(&drift) {
                continue;
            }
            let note = row.reason().map(|finding| finding.text.clone()).unwrap_or_default();
            tracing::warn!(pod = format!("{}/{}", pod.namespace, pod.name), "{note}");
            let words = ["CaptureDrifted", "Look"].map(str::to_owned);
            if self.publisher.publish(&reference, EventType::Warning, words, note).await {
                self.reported.insert(pod.clone(), drift);
            }
        }
    }
}
