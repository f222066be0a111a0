//! What the API server tells of namespaces and nodes, for reviews: OpenShift's users of a namespace, and whether kubelets run
//! native sidecars.
//!
//! Reviews never wait for it. Until it has told, and wherever it tells nothing, a namespace has no annotations, and no
//! kubelet counts as able.

mod shelf;
mod watch;

pub(super) use shelf::State;

use crate::{arguments::one_of, authority::SILENCE};
use clap::{Args, ValueEnum};
use cluster::access;
use injection::{
    Namespace,
    configuration::Native,
    review::{self, runs_native_sidecars},
};
use k8s_openapi::api::core::v1::{Namespace as Space, Node};
use kube::{Api, Client, ResourceExt, core::PartialObjectMeta, runtime::watcher};
use shelf::Shelf;
use std::{
    error::Error,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Its flags.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub(super) struct Flags {
    /// Whether to watch namespaces (their annotations) and nodes (their kubelets' versions) at the API server: auto does so in
    /// a pod of a cluster, and wherever --kubeconfig is given
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    pub(super) watch_cluster: When,
    /// Whether a pod that says nothing about it gets a native sidecar: auto where its kubelet runs them, of a pod that has no
    /// node yet, where all do (Kubernetes 1.33 and newer); without a watch that is nowhere
    #[arg(
        long,
        value_name = "WHETHER",
        num_args = 0..=1,
        require_equals = true,
        default_value = "auto",
        default_missing_value = "true",
        value_parser = one_of(&[("auto", Native::Auto), ("true", Native::Always), ("false", Native::Never)])
    )]
    native_sidecars: Native,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    Auto,
    On,
    Off,
}

/// How long the server calls itself not ready for want of what is watched.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A cluster as far as it is known.
pub(super) struct Cluster {
    native: Native,
    /// None of it where nobody watches.
    watched: Option<Watched>,
}

struct Watched {
    namespaces: Shelf<Namespace>,
    /// Whether a node's kubelet runs native sidecars.
    kubelets: Shelf<bool>,
    /// Of all kubelets, as it was told last.
    told_native: AtomicBool,
    since: Instant,
}

impl Cluster {
    /// Knows what flags say, and from then on what the API server tells.
    ///
    /// # Errors
    /// When the watch is wanted, and it is not known where the API server is.
    pub(super) async fn begin(
        flags: &Flags,
        kubeconfig: Option<&Path>,
    ) -> Result<Arc<Self>, access::Refused> {
        let client = match flags.watch_cluster {
            When::Off => None,
            when @ (When::On | When::Auto) => match access::client(kubeconfig, SILENCE).await {
                Ok(client) => Some(client),
                Err(error @ access::Refused::NoPod(_)) if when == When::Auto => {
                    let error = &error as &dyn Error;
                    tracing::info!(error, "namespaces and nodes are not watched");
                    None
                }
                Err(error) => return Err(error),
            },
        };
        let watched = client.as_ref().map(|_| Watched {
            namespaces: Shelf::new("namespaces"),
            kubelets: Shelf::new("nodes"),
            told_native: AtomicBool::new(false),
            since: Instant::now(),
        });
        let cluster = Arc::new(Self { native: flags.native_sidecars, watched });
        if let Some(client) = client {
            tokio::spawn(Arc::clone(&cluster).follow(client));
        }
        Ok(cluster)
    }

    /// Hears what the API server tells, for ever.
    async fn follow(self: Arc<Self>, client: Client) {
        let Some(watched) = &self.watched else { return };
        // By pages, so that a large cluster is never in memory as a whole.
        let config = watcher::Config::default().page_size(500);
        let spaces: Api<PartialObjectMeta<Space>> = Api::all(client.clone());
        let nodes: Api<Node> = Api::all(client);
        let namespaces = watch::follow(&watched.namespaces, &spaces, &config, namespace, || {});
        let kubelets =
            watch::follow(&watched.kubelets, &nodes, &config, kubelet_runs_native_sidecars, || {
                watched.tell_native(self.native);
            });
        tokio::join!(namespaces, kubelets);
    }

    /// Whether there is nothing to wait for: all was listed once, or is known to be refused, or it takes too long.
    pub(super) fn is_settled(&self) -> bool {
        self.watched.as_ref().is_none_or(|watched| {
            (watched.namespaces.is_settled() && watched.kubelets.is_settled())
                || watched.since.elapsed() >= LONGEST_WAIT
        })
    }

    /// How the watches are, for `/metrics`; none where nobody watches.
    pub(super) fn states(&self) -> Vec<State> {
        let states = self.watched.as_ref().map(|all| [all.namespaces.state(), all.kubelets.state()]);
        states.into_iter().flatten().collect()
    }
}

impl Watched {
    /// Tells who runs the server, if another answer is given from now on to pods without a node.
    fn tell_native(&self, native: Native) {
        let is = self.kubelets.all(|runs| *runs);
        if native == Native::Auto && self.told_native.swap(is, Relaxed) != is {
            let too_old = self.kubelets.first(|runs| !*runs);
            tracing::info!(native_sidecars = is, too_old, "another answer of all kubelets");
        }
    }
}

impl review::Cluster for Cluster {
    fn namespace(&self, name: &str) -> Namespace {
        let known = self.watched.as_ref().and_then(|watched| watched.namespaces.find(name));
        known.unwrap_or_else(|| Namespace { name: name.to_owned(), ..Namespace::default() })
    }

    fn native_sidecars(&self, node: Option<&str>) -> bool {
        match (self.native, &self.watched) {
            (Native::Always, _) => true,
            (Native::Never, _) | (Native::Auto, None) => false,
            (Native::Auto, Some(Watched { kubelets, .. })) => {
                let of_node = node.and_then(|node| kubelets.find(node));
                of_node.unwrap_or_else(|| kubelets.all(|runs| *runs))
            }
        }
    }
}

/// What matters of a namespace.
fn namespace(mut object: PartialObjectMeta<Space>) -> Namespace {
    let labels = std::mem::take(object.labels_mut());
    let annotations = std::mem::take(object.annotations_mut());
    Namespace { name: object.name_any(), labels, annotations }
}

/// Whether a node's kubelet runs native sidecars. One whose version nobody can read counts as too old.
pub(crate) fn kubelet_runs_native_sidecars(node: Node) -> bool {
    let name = node.metadata.name.unwrap_or_default();
    let info = node.status.and_then(|status| status.node_info);
    let version = info.map(|info| info.kubelet_version).unwrap_or_default();
    let runs = runs_native_sidecars(&version);
    if runs.is_none() {
        tracing::debug!(node = name, version, "the kubelet's version is none; expected one such as v1.33.1");
    }
    runs.unwrap_or(false)
}
