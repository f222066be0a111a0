//! Keeps a shelf as the API server tells it.
//!
//! Pages, bookmarks and a watch that ends in time are the client's (`kube::runtime::watcher`). Whatever goes wrong beyond a
//! broken connection begins a new list: the client would ask for ever with a version that is too old.

use super::shelf::Shelf;
use crate::refusal::{status, told};
use futures::{Stream, StreamExt};
use kube::{
    Api, Resource, ResourceExt,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug, pin::pin, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// The pause before a new list; it doubles with each one that fails.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a page of a list may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a watch has to begin anew.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the API server does not list it within {}s", PATIENCE.as_secs())]
    Silent,
    #[error("the API server does not tell of it")]
    Watch(#[source] Box<watcher::Error>),
    #[error("the watch has ended")]
    Ended,
}

impl Broken {
    /// Whether the API server has said that we may not know. That may change with a role, but nobody should wait for it.
    fn is_forbidden(&self) -> bool {
        match self {
            Self::Watch(error) => status(error) == Some(403),
            Self::Silent | Self::Ended => false,
        }
    }
}

/// Follows a resource for ever. `changed` is called whenever the shelf may hold something else.
pub(super) async fn follow<K, T>(
    shelf: &Shelf<T>,
    api: &Api<K>,
    config: &watcher::Config,
    read: impl Fn(K) -> T,
    changed: impl Fn(),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut pause = FIRST_PAUSE;
    loop {
        let (listed, broken) =
            round(shelf, watcher::watcher(api.clone(), config.clone()), &read, &changed).await;
        shelf.disturbed(told(&broken), broken.is_forbidden());
        if listed {
            pause = FIRST_PAUSE;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// One list and what happens behind it, as long as it goes well. Whether there was a list, and what went wrong.
async fn round<K: Resource, T>(
    shelf: &Shelf<T>,
    events: impl Stream<Item = watcher::Result<Event<K>>>,
    read: impl Fn(K) -> T,
    changed: impl Fn(),
) -> (bool, Broken) {
    let mut events = pin!(events);
    let (mut coming, mut listed, mut lost) = (BTreeMap::new(), false, None::<Instant>);
    loop {
        let next = match listed {
            // Silent as long as nothing happens.
            true => Ok(events.next().await),
            false => timeout(PATIENCE, events.next()).await,
        };
        let event = match next {
            Ok(Some(Ok(event))) => event,
            // A connection that broke is taken up where it was, without a new list; one that soon breaks again is not. That it
            // was taken up shows nowhere else: where nothing happens, no event comes.
            Ok(Some(Err(watcher::Error::WatchFailed(error))))
                if lost.is_none_or(|lost| lost.elapsed() >= PATIENCE)
                    && !matches!(error, kube::Error::Api(_)) =>
            {
                lost = Some(Instant::now());
                tracing::debug!(resource = shelf.resource, error = told(&error), "a watch is taken up again");
                sleep(FIRST_PAUSE).await;
                continue;
            }
            Ok(Some(Err(error))) => return (listed, Broken::Watch(Box::new(error))),
            Ok(None) => return (listed, Broken::Ended),
            Err(_) => return (listed, Broken::Silent),
        };
        lost = None;
        match event {
            Event::Init => coming.clear(),
            Event::InitApply(object) => {
                coming.insert(object.name_any(), read(object));
                continue;
            }
            Event::InitDone => {
                listed = true;
                shelf.replace(std::mem::take(&mut coming));
            }
            Event::Apply(object) => shelf.put(object.name_any(), read(object)),
            Event::Delete(object) => shelf.remove(&object.name_any()),
        }
        changed();
    }
}
