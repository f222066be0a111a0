//! Cluster facts for reviews: namespaces' annotations (OpenShift's users), and kubelets' support for native sidecars.
//!
//! Reviews never wait for missing facts: meanwhile, a namespace has no annotations, and no kubelet supports native sidecars.

use super::metrics::{ServeMetrics, WatchMetrics};
use crate::authority::SILENCE;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use cluster::{access, termination::spawn_essential, watch, watch::Store};
use futures::StreamExt;
use injection::review::{self, runs_native_sidecars};
use injection::{Namespace, configuration::Native};
use k8s_openapi::api::core::v1::{Namespace as Space, Node};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource, ResourceExt, core::PartialObjectMeta};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, error::Error, fmt::Debug, path::Path, sync::atomic::AtomicBool};

#[derive(Args, Clone, Debug)]
#[group(skip)]
pub(super) struct ServeClusterFlags {
    /// Watch namespaces and nodes; auto does so in a cluster and with --kubeconfig
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    pub(super) watch_cluster: When,
    /// Native sidecars by default; auto if the watched kubelets support them (Kubernetes 1.33 and newer)
    #[arg(
        long,
        value_name = "WHETHER",
        num_args = 0..=1,
        require_equals = true,
        default_value = "auto",
        default_missing_value = "true",
        value_parser = PossibleValuesParser::new(["auto", "true", "false"]).map(|word| native(&word))
    )]
    native_sidecars: Native,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    Auto,
    On,
    Off,
}

/// Maximum time that missing first lists delay readiness.
const MAX_WAIT: Duration = Duration::from_secs(10);
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// Limits memory for large clusters.
const PAGE_SIZE: u32 = 500;
const UNLISTED: &str = "waiting for the first list of namespaces and nodes";

pub(super) struct ClusterState {
    native: Native,
    watched: Option<ClusterWatches>,
}

struct ClusterWatches {
    namespaces: ResourceWatch<Namespace>,
    /// By node: true if its kubelet supports native sidecars.
    kubelets: ResourceWatch<bool>,
    /// Support by all kubelets, as last logged.
    logged_native: AtomicBool,
    /// Held until both lists have arrived or been refused.
    unlisted: Weak<str>,
    since: Instant,
}

/// Watched resource, by name: read by reviews, written by a watch.
struct ResourceWatch<T> {
    resource: &'static str,
    store: RwLock<Store<String, T>>,
    metrics: WatchMetrics,
}

impl ClusterState {
    pub(super) async fn begin(
        flags: &ServeClusterFlags,
        kubeconfig: Option<&Path>,
        metrics: &ServeMetrics,
    ) -> Result<Arc<Self>, access::AccessError> {
        let client = match flags.watch_cluster {
            When::Off => None,
            when @ (When::On | When::Auto) => match access::client(kubeconfig, SILENCE).await {
                Ok(client) => Some(client),
                Err(error @ access::AccessError::NoPod(_)) if when == When::Auto => {
                    let error = &error as &dyn Error;
                    tracing::info!(error, "cannot watch namespaces and nodes");
                    None
                }
                Err(error) => return Err(error),
            },
        };
        let unlisted = Arc::from(UNLISTED);
        let watched = client.as_ref().map(|_| ClusterWatches {
            namespaces: ResourceWatch::new("namespaces", metrics),
            kubelets: ResourceWatch::new("nodes", metrics),
            logged_native: AtomicBool::new(false),
            unlisted: Arc::downgrade(&unlisted),
            since: Instant::now(),
        });
        let cluster = Arc::new(Self { native: flags.native_sidecars, watched });
        if let Some(client) = client {
            spawn_essential("watches", Arc::clone(&cluster).follow(client, unlisted));
        }
        Ok(cluster)
    }

    async fn follow(self: Arc<Self>, client: Client, unlisted: Arc<str>) {
        let Some(watched) = &self.watched else { return };
        let spaces: Api<PartialObjectMeta<Space>> = Api::all(client.clone());
        tokio::join!(
            watched.namespaces.follow(spaces, Arc::clone(&unlisted), namespace, || {}),
            watched.kubelets.follow(Api::all(client), unlisted, kubelet_runs_native_sidecars, || {
                watched.log_native(self.native);
            }),
        );
    }

    /// Missing facts that delay readiness; `None` if none are missing, or after [`MAX_WAIT`].
    pub(super) fn blocked_by(&self) -> Option<Arc<str>> {
        let watched = self.watched.as_ref().filter(|watched| watched.since.elapsed() < MAX_WAIT)?;
        watched.unlisted.upgrade()
    }
}

impl ClusterWatches {
    /// Logs a change of the default for unscheduled pods.
    fn log_native(&self, native: Native) {
        let is = self.all_run_native();
        if native == Native::Auto && self.logged_native.swap(is, Relaxed) != is {
            let too_old = self
                .kubelets
                .read(|known| known.iter().find(|(_, runs)| !**runs).map(|(name, _)| name.clone()));
            tracing::info!(native_sidecars = is, too_old, "native sidecar support changed");
        }
    }

    fn all_run_native(&self) -> bool {
        self.kubelets.read(|known| !known.is_empty() && known.values().all(|runs| *runs))
    }
}

impl<T> ResourceWatch<T> {
    fn new(resource: &'static str, metrics: &ServeMetrics) -> Self {
        Self { resource, store: RwLock::default(), metrics: metrics.watch(resource) }
    }

    fn read<R>(&self, read: impl FnOnce(&BTreeMap<String, T>) -> R) -> R {
        read(self.store.read().known())
    }

    async fn follow<K>(&self, api: Api<K>, unlisted: Arc<str>, value: impl Fn(K) -> T, changed: impl Fn())
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let mut unlisted = Some(unlisted);
        let config = Config::default().page_size(PAGE_SIZE);
        let mut events = watch::events(api, config, self.resource, LIST_TIMEOUT);
        while let Some(event) = events.next().await {
            match event {
                Err(failure) => {
                    self.metrics.errors.inc();
                    self.metrics.current.set(0);
                    // The role may be granted later, but readiness does not wait for it.
                    if failure.status == Some(403) {
                        drop(unlisted.take());
                    }
                }
                Ok(event) => {
                    let is_complete = matches!(event, Event::InitDone);
                    self.store.write().take(event, |object| Some((object.name_any(), value(object))));
                    if is_complete {
                        drop(unlisted.take());
                        if self.metrics.current.set(1) == 0 {
                            let count = self.read(BTreeMap::len);
                            tracing::info!(resource = self.resource, count, "watched");
                        }
                    }
                    changed();
                }
            }
        }
    }
}

impl review::Cluster for ClusterState {
    fn namespace(&self, name: &str) -> Namespace {
        let known = self.watched.as_ref();
        let known = known.and_then(|watched| watched.namespaces.read(|known| known.get(name).cloned()));
        known.unwrap_or_else(|| Namespace { name: name.to_owned(), ..Namespace::default() })
    }

    fn native_sidecars(&self, node: Option<&str>) -> bool {
        match (self.native, &self.watched) {
            (Native::Always, _) => true,
            (Native::Never, _) | (Native::Auto, None) => false,
            (Native::Auto, Some(watched)) => {
                let of_node = node.and_then(|node| watched.kubelets.read(|known| known.get(node).copied()));
                of_node.unwrap_or_else(|| watched.all_run_native())
            }
        }
    }
}

fn namespace(mut object: PartialObjectMeta<Space>) -> Namespace {
    let labels = std::mem::take(object.labels_mut());
    let annotations = std::mem::take(object.annotations_mut());
    Namespace { name: object.name_any(), labels, annotations }
}

/// True if the kubelet supports native sidecars; false for an invalid version.
fn kubelet_runs_native_sidecars(node: Node) -> bool {
    let name = node.metadata.name.unwrap_or_default();
    let info = node.status.and_then(|status| status.node_info);
    let version = info.map(|info| info.kubelet_version).unwrap_or_default();
    let runs = runs_native_sidecars(&version);
    if runs.is_none() {
        tracing::debug!(node = name, version, "invalid kubelet version; expected one such as v1.33.1");
    }
    runs.unwrap_or(false)
}

fn native(word: &str) -> Native {
    match word {
        "true" => Native::Always,
        "false" => Native::Never,
        _ => Native::Auto,
    }
}
