//! Loop of the operator: events go to the core, and due work is done, one namespace at a time, while events continue.

use super::core::{Core, WorkOutcome};
use super::watch::{self, WatchScope};
use super::writes::Metrics;
use futures::{StreamExt, future::OptionFuture};
use kube::{Client, runtime::watcher::Event};
use std::{
    cell::RefCell,
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    time::Instant,
};
use tokio::{sync::watch::Receiver, time};

pub(super) struct EnvironmentOperator {
    /// Its read timeout exceeds a watch's.
    pub(super) client: Client,
    pub(super) scope: WatchScope,
    pub(super) core: Rc<RefCell<Core>>,
    pub(super) metrics: Metrics,
    pub(super) leads_until: Receiver<Option<Instant>>,
}

type InProgress = (String, Pin<Box<dyn Future<Output = WorkOutcome>>>);

impl EnvironmentOperator {
    /// `unlisted` is held until all resources are listed, which blocks readiness.
    pub(super) async fn run(self: Rc<Self>, unlisted: Arc<str>) {
        let mut unlisted = Some(unlisted);
        let mut events = pin!(watch::events(&self.client, &self.scope));
        let mut lead = self.leads_until.clone();
        let mut in_progress: Option<InProgress> = None;
        loop {
            let now = Instant::now();
            let leads_until = *lead.borrow_and_update();
            let leads = leads_until.is_some_and(|until| now < until);
            self.metrics.leading.set(leads.into());
            self.core.borrow_mut().lead(leads, now);
            if !leads {
                // Another replica may act from now on: work in progress ends here.
                in_progress = None;
            } else if in_progress.is_none() {
                in_progress = self.start_work(now);
            }
            let due = self.core.borrow().next_due().filter(|_| in_progress.is_none());
            tokio::select! {
                Some((resource, event)) = events.next() => match event {
                    Ok(event) => {
                        let is_done = matches!(event, Event::InitDone);
                        self.core.borrow_mut().handle(resource, event, Instant::now());
                        if is_done && self.core.borrow().store.is_complete() {
                            drop(unlisted.take());
                        }
                    }
                    Err(failure) => {
                        self.metrics.watch_failed(watch::resource(resource).plural, failure.kind);
                    }
                },
                Some(outcome) = OptionFuture::from(in_progress.as_mut().map(|(_, work)| work)) => {
                    if let Some((namespace, _)) = in_progress.take() {
                        self.core.borrow_mut().finished(&namespace, outcome, Instant::now());
                    }
                }
                Some(()) = sleep_until(due) => {}
                Some(()) = sleep_until(leads_until.filter(|_| leads)) => {}
                // The sender lives as long as the process.
                Ok(()) = lead.changed() => {}
            }
        }
    }

    fn start_work(self: &Rc<Self>, now: Instant) -> Option<InProgress> {
        let work = self.core.borrow_mut().start(now)?;
        self.metrics.rounds.inc();
        let namespace = work.namespace.clone();
        tracing::debug!(namespace, steps = work.changes.steps.len(), "evaluated");
        for note in work.notes() {
            tracing::debug!(namespace, note, "suspicious configuration");
        }
        Some((namespace, Box::pin(Rc::clone(self).work(work))))
    }
}

fn sleep_until(time: Option<Instant>) -> OptionFuture<time::Sleep> {
    time.map(|time| time::sleep_until(time.into())).into()
}
