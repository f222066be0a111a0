//! The loop: what the API server tells of the node's pods goes to the [`Ward`], and what is due is treated, one pod at a
//! time.
//!
//! Listing, watching, bookmarks and the new list after `410 Gone` are the client's (`kube::runtime::watcher`). What it does
//! not do is done here: a list or a stream that never comes is given up, and a watch that is refused before it has begun,
//! because its version is too old or our token is not known any more, begins anew with a new client.

use crate::arguments::Repair;
use crate::metrics::Metrics;
use crate::pace::{self, Rate};
use crate::treatment::{Outcome, Treatment, chain, code, named};
use crate::ward::{Change, Ward};
use cluster::access::{self, Refused};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use std::{
    future,
    pin::{Pin, pin},
    time::Instant,
};
use tokio::time;

/// How often a list is tried where nobody asks to go on looking.
const TRIES: u32 = 5;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All that was broken is helped, or somebody has ended us.
    Well,
    /// A pod could not be helped, or the pods are not known.
    Badly,
}

/// What became of a connection.
enum Round {
    Ended(Ended),
    /// A new client is needed.
    Again,
}

struct Controller<'a> {
    settings: &'a Repair,
    metrics: &'a Metrics,
    ward: Ward,
    rate: Rate,
    /// Whether all pods are known.
    listed: bool,
    /// Whether a pod could not be helped.
    failed: bool,
    /// How often the watch was disturbed since it was well.
    disturbances: u32,
}

/// Looks at the node's pods until `stop`, or until those that are broken are helped.
///
/// # Errors
/// When it is not known how to reach the API server.
pub(crate) async fn run(
    settings: &Repair,
    metrics: &Metrics,
    stop: impl Future<Output = ()>,
) -> Result<Ended, Refused> {
    let mut controller = Controller {
        settings,
        metrics,
        ward: Ward::new(settings.signs.clone()),
        rate: Rate::new(settings.rate),
        listed: false,
        failed: false,
        disturbances: 0,
    };
    let mut stop = pin!(stop);
    let mut first = true;
    loop {
        match access::client(settings.kubeconfig.as_deref(), settings.watch_timeout + settings.call_timeout)
            .await
        {
            Ok(client) => match controller.round(client, stop.as_mut()).await {
                Round::Ended(ended) => return Ok(ended),
                Round::Again => {}
            },
            // What was well once is being exchanged.
            Err(refused) if first => return Err(refused),
            Err(refused) => controller.disturbed("credentials", &chain(&refused)),
        }
        first = false;
        if controller.is_hopeless() {
            return Ok(Ended::Badly);
        }
        tokio::select! {
            () = stop.as_mut() => return Ok(Ended::Well),
            () = time::sleep(pace::backoff(controller.disturbances.min(6))) => {}
        }
    }
}

impl Controller<'_> {
    /// Works with one client as long as that makes sense.
    async fn round(&mut self, client: Client, mut stop: Pin<&mut impl Future<Output = ()>>) -> Round {
        let treatment = Treatment::new(client.clone(), self.settings.clone());
        let seconds = u32::try_from(self.settings.watch_timeout.as_secs()).unwrap_or(u32::MAX);
        let fields = format!("spec.nodeName={}", self.settings.node);
        // From the API server's cache: hundreds of nodes ask at the same time.
        // It has no pages, and the client asks elsewhere if there is to be a page's size.
        let config = watcher::Config { page_size: None, ..watcher::Config::default() };
        let config = config.any_semantic().fields(&fields).timeout(seconds);
        let mut events = pin!(watcher(Api::<Pod>::all(client), config).default_backoff());
        self.listed = false;
        let started = Instant::now();
        loop {
            let due = self.due();
            if !self.settings.watch && self.listed && due.is_none() {
                return Round::Ended(if self.failed { Ended::Badly } else { Ended::Well });
            }
            let patience = async {
                match self.listed {
                    true => future::pending().await,
                    false => time::sleep_until((started + self.settings.call_timeout).into()).await,
                }
            };
            let is_due = async {
                match due {
                    Some(due) => time::sleep_until(due.into()).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.as_mut() => return Round::Ended(Ended::Well),
                event = events.next() => match event {
                    Some(Ok(event)) => self.take(event),
                    Some(Err(error)) => {
                        let kind = kind(&error);
                        self.disturbed(kind, &chain(&error));
                        if is_new_client_needed(&error) || self.is_hopeless() {
                            return Round::Again;
                        }
                    }
                    None => return Round::Again,
                },
                () = is_due => {
                    if self.treat(&treatment).await {
                        return Round::Again;
                    }
                }
                () = patience => {
                    self.disturbed("silence", "the API server does not list the pods of the node");
                    return Round::Again;
                }
            }
            self.metrics.broken(self.ward.len());
        }
    }

    fn take(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.ward.begin(),
            Event::InitApply(pod) | Event::Apply(pod) => {
                let name = named(&pod);
                match self.ward.see(pod, Instant::now()) {
                    Change::None => {}
                    Change::Broke => {
                        tracing::info!(pod = %name, "its validation has failed: nothing captures it");
                    }
                    Change::Left => self.recovered(&name),
                }
            }
            Event::InitDone => {
                self.ward.end();
                (self.listed, self.disturbances) = (true, 0);
                self.metrics.listed();
                tracing::info!(broken = self.ward.len(), "the pods of the node are known");
            }
            Event::Delete(pod) => {
                if self.ward.forget(&pod.uid().unwrap_or_default()) == Change::Left {
                    self.recovered(&named(&pod));
                }
            }
        }
    }

    fn recovered(&self, name: &str) {
        self.metrics.recovered();
        tracing::info!(pod = name, "it is not broken any more");
    }

    /// When something is to be done next, if the rate allows.
    fn due(&mut self) -> Option<Instant> {
        let (due, ..) = self.ward.next()?;
        Some(due.max(self.rate.next(Instant::now())))
    }

    /// Treats the pod that is due first. Says whether a new client is needed.
    async fn treat(&mut self, treatment: &Treatment) -> bool {
        let Some((_, pod, incident)) = self.ward.next() else { return false };
        let (pod, incident) = (pod.clone(), incident.clone());
        let (uid, name, action) = (pod.uid().unwrap_or_default(), named(&pod), self.settings.action.name());
        let start = Instant::now();
        self.rate.take(start);
        let treated = treatment.treat(&pod, &incident).await;
        let took = start.elapsed();
        let milliseconds = (took.as_secs_f64() * 1e6).round() / 1e3;
        let outcome = match &treated {
            Ok(Outcome::Done(what)) => {
                tracing::info!(pod = %name, action, milliseconds, "{what}");
                self.ward.settle(&uid);
                "done"
            }
            Ok(Outcome::LeftAlone(why)) => {
                tracing::info!(pod = %name, action, milliseconds, "it is left alone: {why}");
                self.ward.settle(&uid);
                "left_alone"
            }
            Ok(Outcome::Gone) => {
                tracing::info!(pod = %name, action, milliseconds, "it is gone");
                self.ward.forget(&uid);
                "gone"
            }
            Err(failure) => {
                self.failed = true;
                tracing::warn!(pod = %name, action, milliseconds, error = %chain(failure), "it can't be helped");
                match self.settings.watch {
                    true => self.ward.postpone(&uid, Instant::now()),
                    false => self.ward.settle(&uid),
                }
                "failed"
            }
        };
        self.metrics.treated(action, outcome, took);
        treated.is_err_and(|failure| failure.code() == Some(401))
    }

    fn disturbed(&mut self, kind: &'static str, why: &str) {
        self.disturbances = self.disturbances.saturating_add(1);
        self.metrics.disturbed(kind);
        tracing::warn!(kind, error = why, "the watch is disturbed");
    }

    /// Whether nobody wants us to go on trying.
    fn is_hopeless(&self) -> bool {
        !self.settings.watch && self.disturbances >= TRIES
    }
}

fn kind(error: &watcher::Error) -> &'static str {
    match status(error) {
        Some(401) => "unauthorized",
        Some(403) => "forbidden",
        Some(410) => "gone",
        Some(_) => "refused",
        None => "broken",
    }
}

/// What the API server has answered, as a status of HTTP.
fn status(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => code(error),
        watcher::Error::WatchError(status) => Some(status.code),
        watcher::Error::NoResourceVersion => None,
    }
}

/// The client asks again with what has been refused: with the old token for up to a minute, and with a version that was
/// too old before the watch began for ever.
fn is_new_client_needed(error: &watcher::Error) -> bool {
    let refused_at_start = matches!(error, watcher::Error::WatchStartFailed(_));
    status(error) == Some(401) || (refused_at_start && status(error) == Some(410))
}
