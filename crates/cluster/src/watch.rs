//! Watches that survive an API server that refuses, forgets, disconnects or stays silent. The client (`kube::runtime::watcher`)
//! pages lists and resumes watches, but waits for a list without limit, and retries a refused watch endlessly with the same
//! resource version, which may have expired. Here, any failure other than a broken connection leads to a new list, after a
//! growing delay. A failure is logged once until the watch works again.

use crate::error::{describe, kind, status};
use futures::{StreamExt, stream, stream::BoxStream};
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watch_object, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug, future, mem, time::Duration};
use tokio::time::{Instant, sleep, timeout};

const RESUME_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct WatchFailure {
    pub kind: &'static str,
    /// HTTP status of the API server's refusal.
    pub status: Option<u16>,
}

/// A resource's endless event stream. `limit` is each list page's time limit.
pub fn events<K>(
    api: Api<K>,
    config: Config,
    resource: impl Into<String>,
    limit: Duration,
) -> BoxStream<'static, Result<Event<K>, WatchFailure>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let start = move || watcher(api.clone(), config.clone()).boxed();
    surviving(resource.into(), limit, |event| matches!(event, Event::InitDone), start)
}

/// Versions of one named object; `None` while it does not exist. Failures are logged and omitted.
pub fn object<K>(api: Api<K>, name: &str, resource: &str, limit: Duration) -> BoxStream<'static, Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let name = name.to_owned();
    let start = move || watch_object(api.clone(), &name).boxed();
    let objects = surviving(resource.to_owned(), limit, |_| true, start);
    objects.filter_map(|object| future::ready(object.ok())).boxed()
}

fn surviving<T: 'static>(
    resource: String,
    list_timeout: Duration,
    ends_list: fn(&T) -> bool,
    start: impl Fn() -> Started<T> + Send + 'static,
) -> BoxStream<'static, Result<T, WatchFailure>> {
    let watch = Watch {
        resource,
        list_timeout,
        ends_list,
        start: Box::new(start),
        stream: None,
        is_listed: false,
        broken_at: None,
        backoff: DefaultBackoff::default(),
        delay: Duration::ZERO,
        logged: None,
    };
    stream::unfold(watch, |mut watch| async { Some((watch.next().await, watch)) }).boxed()
}

struct Watch<T> {
    resource: String,
    list_timeout: Duration,
    ends_list: fn(&T) -> bool,
    start: Box<dyn Fn() -> Started<T> + Send>,
    /// The client's watch; `None` before a new list.
    stream: Option<Started<T>>,
    is_listed: bool,
    /// The time when the connection broke, unless an event has followed.
    broken_at: Option<Instant>,
    backoff: DefaultBackoff,
    delay: Duration,
    logged: Option<String>,
}

type Started<T> = BoxStream<'static, watcher::Result<T>>;

impl<T> Watch<T> {
    async fn next(&mut self) -> Result<T, WatchFailure> {
        loop {
            sleep(mem::take(&mut self.delay)).await;
            let stream = self.stream.get_or_insert_with(|| {
                self.is_listed = false;
                (self.start)()
            });
            // A watch may stay silent, and the client ends it in time; only lists need a limit.
            let limit = if self.is_listed { Duration::MAX } else { self.list_timeout };
            let Ok(next) = timeout(limit, stream.next()).await else {
                let error = format!("the API server did not list {} within {limit:?}", self.resource);
                return Err(self.restart("silence", None, error));
            };
            match next {
                Some(Ok(item)) => {
                    self.is_listed |= (self.ends_list)(&item);
                    self.broken_at = None;
                    // A list may still be refused after it has begun.
                    if self.is_listed {
                        self.logged = None;
                    }
                    return Ok(item);
                }
                Some(Err(error)) if self.may_resume(&error) => {
                    self.broken_at = Some(Instant::now());
                    self.delay = RESUME_DELAY;
                    tracing::debug!(resource = self.resource, error = describe(&error), "a watch is resumed");
                }
                Some(Err(error)) => {
                    return Err(self.restart(kind(&error), status(&error), describe(&error)));
                }
                None => self.stream = None,
            }
        }
    }

    /// True for a broken connection, unless one already broke within `list_timeout` and no event has followed.
    fn may_resume(&self, error: &watcher::Error) -> bool {
        matches!(error, watcher::Error::WatchFailed(kube::Error::ReadEvents(_) | kube::Error::HyperError(_)))
            && self.broken_at.is_none_or(|broken_at| broken_at.elapsed() >= self.list_timeout)
    }

    fn restart(&mut self, kind: &'static str, status: Option<u16>, error: String) -> WatchFailure {
        self.stream = None;
        self.delay = self.backoff.next().unwrap_or_default();
        if self.logged.as_ref() != Some(&error) {
            tracing::warn!(resource = self.resource, kind, error, "the watch failed");
            self.logged = Some(error);
        }
        WatchFailure { kind, status }
    }
}

/// Objects by key, as last reported by a watch. A new list replaces them only once it is complete.
#[derive(Debug)]
pub struct Store<K, T> {
    known: BTreeMap<K, T>,
    listing: BTreeMap<K, T>,
    is_listed: bool,
}

impl<K, T> Default for Store<K, T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listing: BTreeMap::new(), is_listed: false }
    }
}

impl<K: Clone + Ord, T> Store<K, T> {
    /// Applies an event, whose objects `read` parses. Returns the keys that may have changed, with their previous values.
    pub fn take<O>(
        &mut self,
        event: Event<O>,
        read: impl FnOnce(O) -> Option<(K, T)>,
    ) -> Vec<(K, Option<T>)> {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => self.listing.extend(read(object)),
            Event::InitDone => {
                self.is_listed = true;
                let before = mem::replace(&mut self.known, mem::take(&mut self.listing));
                let new = self.known.keys().filter(|key| !before.contains_key(key));
                let new: Vec<_> = new.map(|key| (key.clone(), None)).collect();
                return before.into_iter().map(|(key, value)| (key, Some(value))).chain(new).collect();
            }
            Event::Apply(object) => {
                let entry = read(object).into_iter();
                return entry.map(|(key, value)| (key.clone(), self.known.insert(key, value))).collect();
            }
            Event::Delete(object) => {
                let gone = read(object).and_then(|(key, _)| self.known.remove_entry(&key));
                return gone.map(|(key, value)| (key, Some(value))).into_iter().collect();
            }
        }
        Vec::new()
    }

    pub fn known(&self) -> &BTreeMap<K, T> {
        &self.known
    }

    pub fn is_listed(&self) -> bool {
        self.is_listed
    }
}
