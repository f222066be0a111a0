//! The loop: reports of the API server about the node's pods go to the [`RepairQueue`], and pods that are due are handled singly.

use crate::overview::{NodeStatus, PodReferences, reference};
use crate::repair_queue::{QueueChange, RateLimiter, RepairQueue};
use crate::repairer::{PodActionOutcome, Repairer, named};
use crate::{arguments::Repair, metrics::NodeMetrics};
use cluster::access::{self, AccessError};
use cluster::{error::describe, watch};
use futures::{StreamExt, future::OptionFuture};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use std::{cell::RefCell, pin::pin, process::ExitCode, rc::Rc, sync::Arc, time::Instant};
use tokio::time;

/// Failures of the watch in a row that end a run that does not go on watching.
const MAX_FAILURES: u32 = 5;

struct Controller<'a> {
    settings: &'a Repair,
    metrics: &'a NodeMetrics,
    queue: RepairQueue,
    pods: Rc<RefCell<PodReferences>>,
    rate: RateLimiter,
    /// Blocks readiness until all pods are known.
    unlisted: Option<Arc<str>>,
    failed: bool,
    failures: u32,
}

/// Watches the node's pods until `stop`, or until broken ones are repaired. Fails where one could not be, or none are known.
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
    // From the API server's cache, as hundreds of nodes ask at once. It has no pages; with a page size the client asks elsewhere.
    let config = watcher::Config { page_size: None, ..watcher::Config::default() };
    let config = config.any_semantic().fields(&format!("spec.nodeName={}", settings.node)).timeout(seconds);
    let pods = Rc::new(RefCell::new(PodReferences::default()));
    let mut status = pin!(NodeStatus::new(settings, metrics, client.clone(), pods.clone()).run());
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
        let store = |event: Event<&Pod>| drop(self.pods.borrow_mut().take(event, |pod| Some(reference(pod))));
        match event {
            Event::Init => store(Event::Init),
            Event::InitApply(pod) => {
                store(Event::InitApply(&pod));
                self.update(pod);
            }
            Event::Apply(pod) => {
                store(Event::Apply(&pod));
                self.update(pod);
            }
            Event::InitDone => {
                store(Event::InitDone);
                let pods = self.pods.borrow();
                let uids = pods.known().values().filter_map(|pod| pod.uid.as_deref());
                self.queue.retain(&uids.collect());
                (self.unlisted, self.failures) = (None, 0);
                self.metrics.lists.inc();
                tracing::info!(broken = self.queue.len(), "the pods of the node are known");
            }
            Event::Delete(pod) => {
                store(Event::Delete(&pod));
                if self.queue.forget(&pod.uid().unwrap_or_default()) == QueueChange::Left {
                    self.left(&named(&pod), true);
                }
            }
        }
    }

    fn update(&mut self, pod: Pod) {
        let (name, is_ending) = (named(&pod), pod.metadata.deletion_timestamp.is_some());
        match self.queue.update(pod, Instant::now()) {
            QueueChange::None => {}
            QueueChange::Broke => {
                tracing::info!(pod = %name, "its validation has failed: nothing captures it");
            }
            QueueChange::Left => self.left(&name, is_ending),
        }
    }

    /// A pod whose validation did not pass has not recovered, but may be gone.
    fn left(&self, name: &str, is_gone: bool) {
        if is_gone {
            return tracing::info!(pod = name, "it is gone");
        }
        self.metrics.recovered.inc();
        tracing::info!(pod = name, "it is not broken any more");
    }

    /// The time of the next action, if the rate allows.
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
        let outcome = match handled {
            Ok(PodActionOutcome::Done(what)) => {
                tracing::info!(pod = %name, action, milliseconds, "{what}");
                self.queue.settle(&uid);
                "done"
            }
            Ok(PodActionOutcome::Skipped(why)) => {
                tracing::info!(pod = %name, action, milliseconds, "it is skipped: {why}");
                self.queue.settle(&uid);
                "left_alone"
            }
            Ok(PodActionOutcome::Gone) => {
                tracing::info!(pod = %name, action, milliseconds, "it is gone");
                self.queue.forget(&uid);
                "gone"
            }
            Err(error) => {
                self.failed = true;
                tracing::warn!(pod = %name, action, milliseconds, error = %describe(&error), "it can't be repaired");
                match self.settings.watch {
                    true => self.queue.postpone(&uid, Instant::now()),
                    false => self.queue.settle(&uid),
                }
                "failed"
            }
        };
        self.metrics.handled(action, outcome, took);
    }
}
