//! The loop: events go to the core, and what is due is done, one namespace at a time, while events go on coming.

use super::core::{Core, WorkOutcome};
use super::metrics::Metrics;
use super::watch::{self, WatchScope};
use super::writes::OperatorWriter;
use cluster::{
    backoff::Backoff,
    error::{describe, kind_of_call},
    readiness::Blocker,
};
use futures::StreamExt;
use kube::{Client, runtime::watcher::Event};
use std::{
    cell::RefCell,
    future,
    pin::{Pin, pin},
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{sync::watch::Receiver, time};

/// The delays after failed questions for the version of Istio's objects.
const FIRST_DELAY: Duration = Duration::from_millis(200);
const MAX_DELAY: Duration = Duration::from_secs(30);

pub(super) struct EnvironmentOperator {
    /// Of which a call may last as long as a watch.
    pub(super) client: Client,
    /// The address of the API server, which no error names.
    pub(super) server: String,
    pub(super) scope: WatchScope,
    pub(super) core: Rc<RefCell<Core>>,
    pub(super) metrics: Metrics,
    /// Blocks readiness until all resources are listed.
    pub(super) unlisted: Option<Blocker>,
    /// Until when this process leads.
    pub(super) until: Receiver<Option<Instant>>,
}

type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// Work under way, and its namespace.
struct InProgress {
    namespace: String,
    done: Pending<WorkOutcome>,
}

impl EnvironmentOperator {
    /// Keeps routes, for ever.
    pub(super) async fn run(mut self) {
        let mut istio = self.istio().await;
        loop {
            self.core.borrow_mut().set_version(istio);
            istio = self.round(istio).await;
        }
    }

    /// The version of Istio's objects that is served. Asks until there is an answer.
    async fn istio(&self) -> &'static str {
        let mut backoff = Backoff::new(FIRST_DELAY, MAX_DELAY);
        let mut logged = None;
        loop {
            let (kind, error) = match time::timeout(self.scope.call_timeout, watch::istio(&self.client)).await
            {
                Ok(Ok(istio)) => return istio,
                Ok(Err(error)) => (kind_of_call(&error), describe(&error)),
                Err(_) => ("silence", "the API server does not list its API groups".to_owned()),
            };
            self.metrics.watch_failed("groups", kind);
            if logged.as_ref() != Some(&error) {
                tracing::warn!(
                    resource = "groups",
                    kind,
                    server = self.server,
                    error,
                    "the watch is disturbed"
                );
                logged = Some(error);
            }
            time::sleep(backoff.delay()).await;
        }
    }

    /// Works with one version of Istio's objects, as long as that is served. Returns the next one.
    async fn round(&mut self, istio: &'static str) -> &'static str {
        let mut events = pin!(watch::events(&self.client, &self.scope, istio));
        let mut asking: Option<Pending<Option<&'static str>>> = None;
        let mut doing: Option<InProgress> = None;
        let next = loop {
            let now = Instant::now();
            let until = *self.until.borrow_and_update();
            let leads = until.is_some_and(|until| now < until);
            self.metrics.leading.set(leads.into());
            self.core.borrow_mut().lead(leads, now);
            if !leads {
                // Another one may act from now on: what is under way ends here.
                doing = None;
            } else if doing.is_none() {
                doing = self.next(istio, now);
            }
            let due = match &doing {
                Some(_) => None,
                None => self.core.borrow().next(),
            };
            tokio::select! {
                Some((of, event)) = events.next() => match event {
                    Ok(event) => {
                        let is_done = matches!(event, Event::InitDone);
                        self.core.borrow_mut().handle(of, event, Instant::now());
                        if is_done && self.core.borrow().store().is_complete() {
                            self.unlisted = None;
                        }
                    }
                    Err(failure) => {
                        self.metrics.watch_failed(of.plural(), failure.kind());
                        if watch::is_missing(of, &failure) && asking.is_none() {
                            let client = self.client.clone();
                            asking = Some(Box::pin(async move { watch::istio(&client).await.ok() }));
                        }
                    }
                },
                outcome = ready(doing.as_mut().map(|doing| &mut doing.done)) => {
                    if let Some(done) = doing.take() {
                        self.core.borrow_mut().finished(&done.namespace, outcome, Instant::now());
                    }
                }
                served = ready(asking.as_mut()) => {
                    asking = None;
                    if let Some(served) = served.filter(|served| *served != istio) {
                        break served;
                    }
                }
                () = at(due) => {}
                () = at(until.filter(|_| leads)) => {}
                // It has no end before the process has.
                Ok(()) = self.until.changed() => {}
            }
        };
        if let Some(doing) = doing {
            self.core.borrow_mut().finished(&doing.namespace, WorkOutcome::Failed, Instant::now());
        }
        next
    }

    /// Begins the work that is due, if there is some.
    fn next(&self, istio: &'static str, now: Instant) -> Option<InProgress> {
        let work = self.core.borrow_mut().start(now)?;
        self.metrics.rounds.inc();
        let namespace = work.namespace.clone();
        tracing::debug!(namespace, steps = work.steps.len(), "looked at");
        for note in work.notes() {
            tracing::debug!(namespace, note, "suspicious configuration");
        }
        let writer = OperatorWriter {
            client: self.client.clone(),
            istio,
            timeout: self.scope.call_timeout,
            until: self.until.clone(),
            metrics: self.metrics.clone(),
        };
        Some(InProgress { namespace, done: Box::pin(writer.work(work, Rc::clone(&self.core))) })
    }
}

async fn ready<T>(pending: Option<&mut Pending<T>>) -> T {
    match pending {
        Some(pending) => pending.as_mut().await,
        None => future::pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => time::sleep_until(time.into()).await,
        None => future::pending().await,
    }
}
