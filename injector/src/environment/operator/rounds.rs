//! The loop: events go to the core, and what is due is done, one namespace at a time, while events go on coming.

use super::core::{Core, Outcome};
use super::numbers::Numbers;
use super::store::{Event, Resource};
use super::watch::{self, Scope};
use super::writes::Writer;
use crate::refusal::{kind, kind_of_call, status, told};
use cluster::access;
use futures::StreamExt;
use kube::Client;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    future,
    path::PathBuf,
    pin::{Pin, pin},
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{sync::watch::Receiver, time};

/// The pause between two clients, if nothing has failed of late.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest one; and how long a client has to have worked before its end is no failure to begin.
const LONGEST: Duration = Duration::from_secs(30);

/// What keeps routes.
pub(super) struct Operator {
    pub(super) kubeconfig: Option<PathBuf>,
    /// The address of the API server, as last known.
    pub(super) server: String,
    pub(super) scope: Scope,
    pub(super) call_timeout: Duration,
    pub(super) core: Rc<RefCell<Core>>,
    pub(super) numbers: Rc<Numbers>,
    /// Until when we lead.
    pub(super) until: Receiver<Option<Instant>>,
    /// What disturbs the watch of each resource, as it was told.
    pub(super) told: RefCell<BTreeMap<&'static str, (&'static str, String)>>,
}

/// Something under way.
type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// Work that is being done: on which namespace.
struct Doing {
    namespace: String,
    done: Pending<Outcome>,
}

impl Operator {
    /// Keeps routes, for ever.
    pub(super) async fn run(mut self) {
        let mut pause = SHORTEST;
        loop {
            // A watch is silent as long as nothing happens.
            let silence = self.scope.timeout + self.call_timeout;
            match access::reach(self.kubeconfig.as_deref(), silence).await {
                Ok((client, server)) => {
                    self.server = server;
                    let begun = Instant::now();
                    // Each new client lists everything, so they must not follow each other fast, even if all lists succeed.
                    if self.round(client).await && begun.elapsed() > LONGEST {
                        pause = SHORTEST;
                    }
                }
                // What was well once is being exchanged.
                Err(error) => self.disturbed("client", "credentials", &told(&error)),
            }
            time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Counts it, and tells it where it is something else than before.
    fn disturbed(&self, resource: &'static str, kind: &'static str, error: &str) {
        self.numbers.disturbed(resource, kind);
        let new = (kind, error.to_owned());
        let before = self.told.borrow_mut().insert(resource, new.clone());
        if before != Some(new) {
            tracing::warn!(resource, kind, server = self.server, error, "the watch is disturbed");
        }
    }

    fn is_well(&self, resource: &'static str) {
        self.told.borrow_mut().remove(resource);
    }

    /// Which version of Istio's objects is served; `None` where that can't be had.
    async fn istio(&self, client: &Client) -> Option<&'static str> {
        let (kind, error) = match time::timeout(self.call_timeout, watch::istio(client)).await {
            Ok(Ok(istio)) => {
                self.is_well("groups");
                return Some(istio);
            }
            Ok(Err(error)) => (kind_of_call(&error), told(&error)),
            Err(_) => ("silence", "the API server does not say what it serves".to_owned()),
        };
        self.disturbed("groups", kind, &error);
        None
    }

    /// Works with one client as long as that makes sense. Whether everything was listed.
    async fn round(&mut self, client: Client) -> bool {
        let Some(istio) = self.istio(&client).await else { return false };
        self.core.borrow_mut().speak(istio);
        let mut events = pin!(watch::events(&client, &self.scope, istio));
        // What was listed, or refused: then it is waited for longer and longer, and is no reason to list all others again.
        let mut answered: BTreeSet<Resource> = BTreeSet::new();
        let mut asking: Option<Pending<Option<&'static str>>> = None;
        let mut end = Instant::now() + self.call_timeout;
        let mut doing: Option<Doing> = None;
        let mut is_stale = false;
        let again = loop {
            let now = Instant::now();
            let until = *self.until.borrow_and_update();
            let leads = until.is_some_and(|until| now < until);
            self.numbers.leads(leads);
            self.core.borrow_mut().lead(leads, now);
            if !leads {
                // Another one may act from now on: what is under way ends here.
                doing = None;
            } else if doing.is_none() {
                doing = self.next(&client, istio, now);
            }
            let due = match &doing {
                Some(_) => None,
                None => self.core.borrow().next(),
            };
            let is_all = answered.len() == Resource::ALL.len();
            // One that is refused for ever does not keep the others from being listed.
            if is_stale && is_all {
                break true;
            }
            tokio::select! {
                event = events.next() => match event {
                    Some((of, Ok(event))) => {
                        // However many pages a list has, each comes in time.
                        if matches!(event, Event::Listed(_) | Event::Done) {
                            end = Instant::now() + self.call_timeout;
                        }
                        if matches!(event, Event::Done) {
                            answered.insert(of);
                        }
                        if !matches!(event, Event::Begin) {
                            self.is_well(of.plural());
                        }
                        self.core.borrow_mut().see(of, event, Instant::now());
                        if self.core.borrow().store().is_complete() {
                            self.numbers.ready();
                        }
                    }
                    Some((of, Err(error))) => {
                        self.disturbed(of.plural(), kind(&error), &told(&error));
                        if status(&error).is_some() {
                            answered.insert(of);
                        }
                        is_stale |= watch::is_stale(&error);
                        if watch::is_missing(of, &error) && asking.is_none() {
                            let client = client.clone();
                            asking = Some(Box::pin(async move { watch::istio(&client).await.ok() }));
                        }
                    }
                    None => break is_all,
                },
                outcome = ready(doing.as_mut().map(|doing| &mut doing.done)) => {
                    if let Some(done) = doing.take() {
                        self.core.borrow_mut().finished(&done.namespace, outcome, Instant::now());
                    }
                }
                served = ready(asking.as_mut()) => {
                    asking = None;
                    is_stale |= served.is_some_and(|served| served != istio);
                }
                () = at(due) => {}
                () = at(until.filter(|_| leads)) => {}
                changed = self.until.changed() => if changed.is_err() {
                    // Nobody tells any more who leads: the process is about to end.
                    break is_all;
                },
                () = at((!is_all).then_some(end)) => {
                    let missing = Resource::ALL.into_iter().find(|of| !answered.contains(of));
                    let resource = missing.map_or("", Resource::plural);
                    self.disturbed(resource, "silence", "the API server does not list it");
                    break false;
                }
            }
        };
        if let Some(doing) = doing {
            self.core.borrow_mut().finished(&doing.namespace, Outcome::Failed, Instant::now());
        }
        again
    }

    /// Begins the work that is due, if there is some.
    fn next(&self, client: &Client, istio: &'static str, now: Instant) -> Option<Doing> {
        let work = self.core.borrow_mut().start(now)?;
        self.numbers.looked();
        let namespace = work.namespace.clone();
        tracing::debug!(namespace, steps = work.steps.len(), "looked at");
        for note in work.notes() {
            tracing::debug!(namespace, note, "odd");
        }
        let writer = Writer {
            client: client.clone(),
            istio,
            patience: self.call_timeout,
            until: self.until.clone(),
            numbers: Rc::clone(&self.numbers),
        };
        Some(Doing { namespace, done: Box::pin(writer.work(work, Rc::clone(&self.core))) })
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
