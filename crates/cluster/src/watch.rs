//! Watches that survive an API server that refuses, forgets, breaks off or says nothing.
//!
//! Lists in pages, bookmarks, and resuming a watch that ended belong to the client (`kube::runtime::watcher`). The client waits
//! without limit for a list, and retries a refused watch endlessly with the same resource version, which may have expired. So
//! any failure but a broken connection starts over with a new list here, after a delay that grows with each failure. A failure
//! is logged once, until the watch works again.

use crate::backoff::Backoff;
use crate::error::{describe, kind, status};
use futures::{StreamExt, stream, stream::BoxStream};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, future, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// The delay after the first failure; jitter takes up to half of it.
const FIRST_DELAY: Duration = Duration::from_millis(1600);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// After so long a time without failures, the first delay applies again.
const BACKOFF_RESET: Duration = Duration::from_secs(120);
/// The delay before a watch whose connection broke is resumed.
const RESUME_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the API server does not list {resource} within {limit:?}")]
    Silence { resource: String, limit: Duration },
    #[error("{}", describe(&**.0))]
    Watch(Box<watcher::Error>),
}

impl Failure {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Silence { .. } => "silence",
            Self::Watch(error) => kind(error),
        }
    }

    /// The HTTP status by which the API server has refused it.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Silence { .. } => None,
            Self::Watch(error) => status(error),
        }
    }
}

/// The events of a resource, without end. `limit` is the time for a page of a list.
pub fn events<K>(
    api: Api<K>,
    config: Config,
    resource: impl Into<String>,
    limit: Duration,
) -> BoxStream<'static, Result<Event<K>, Failure>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let watch = Watch {
        resource: resource.into(),
        list_timeout: limit,
        start: Box::new(move || watcher(api.clone(), config.clone()).boxed()),
        stream: None,
        is_listed: false,
        broken_at: None,
        backoff: Backoff::new(FIRST_DELAY, MAX_DELAY).with_jitter(),
        delay: Duration::ZERO,
        last_failure: None,
        logged: None,
    };
    stream::unfold(watch, |mut watch| async { Some((watch.next().await, watch)) }).boxed()
}

/// One object by its name: as it is, and `None` where it does not exist.
pub fn object<K>(
    api: Api<K>,
    name: &str,
    resource: impl Into<String>,
    limit: Duration,
) -> BoxStream<'static, Result<Option<K>, Failure>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let mut is_listed = false;
    let objects = events(api, config, resource, limit).filter_map(move |event| {
        future::ready(match event {
            Err(failure) => Some(Err(failure)),
            Ok(Event::Init) => {
                is_listed = false;
                None
            }
            Ok(Event::InitApply(object)) => {
                is_listed = true;
                Some(Ok(Some(object)))
            }
            Ok(Event::InitDone) => (!is_listed).then_some(Ok(None)),
            Ok(Event::Apply(object)) => Some(Ok(Some(object))),
            Ok(Event::Delete(_)) => Some(Ok(None)),
        })
    });
    objects.boxed()
}

struct Watch<K> {
    resource: String,
    list_timeout: Duration,
    start: Box<dyn Fn() -> Events<K> + Send>,
    /// The client's watch; `None` before a new list.
    stream: Option<Events<K>>,
    is_listed: bool,
    /// The time when the connection broke, if nothing has come since.
    broken_at: Option<Instant>,
    backoff: Backoff,
    delay: Duration,
    last_failure: Option<Instant>,
    /// The failure that was logged last, as long as it lasts.
    logged: Option<String>,
}

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

impl<K: 'static> Watch<K> {
    async fn next(&mut self) -> Result<Event<K>, Failure> {
        loop {
            sleep(std::mem::take(&mut self.delay)).await;
            let stream = self.stream.get_or_insert_with(|| {
                self.is_listed = false;
                (self.start)()
            });
            // A watch is silent as long as nothing changes; the client ends it in time. A list is not.
            let next = match self.is_listed {
                true => stream.next().await,
                false => match timeout(self.list_timeout, stream.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        let (resource, limit) = (self.resource.clone(), self.list_timeout);
                        return Err(self.restart(Failure::Silence { resource, limit }));
                    }
                },
            };
            match next {
                Some(Ok(event)) => {
                    self.is_listed |= matches!(event, Event::InitDone);
                    self.broken_at = None;
                    // A list may be refused after it has begun.
                    if !matches!(event, Event::Init) {
                        self.logged = None;
                    }
                    return Ok(event);
                }
                Some(Err(error)) if self.may_resume(&error) => {
                    self.broken_at = Some(Instant::now());
                    self.delay = RESUME_DELAY;
                    tracing::debug!(resource = self.resource, error = describe(&error), "a watch is resumed");
                }
                Some(Err(error)) => return Err(self.restart(Failure::Watch(Box::new(error)))),
                None => self.stream = None,
            }
        }
    }

    /// True if the client may resume the watch where it was: the connection broke, and has not broken within the last list
    /// timeout without an event since.
    fn may_resume(&self, error: &watcher::Error) -> bool {
        matches!(error, watcher::Error::WatchFailed(kube::Error::ReadEvents(_) | kube::Error::HyperError(_)))
            && self.broken_at.is_none_or(|broken_at| broken_at.elapsed() >= self.list_timeout)
    }

    fn restart(&mut self, failure: Failure) -> Failure {
        self.stream = None;
        if self.last_failure.replace(Instant::now()).is_some_and(|failed| failed.elapsed() >= BACKOFF_RESET) {
            self.backoff.reset();
        }
        self.delay = self.backoff.delay();
        let error = failure.to_string();
        if self.logged.as_ref() != Some(&error) {
            tracing::warn!(resource = self.resource, kind = failure.kind(), error, "the watch failed");
            self.logged = Some(error);
        }
        failure
    }
}
