//! Captures in the node's network namespaces, read at intervals for metrics, and for an event of each pod whose rules changed.

use crate::arguments::{PodAction, Repair};
use crate::{metrics::NodeMetrics, repairer::Publisher};
use cluster::{error::describe, watch::Store};
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

/// The node's pods by name: an event needs the uid.
pub(crate) type PodReferences = Store<PodName, ObjectReference>;

pub(crate) fn reference(pod: &Pod) -> (PodName, ObjectReference) {
    let name = PodName { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
    (name, pod.object_ref(&()))
}

/// Pods whose drift has an event: the uid, as another pod may get the name, and the creation time of the rules, if known.
type ReportedDrifts = BTreeMap<PodName, (Option<String>, String)>;

/// Reads the namespaces at intervals, only with `--watch` and `--action repair`: other actions need no view of the node.
pub(crate) async fn run(
    settings: &Repair,
    metrics: &NodeMetrics,
    client: Client,
    pods: Rc<RefCell<PodReferences>>,
) -> Infallible {
    let Repair { watch, action, status_interval, .. } = settings;
    if !watch || *action != PodAction::Repair || status_interval.is_zero() {
        return future::pending().await;
    }
    let new_observer = || {
        let owner = Mesh::default().ownership().union(mesh::OWNERS);
        let observed = ObserverSettings { lock: Lock::on_node(0), owner, only: None };
        NodeObserver::new(observed, settings.places.lookup())
    };
    let (publisher, mut reported) = (Publisher::new(client, settings), ReportedDrifts::new());
    let mut ticks = time::interval(*status_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut observer = new_observer();
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
                observer = new_observer();
                Err(describe(&error))
            }
        };
        metrics.looked(start.elapsed(), overview.is_ok());
        match overview {
            Ok(overview) => {
                metrics.count(&overview, settings.metrics_per_pod);
                report_drift(&publisher, &pods, &mut reported, &overview).await;
            }
            Err(error) => {
                metrics.pods.clear();
                tracing::warn!(%error, "the namespaces of the node can't be listed");
            }
        }
    }
}

/// Publishes an event for each pod whose rules have drifted since the last look.
async fn report_drift(
    publisher: &Publisher,
    pods: &RefCell<PodReferences>,
    reported: &mut ReportedDrifts,
    overview: &Overview,
) {
    let rows = overview.namespaces.iter().filter_map(|row| Some((row.pod.as_ref()?, row)));
    // Unreadable rules may still be unchanged.
    let remains = |row: &NamespaceRow| matches!(row.state, NamespaceState::Drifted | NamespaceState::Unknown);
    let remaining: BTreeSet<&PodName> =
        rows.clone().filter(|(_, row)| remains(row)).map(|(pod, _)| pod).collect();
    reported.retain(|pod, _| remaining.contains(pod));
    for (pod, row) in rows.filter(|(_, row)| row.state == NamespaceState::Drifted) {
        let changed = |held: &&diagnose::status::Record| held.changed_since;
        let made = row.held_by.iter().filter_map(|held| held.made.as_ref()).find(changed);
        let at = made.map(|made| made.at.clone()).unwrap_or_default();
        // A pod that the API server does not list yet gets its event after a later look.
        let Some(reference) = pods.borrow().known().get(pod).cloned() else { continue };
        let drift = (reference.uid.clone(), at);
        if reported.get(pod) == Some(&drift) {
            continue;
        }
        let note = row.reason().map(|finding| finding.text.clone()).unwrap_or_default();
        tracing::warn!(pod = format!("{}/{}", pod.namespace, pod.name), "{note}");
        let words = ["CaptureDrifted", "Look"].map(str::to_owned);
        if publisher.publish(&reference, EventType::Warning, words, note).await {
            reported.insert(pod.clone(), drift);
        }
    }
}
