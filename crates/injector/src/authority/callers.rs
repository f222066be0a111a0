//! Who should call the server: whether the webhook configurations that it was given do. Where one doesn't, pods are created
//! without it, and no request ever shows that; so it is logged, counted, and part of `/ready?verbose`.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long a configuration may be wrong before it is logged: an installation is applied object by object.
const GRACE: Duration = Duration::from_secs(5);

/// A webhook configuration, as far as it calls the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WebhookCaller {
    /// How many of its webhooks call.
    pub(crate) webhooks: usize,
    /// Why none does.
    pub(crate) fault: Option<String>,
}

/// All of them, by name.
#[derive(Debug)]
pub(crate) struct Callers(Mutex<BTreeMap<String, Known>>);

#[derive(Debug)]
struct Known {
    caller: WebhookCaller,
    /// Since when it is so.
    since: Instant,
    is_logged: bool,
}

impl Callers {
    /// Those of these names, of which nothing is known yet.
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a String>) -> Self {
        let fault = "it was not read from the API server yet; expected a role that lists and watches it";
        let known = |name: &String| {
            let caller = WebhookCaller { webhooks: 0, fault: Some(fault.to_owned()) };
            (name.clone(), Known { caller, since: Instant::now(), is_logged: false })
        };
        Self(Mutex::new(names.into_iter().map(known).collect()))
    }

    pub(crate) fn all(&self) -> Vec<(String, WebhookCaller)> {
        self.known().iter().map(|(name, known)| (name.clone(), known.caller.clone())).collect()
    }

    /// One has come, was changed or is gone.
    pub(super) fn note(&self, name: &str, caller: WebhookCaller) {
        let mut all = self.known();
        let Some(known) = all.get_mut(name).filter(|known| known.caller != caller) else { return };
        if known.is_logged && caller.fault.is_none() {
            tracing::info!(
                configuration = name,
                webhooks = caller.webhooks,
                "the webhook configuration calls this server"
            );
        }
        *known = Known { caller, since: Instant::now(), is_logged: false };
    }

    /// When something is to be logged; none where all is well, or was logged.
    pub(super) fn due(&self) -> Option<Instant> {
        let all = self.known();
        let waiting = all.values().filter(|known| known.caller.fault.is_some() && !known.is_logged);
        waiting.map(|known| known.since + GRACE).min()
    }

    /// Logs what has been wrong for long enough, once.
    pub(super) fn log(&self) {
        let now = Instant::now();
        for (name, known) in self.known().iter_mut() {
            let Some(fault) = known.caller.fault.as_ref().filter(|_| !known.is_logged) else { continue };
            if known.since + GRACE <= now {
                tracing::warn!(
                    configuration = name,
                    error = fault,
                    "the webhook configuration does not call this server"
                );
                known.is_logged = true;
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
