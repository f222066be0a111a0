//! The work of `--self-signed`: hears what changes, looks at the clock, and does what is due, one thing after the other.

use super::{
    Failure,
    bundle::{self, Service},
    callers::Callers,
    leaf::{self, Shown},
    rotation::{self, Authorities, Step},
    store,
};
use crate::{
    refusal::{Waits, kind, told},
    serve::tls::Identity,
};
use futures::{
    StreamExt,
    stream::{BoxStream, select_all},
};
use k8s_openapi::api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Secret};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher::watch_object},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::{Instant, sleep_until};

/// By this name the API server notes what we have set.
const MANAGER: &str = "sidecar-injector";
/// The first pause after a write that failed; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// However far off the next step is, the clock is looked at again after this time: clocks are set, machines sleep.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long certificates live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetimes {
    pub(super) authority: Duration,
    pub(super) certificate: Duration,
}

/// What a watch has told.
enum News {
    Secret(Option<Secret>),
    Configuration(String, Option<MutatingWebhookConfiguration>),
}

pub(super) struct Keeper {
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    service: Service,
    secret: String,
    /// Of the Service.
    names: Vec<String>,
    /// The webhook configurations that are watched.
    callers: Arc<Callers>,
    /// How many they are.
    watched: usize,
    lifetimes: Lifetimes,
    news: BoxStream<'static, News>,
    /// The Secret as it was last seen, once it is known whether there is one.
    seen: Option<Option<Secret>>,
    /// The last Secret that could be used: if somebody spoils or deletes it, it comes back.
    sound: Option<Secret>,
    /// What each webhook configuration was last seen to be, once it is known whether there is one.
    webhooks: BTreeMap<String, Option<MutatingWebhookConfiguration>>,
    shown: Option<Shown>,
    /// The pause after the last failure, and its end.
    pause: Option<(Duration, Instant)>,
    next: Instant,
}

impl Keeper {
    pub(super) fn new(
        client: &Client,
        service: Service,
        secret: &str,
        configurations: &[String],
        lifetimes: Lifetimes,
    ) -> Self {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &service.namespace);
        let all: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let mut streams = vec![heard(watch_object(secrets.clone(), secret), "secret", News::Secret)];
        let distinct: BTreeSet<&String> = configurations.iter().collect();
        let watched = distinct.len();
        let callers = Arc::new(Callers::new(distinct.iter().copied()));
        for name in distinct {
            let news = {
                let name = name.clone();
                move |object| News::Configuration(name.clone(), object)
            };
            streams.push(heard(watch_object(all.clone(), name), name, news));
        }
        let mut names = leaf::names(&service.name, &service.namespace);
        names.extend(service.hosts.iter().cloned());
        Self {
            secrets,
            configurations: all,
            service,
            secret: secret.to_owned(),
            names,
            lifetimes,
            news: select_all(streams).boxed(),
            seen: None,
            sound: None,
            callers,
            watched,
            webhooks: BTreeMap::new(),
            shown: None,
            pause: None,
            next: Instant::now(),
        }
    }

    /// The certificate that is shown, once there is one.
    pub(super) fn identity(&self) -> Option<Arc<Identity>> {
        self.shown.as_ref().map(|shown| Arc::clone(&shown.identity))
    }

    /// The webhook configurations that are watched.
    pub(super) fn callers(&self) -> Arc<Callers> {
        Arc::clone(&self.callers)
    }

    /// Waits for news, or for the time at which something is due.
    pub(super) async fn wait(&mut self) {
        let next = self.callers.due().map_or(self.next, |due| due.min(self.next));
        tokio::select! {
            Some(news) = self.news.next() => self.hear(news),
            () = sleep_until(next) => {}
        }
        self.callers.log();
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Secret(secret) => self.seen = Some(secret),
            News::Configuration(name, configuration) => {
                self.callers.note(&name, bundle::caller(configuration.as_ref(), &self.service));
                self.webhooks.insert(name, configuration);
            }
        }
    }

    /// Does what is due.
    ///
    /// # Errors
    /// When no certificate can be made. What the API server refuses is told and tried again.
    pub(super) async fn turn(&mut self) -> Result<(), Failure> {
        self.next = Instant::now() + LONGEST_WAIT;
        if let Some((_, end)) = self.pause
            && Instant::now() < end
        {
            self.next = end;
            return Ok(());
        }
        let Some(seen) = self.seen.clone() else { return Ok(()) };
        let now = now();
        let (mut known, is_lost) = self.understood(seen.as_ref());
        let announced = known.as_ref().is_some_and(|known| self.is_announced(known));
        let step = rotation::step(&mut known, now, self.lifetimes.authority, announced);
        let step = step.map_err(Failure::Make)?;
        let Some(authorities) = known else { return Ok(()) };
        if step.is_some() || is_lost {
            // The watch tells of it, and then it is what is known.
            self.keep(&authorities, seen.as_ref(), step).await;
            return Ok(());
        }
        let fresh = leaf::refresh(
            &mut self.shown,
            &authorities.current,
            &self.names,
            now,
            self.lifetimes.certificate,
        )?;
        if fresh {
            tracing::info!(names = self.names.join(","), "a new certificate is shown");
        }
        self.announce(&authorities).await;
        self.plan(&authorities, now);
        Ok(())
    }

    /// The authorities of a Secret; and whether they are no more in it, but known from before.
    fn understood(&mut self, secret: Option<&Secret>) -> (Option<Authorities>, bool) {
        let read = secret.map_or(Ok(None), store::read);
        match read {
            Ok(Some(authorities)) => {
                self.sound = secret.cloned();
                return (Some(authorities), false);
            }
            Ok(None) => {}
            Err(spoilt) => tracing::warn!(
                secret = self.secret,
                error = &spoilt as &dyn Error,
                "the Secret can't be used, and is written again"
            ),
        }
        let before = self.sound.as_ref().and_then(|sound| store::read(sound).ok().flatten());
        let is_lost = before.is_some();
        (before, is_lost)
    }

    /// Whether all webhooks trust these authorities. What does not exist calls nobody.
    fn is_announced(&self, authorities: &Authorities) -> bool {
        let bundle = authorities.bundle();
        let mut known = self.webhooks.values().flatten();
        self.webhooks.len() == self.watched
            && known.all(|known| bundle::patch(known, &self.service, &bundle).is_none())
    }

    async fn keep(&mut self, authorities: &Authorities, over: Option<&Secret>, step: Option<Step>) {
        let secret = store::write(authorities, &self.secret, over);
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let secrets = self.secrets.clone();
        let written = async {
            match over {
                Some(_) => secrets.replace(&self.secret, &params, &secret).await,
                None => secrets.create(&params, &secret).await,
            }
        };
        let written = within(written).await;
        match written {
            Ok(_) => {
                let what = step.map_or("the Secret is written again", Step::word);
                tracing::info!(secret = self.secret, "{what}");
                // If the watch tells nothing, the step is tried again, which is refused if it was done.
                self.pause(true);
            }
            // Another replica was first.
            Err(Trouble::Refused(kube::Error::Api(status))) if status.code == 409 => {
                tracing::debug!(secret = self.secret, "another one was first");
                self.pause(true);
            }
            Err(trouble) => {
                tracing::warn!(secret = self.secret, error = told(&trouble), "the Secret is not written");
                self.pause(false);
            }
        }
    }

    /// Writes the bundle to webhooks that have another one.
    async fn announce(&mut self, authorities: &Authorities) {
        let bundle = authorities.bundle();
        let (mut well, mut set) = (true, false);
        for (name, configuration) in &self.webhooks {
            let Some(configuration) = configuration else { continue };
            let Some(patch) = bundle::patch(configuration, &self.service, &bundle) else { continue };
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            match within(self.configurations.patch(name, &params, &Patch::Strategic(patch))).await {
                Ok(_) => {
                    tracing::info!(configuration = name, "caBundle is set");
                    set = true;
                }
                Err(Trouble::Refused(kube::Error::Api(status))) if status.code == 409 => {
                    tracing::debug!(configuration = name, "somebody else was first");
                }
                Err(trouble) => {
                    tracing::warn!(configuration = name, error = told(&trouble), "caBundle is not set");
                    well = false;
                }
            }
        }
        if well && !set {
            self.pause = None;
        } else {
            // Whoever overwrites it again and again is answered later and later.
            self.pause(false);
        }
    }

    /// Nothing is written for a while: a short one while news are on their way, a longer one after each failure.
    fn pause(&mut self, well: bool) {
        let pause = match self.pause {
            Some((last, _)) if !well => (last * 2).min(LONGEST_PAUSE),
            _ => FIRST_PAUSE,
        };
        let end = Instant::now() + pause;
        self.pause = (!well).then_some((pause, end));
        self.next = end;
    }

    fn plan(&mut self, authorities: &Authorities, now: i64) {
        let leaf = self.shown.as_ref().map_or(now, |shown| shown.due(&authorities.current));
        let seconds = authorities.due().min(leaf).saturating_sub(now).max(1);
        let wait = Duration::from_secs(seconds.unsigned_abs()).min(LONGEST_WAIT);
        self.next = self.next.min(Instant::now() + wait);
    }
}

/// Why a write was not done.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the API server did not do it")]
    Refused(#[source] kube::Error),
    #[error("the API server gave no answer within {}s", PATIENCE.as_secs())]
    Silent,
}

async fn within<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Trouble> {
    let answered = tokio::time::timeout(PATIENCE, call).await;
    answered.map_err(|_| Trouble::Silent)?.map_err(Trouble::Refused)
}

/// What a watch tells; when it fails it begins anew, later and later. The same trouble is told once.
fn heard<T, S, F>(stream: S, of: &str, news: F) -> BoxStream<'static, News>
where
    T: Send + 'static,
    S: futures::Stream<Item = Result<Option<T>, kube::runtime::watcher::Error>> + Send + 'static,
    F: Fn(Option<T>) -> News + Send + Sync + 'static,
{
    let (of, mut before) = (of.to_owned(), None);
    let heard = stream.backoff(Waits::default()).filter_map(move |heard| {
        let said = match heard {
            Ok(object) => {
                before = None;
                Some(news(object))
            }
            Err(error) => {
                let (kind, error) = (kind(&error), told(&error));
                if before.as_ref() != Some(&error) {
                    tracing::warn!(resource = of, kind, error, "the watch is disturbed");
                }
                before = Some(error);
                None
            }
        };
        std::future::ready(said)
    });
    heard.boxed()
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
