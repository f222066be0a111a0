//! The loop: events go to the core, and what is due is done, one namespace at a time, while events go on coming.

use super::core::Core;
use super::numbers::Numbers;
use super::store::{Event, Resource};
use super::watch::{self, Scope};
use super::writes::{Writer, told};
use cluster::access;
use futures::StreamExt;
use kube::Client;
use std::{
    cell::RefCell,
    collections::BTreeMap,
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
}

/// Work that is being done: on which namespace.
struct Doing {
    namespace: String,
    done: Pin<Box<dyn Future<Output = bool>>>,
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

    fn disturbed(&self, resource: &'static str, kind: &'static str, error: &str) {
        self.numbers.disturbed(resource, kind);
        tracing::warn!(resource, kind, server = self.server, error, "the watch is disturbed");
    }

    /// Works with one client as long as that makes sense. Whether everything was listed.
    async fn round(&mut self, client: Client) -> bool {
        let istio = match time::timeout(self.call_timeout, watch::istio(&client)).await {
            Ok(Ok(istio)) => istio,
            Ok(Err(error)) => {
                self.disturbed("groups", watch::kind_of_call(&error), &told(&error));
                return false;
            }
            Err(_) => {
                self.disturbed("groups", "silence", "the API server does not say what it serves");
                return false;
            }
        };
        self.core.borrow_mut().speak(istio);
        let mut events = pin!(watch::events(&client, &self.scope, istio));
        let mut listed: BTreeMap<&'static str, Resource> = BTreeMap::new();
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
            let is_all = listed.len() == Resource::ALL.len();
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
                            listed.insert(of.plural(), of);
                        }
                        self.core.borrow_mut().see(of, event, Instant::now());
                        if self.core.borrow().store().is_complete() {
                            self.numbers.ready();
                        }
                    }
                    Some((of, Err(error))) => {
                        self.disturbed(of.plural(), watch::kind(&error), &told(&error));
                        if watch::is_unauthorized(&error) {
                            break is_all;
                        }
                        is_stale |= watch::is_stale(&error);
                    }
                    None => break is_all,
                },
                well = done(doing.as_mut()) => {
                    if let Some(done) = doing.take() {
                        self.core.borrow_mut().finished(&done.namespace, well, Instant::now());
                    }
                }
                () = at(due) => {}
                () = at(until.filter(|_| leads)) => {}
                changed = self.until.changed() => if changed.is_err() {
                    // Nobody tells any more who leads: the process is about to end.
                    break is_all;
                },
                () = at((!is_all).then_some(end)) => {
                    let missing = Resource::ALL.into_iter().find(|of| !listed.contains_key(of.plural()));
                    let resource = missing.map_or("", Resource::plural);
                    self.disturbed(resource, "silence", "the API server does not list it");
                    break false;
                }
            }
        };
        if let Some(doing) = doing {
            self.core.borrow_mut().finished(&doing.namespace, false, Instant::now());
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

async fn done(doing: Option<&mut Doing>) -> bool {
    match doing {
        Some(doing) => doing.done.as_mut().await,
        None => future::pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => time::sleep_until(time.into()).await,
        None => future::pending().await,
    }
}
