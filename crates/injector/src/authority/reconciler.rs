//! Loop of `--self-signed`: handles events and timeouts, and performs due steps one by one.

use super::AuthorityFlags;
use super::ca::{self, CaError, ServedLeaf};
use super::rotation::{self, Authorities};
use super::webhooks::{self, Callers, WebhookService};
use crate::serve::tls::ServerIdentity;
use backon::ExponentialBackoff;
use cluster::error::{describe, in_time, status};
use cluster::watch;
use futures::StreamExt;
use futures::stream::{BoxStream, select_all};
use k8s_openapi::api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::{error::Error, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};

/// Field manager of all writes (`managedFields`).
const MANAGER: &str = "sidecar-injector";
/// Delay after a write, and its maximum, after writes that failed or that the watch has not reported.
const FIRST_DELAY: Duration = Duration::from_millis(250);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Longest time between clock readings, however far off the next step is: clocks are adjusted, machines sleep.
const MAX_WAIT: Duration = Duration::from_secs(3600);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the API server's answer when a watch starts.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

enum AuthorityEvent {
    Secret(Option<Secret>),
    Configuration(String, Option<Value>),
}

pub(crate) struct CertificateReconciler {
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    flags: AuthorityFlags,
    service: WebhookService,
    /// Names of the Service, and the hosts of `--name`.
    names: Vec<String>,
    callers: Arc<Callers>,
    events: BoxStream<'static, AuthorityEvent>,
    /// Last observed Secret (`Some(None)`: none exists); `None` until observed.
    seen: Option<Option<Secret>>,
    /// Last valid Secret, which replaces a damaged or deleted one.
    sound: Option<Secret>,
    /// Last observed state of each webhook configuration, once known.
    webhooks: BTreeMap<String, Option<Value>>,
    shown: Option<ServedLeaf>,
    backoff: ExponentialBackoff,
    /// Time at which writes continue after a failure.
    resume: Option<Instant>,
    next: Instant,
}

impl CertificateReconciler {
    pub(super) fn new(client: &Client, flags: &AuthorityFlags) -> Self {
        let service = WebhookService {
            namespace: flags.namespace.clone(),
            name: flags.service.clone(),
            hosts: flags.names.clone(),
        };
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &service.namespace);
        let all: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let own = watch::object(secrets.clone(), &flags.ca_secret, "secret", LIST_TIMEOUT);
        let mut streams = vec![own.map(AuthorityEvent::Secret).boxed()];
        let distinct: BTreeSet<&String> = flags.webhook_configurations.iter().collect();
        let callers = Arc::new(Callers::new(distinct.iter().copied()));
        for name in distinct {
            let objects = watch::object(all.clone(), name, name, LIST_TIMEOUT);
            let name = name.clone();
            let event = move |object: Option<_>| {
                let object = object.map(|object| serde_json::to_value(object).unwrap_or_default());
                AuthorityEvent::Configuration(name.clone(), object)
            };
            streams.push(objects.map(event).boxed());
        }
        let mut names = ca::names(&service.name, &service.namespace);
        names.extend(service.hosts.iter().cloned());
        Self {
            secrets,
            configurations: all,
            flags: flags.clone(),
            service,
            names,
            events: select_all(streams).boxed(),
            seen: None,
            sound: None,
            callers,
            webhooks: BTreeMap::new(),
            shown: None,
            backoff: delays(),
            resume: None,
            next: Instant::now(),
        }
    }

    pub(super) fn identity(&self) -> Option<Arc<ServerIdentity>> {
        self.shown.as_ref().map(|shown| Arc::clone(&shown.identity))
    }

    pub(crate) fn callers(&self) -> Arc<Callers> {
        Arc::clone(&self.callers)
    }

    pub(crate) async fn run(mut self) {
        loop {
            self.wait().await;
            if let Err(error) = self.reconcile().await {
                // The current certificate stays in use, and the next event or timeout triggers another try.
                tracing::error!(error = &error as &dyn Error, "cannot renew certificates");
            }
        }
    }

    pub(super) async fn wait(&mut self) {
        let next = self.callers.log().map_or(self.next, |due| due.min(self.next));
        tokio::select! {
            Some(event) = self.events.next() => self.handle(event),
            () = sleep_until(next) => {}
        }
    }

    fn handle(&mut self, event: AuthorityEvent) {
        match event {
            AuthorityEvent::Secret(secret) => {
                self.seen = Some(secret);
                // The watch works, so further writes need no growing delay.
                self.backoff = delays();
            }
            AuthorityEvent::Configuration(name, configuration) => {
                self.callers.note(&name, self.service.callers(configuration.as_ref()));
                self.webhooks.insert(name, configuration);
            }
        }
    }

    /// Performs the due steps. A refusal by the API server is logged and retried.
    pub(super) async fn reconcile(&mut self) -> Result<(), CaError> {
        self.next = Instant::now() + MAX_WAIT;
        if let Some(resume) = self.resume.filter(|resume| Instant::now() < *resume) {
            self.next = resume;
            return Ok(());
        }
        let Some(seen) = self.seen.clone() else { return Ok(()) };
        let now = Timestamp::now().as_second();
        let stored = self.stored(seen.as_ref());
        let is_stored = stored.is_some();
        let mut known = stored.or_else(|| rotation::read(self.sound.as_ref()?).ok().flatten());
        let announced = known.as_ref().is_some_and(|known| self.is_announced(known));
        let step = rotation::step(&mut known, now, self.flags.ca_lifetime, announced)?;
        let Some(authorities) = known else { return Ok(()) };
        if step.is_some() || !is_stored {
            // The new state is known once the watch reports it.
            self.write_secret(&authorities, seen.as_ref(), step).await;
            return Ok(());
        }
        let fresh = ca::refresh(
            &mut self.shown,
            &authorities.current,
            &self.names,
            now,
            self.flags.certificate_lifetime,
        )?;
        if fresh {
            tracing::info!(names = self.names.join(","), "the server uses a new certificate");
        }
        self.announce(&authorities).await;
        self.plan(&authorities, now);
        Ok(())
    }

    fn stored(&mut self, secret: Option<&Secret>) -> Option<Authorities> {
        match secret.map_or(Ok(None), rotation::read) {
            Ok(None) => None,
            Ok(found) => {
                self.sound = secret.cloned();
                found
            }
            Err(error) => {
                let secret = &self.flags.ca_secret;
                tracing::warn!(secret, error, "the Secret can't be used and is rewritten");
                None
            }
        }
    }

    /// True if all webhooks trust these authorities. Missing configurations don't matter.
    fn is_announced(&self, authorities: &Authorities) -> bool {
        let bundle = authorities.bundle();
        self.webhooks.len() == self.callers.all().len()
            && self.webhooks.values().flatten().all(|known| self.service.behind(known, &bundle).is_empty())
    }

    async fn write_secret(
        &mut self,
        authorities: &Authorities,
        over: Option<&Secret>,
        step: Option<&'static str>,
    ) {
        let secret = rotation::write(authorities, &self.flags.ca_secret, over);
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let written = async {
            match over {
                Some(_) => self.secrets.replace(&self.flags.ca_secret, &params, &secret).await,
                None => self.secrets.create(&params, &secret).await,
            }
        };
        let secret = &self.flags.ca_secret;
        let is_known = match in_time(WRITE_TIMEOUT, written).await {
            Ok(_) => {
                tracing::info!(secret, "{}", step.unwrap_or("the Secret is rewritten"));
                true
            }
            Err(error) if status(&error) == Some(409) => {
                tracing::debug!(secret, "another replica was first");
                true
            }
            Err(error) => {
                tracing::warn!(secret, error = describe(&error), "cannot write the Secret");
                false
            }
        };
        // If the watch reports nothing, the step is retried, and refused if already done.
        self.pause(is_known);
    }

    async fn announce(&mut self, authorities: &Authorities) {
        let bundle = authorities.bundle();
        let mut is_announced = true;
        for (name, configuration) in &self.webhooks {
            let Some(configuration) = configuration else { continue };
            let Some(patch) = webhooks::patch(configuration, &self.service, &bundle) else { continue };
            is_announced = false;
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            let patch = Patch::Strategic(patch);
            match in_time(WRITE_TIMEOUT, self.configurations.patch(name, &params, &patch)).await {
                Ok(_) => tracing::info!(configuration = name, "caBundle is set"),
                Err(error) if status(&error) == Some(409) => {
                    tracing::debug!(configuration = name, "another writer was first");
                }
                Err(error) => {
                    tracing::warn!(configuration = name, error = describe(&error), "cannot set caBundle");
                }
            }
        }
        if is_announced {
            self.backoff = delays();
            self.resume = None;
        } else {
            // If another program keeps overwriting, corrections are increasingly delayed.
            self.pause(false);
        }
    }

    /// Delays the next write, longer each time. The event that reports a successful write ends the delay; after a failure,
    /// nothing does.
    fn pause(&mut self, well: bool) {
        self.next = Instant::now() + self.backoff.next().unwrap_or(MAX_DELAY);
        self.resume = (!well).then_some(self.next);
    }

    fn plan(&mut self, authorities: &Authorities, now: i64) {
        let leaf = self.shown.as_ref().map_or(now, |shown| shown.due(&authorities.current));
        let seconds = authorities.due().min(leaf).saturating_sub(now).max(1);
        let wait = Duration::from_secs(seconds.unsigned_abs()).min(MAX_WAIT);
        self.next = self.next.min(Instant::now() + wait);
    }
}

fn delays() -> ExponentialBackoff {
    cluster::backoff(FIRST_DELAY, MAX_DELAY, false)
}
