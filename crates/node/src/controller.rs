//! Main loop: the API server's events about the node's pods go to the [`RepairQueue`], and due pods are handled one at a
//! time. At intervals, all network namespaces are read for metrics, and for an event about each pod whose rules changed.

use crate::arguments::{PodAction, Repair};
use crate::metrics::NodeMetrics;
use crate::repair::{PodActionOutcome, named};
use crate::repair_queue::{QueueChange, RateLimiter, RepairQueue};
use crate::repairer::{Publisher, Repairer};
use cluster::access::{self, AccessError};
use cluster::error::describe;
use cluster::watch::{self, Store};
use diagnose::overview::{NamespaceRow, NamespaceState, Overview, PodName};
use futures::{StreamExt, future::OptionFuture};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt, runtime::events::EventType};
use mesh::Mesh;
use sidecar_init::backend::iptables::Lock;
use sidecar_init::observe::{NodeObserver, ObserverSettings};
use std::collections::{BTreeMap, BTreeSet};
use std::{cell::RefCell, convert::Infallible, future, pin::pin};
use std::{process::ExitCode, rc::Rc, sync::Arc, time::Instant};
use tokio::task;
use tokio::time::{self, MissedTickBehavior};

/// Consecutive failures of the watch that end a run without `--watch`.
const MAX_FAILURES: u32 = 5;

struct Controller<'a> {
    settings: &'a Repair,
    metrics: &'a NodeMetrics,
    queue: RepairQueue,
    pods: Rc<RefCell<PodReferences>>,
    rate: RateLimiter,
    /// Blocks readiness until all pods are listed.
    unlisted: Option<Arc<str>>,
    failed: bool,
    failures: u32,
}

/// Runs until `stop`, or without `--watch` until broken pods are repaired. Fails if a repair failed, or the pods stay unknown.
pub(crate) async fn run(
    settings: &Repair,
    metrics: &NodeMetrics,
    unlisted: Arc<str>,
    stop: impl Future<Output = ()>,
) -> Result<ExitCode, AccessError> {
    let timeout = settings.watch_timeout + settings.call_timeout;
    let client = access::client(settings.kubeconfig.as_deref(), timeout).await?;
    let repairer = Repairer::new(client.clone(), settings.clone());
    let seconds = u32::try_from(settings.watch_timeout.as_secs()).unwrap_or(u32::MAX);
    // Read from the API server's cache: hundreds of nodes list at once. The cache has no pages; a page size would bypass it.
    let config = watcher::Config { page_size: None, ..watcher::Config::default() };
    let config = config.any_semantic().fields(&format!("spec.nodeName={}", settings.node)).timeout(seconds);
    let pods = Rc::new(RefCell::new(PodReferences::default()));
    let mut status = pin!(observe(settings, metrics, client.clone(), pods.clone()));
    let mut events = watch::events(Api::<Pod>::all(client), config, "pods", settings.call_timeout);
    let mut controller = Controller {
        settings,
        metrics,
        queue: RepairQueue::new(settings.signature.clone()),
        pods,
        rate: RateLimiter::new(settings.rate),
        unlisted: Some(unlisted),
        failed: false,
        failures: 0,
    };
    let mut stop = pin!(stop);
    loop {
        let due = controller.due();
        if !settings.watch && controller.unlisted.is_none() && due.is_none() {
            return Ok(if controller.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        tokio::select! {
            biased;
            () = stop.as_mut() => return Ok(ExitCode::SUCCESS),
            Some(event) = events.next() => match event {
                Ok(event) => controller.take(event),
                Err(failure) => {
                    metrics.watch_failed(failure.kind);
                    controller.failures += 1;
                    if !settings.watch && controller.failures >= MAX_FAILURES {
                        return Ok(ExitCode::FAILURE);
                    }
                }
            },
            never = status.as_mut() => match never {},
            Some(()) = OptionFuture::from(due.map(|due| time::sleep_until(due.into()))) => controller.repair(&repairer).await,
        }
        metrics.broken.set(i64::try_from(controller.queue.len()).unwrap_or(i64::MAX));
    }
}

impl Controller<'_> {
    fn take(&mut self, event: Event<Pod>) {
        let (is_list, is_deletion) = (matches!(event, Event::InitDone), matches!(event, Event::Delete(_)));
        let pods = Rc::clone(&self.pods);
        pods.borrow_mut().take(event, |pod| {
            let entry = reference(&pod);
            self.update(pod, is_deletion);
            Some(entry)
        });
        if is_list {
            let pods = pods.borrow();
            let uids = pods.known().values().filter_map(|pod| pod.uid.as_deref());
            self.queue.retain(&uids.collect());
            (self.unlisted, self.failures) = (None, 0);
            self.metrics.lists.inc();
            tracing::info!(broken = self.queue.len(), "the node's pods are known");
        }
    }

    fn update(&mut self, pod: Pod, is_deleted: bool) {
        let name = named(&pod);
        let is_gone = is_deleted || pod.metadata.deletion_timestamp.is_some();
        let change = match is_deleted {
            true => self.queue.forget(&pod.uid().unwrap_or_default()),
            false => self.queue.update(pod, Instant::now()),
        };
        match change {
            QueueChange::None => {}
            QueueChange::Broke => {
                tracing::info!(pod = %name, "its validation failed: its traffic is not captured");
            }
            // A pod that is gone before its validation passed has not recovered.
            QueueChange::Left if is_gone => tracing::info!(pod = name, "it is deleted"),
            QueueChange::Left => {
                self.metrics.recovered.inc();
                tracing::info!(pod = name, "it has recovered");
            }
        }
    }

    fn due(&mut self) -> Option<Instant> {
        let (due, ..) = self.queue.next()?;
        Some(due.max(self.rate.next(Instant::now())))
    }

    async fn repair(&mut self, repairer: &Repairer) {
        let Some((_, pod, failure)) = self.queue.next() else { return };
        let (pod, failure) = (pod.clone(), failure.clone());
        let (uid, name, action) = (pod.uid().unwrap_or_default(), named(&pod), self.settings.action.name());
        let start = Instant::now();
        self.rate.take(start);
        let handled = repairer.handle(&pod, &failure).await;
        let took = start.elapsed();
        let milliseconds = (took.as_secs_f64() * 1e6).round() / 1e3;
        match &handled {
            Ok(PodActionOutcome::Gone) => drop(self.queue.forget(&uid)),
            Err(_) if self.settings.watch => self.queue.postpone(&uid, Instant::now()),
            Ok(_) | Err(_) => self.queue.settle(&uid),
        }
        self.failed |= handled.is_err();
        let (outcome, text) = match handled {
            Ok(PodActionOutcome::Done(what)) => ("done", what),
            Ok(PodActionOutcome::Skipped(why)) => ("skipped", format!("skipped: {why}")),
            Ok(PodActionOutcome::Gone) => ("gone", "it is deleted".to_owned()),
            Err(error) => {
                tracing::warn!(pod = %name, action, milliseconds, error = %describe(&error), "cannot repair it");
                return self.metrics.handled(action, "failed", took);
            }
        };
        tracing::info!(pod = %name, action, milliseconds, "{text}");
        self.metrics.handled(action, outcome, took);
    }
}

/// The node's pods by name: an event needs the uid.
type PodReferences = Store<PodName, ObjectReference>;

fn reference(pod: &Pod) -> (PodName, ObjectReference) {
    let name = PodName { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
    (name, pod.object_ref(&()))
}

/// Pods whose drift was reported: the uid, since another pod may get the name, and the rules' creation time, if known.
type ReportedDrifts = BTreeMap<PodName, (Option<String>, String)>;

/// Reads the namespaces at intervals, only with `--watch` and `--action repair`: other actions need no view of the node.
async fn observe(
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
                tracing::warn!(%error, "the node's namespaces can't be listed");
            }
        }
    }
}

/// Publishes an event for each pod whose rules have drifted since the last reading.
async fn report_drift(
    publisher: &Publisher,
    pods: &RefCell<PodReferences>,
    reported: &mut ReportedDrifts,
    overview: &Overview,
) {
    let rows = overview.namespaces.iter().filter_map(|row| Some((row.pod.as_ref()?, row)));
    // Unreadable rules may still have drifted.
    let remains = |row: &NamespaceRow| matches!(row.state, NamespaceState::Drifted | NamespaceState::Unknown);
    let remaining: BTreeSet<&PodName> =
        rows.clone().filter(|(_, row)| remains(row)).map(|(pod, _)| pod).collect();
    reported.retain(|pod, _| remaining.contains(pod));
    for (pod, row) in rows.filter(|(_, row)| row.state == NamespaceState::Drifted) {
        let changed = |held: &&diagnose::status::Record| held.changed_since;
        let made = row.held_by.iter().filter_map(|held| held.made.as_ref()).find(changed);
        let at = made.map(|made| made.at.clone()).unwrap_or_default();
        // A pod that the API server does not list yet gets its event after a later reading.
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
