//! `environment operator`: maintains the routes of namespaces while it runs.
//!
//! ```text
//! watch       the watched resources            one stream of events, with reduced objects
//! store       objects that determine routes
//! core        due work and its time            pure; the library makes the plan
//! writes      the work's API calls             as long as this process leads
//! inspection  the status pages
//! ```

mod core;
mod inspection;
mod store;
#[cfg(test)]
mod tests;
mod watch;
mod writes;

use self::core::{Core, WorkOutcome};
use crate::logging;
use clap::Args;
use cluster::error::{describe, in_time};
use cluster::{access, lease::LeaseCandidate, logging::LogLevelHandle, status, termination::Termination};
use environment::inventory::AllowedHost;
use futures::{StreamExt, future::OptionFuture};
use injection::syntax::is_domain;
use inspection::Inspection;
use kube::{Client, runtime::watcher::Event};
use mesh::sources::duration;
use prometheus_client::registry::Registry;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};
use std::{
    cell::RefCell, error::Error, fs, net::SocketAddr, path::PathBuf, process::ExitCode, rc::Rc, sync::Arc,
};
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::{self, LocalSet};
use tokio::{runtime::Builder, time};
use watch::WatchScope;
use writes::Metrics;

#[derive(Args, Clone, Debug)]
pub(crate) struct HostFlags {
    /// Hosts outside of a Service's namespace that its annotation kt-virtual-environment/hosts may name, such as
    /// shop.example.com, *.example.com or * [default: none]
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    pub(crate) allow_hosts: Vec<AllowedHost>,
}

#[derive(Args)]
pub(crate) struct OperatorFlags {
    /// Namespace of the routes [default: the kubeconfig's, or the pod's]
    #[arg(short, long, value_name = "NAME", conflicts_with = "all", value_parser = super::namespace)]
    namespace: Option<String>,
    /// Maintain the routes of all namespaces
    #[arg(short = 'A', long = "all-namespaces", id = "all")]
    all: bool,
    /// Kubeconfig for the API server, outside a cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Wait until no event arrives for this time, at most six times as long; deleted operator objects are restored at once
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = within(Duration::ZERO, HOUR))]
    debounce: Duration,
    #[command(flatten)]
    hosts: HostFlags,
    /// Lease for leader election
    #[arg(long, value_name = "NAME", default_value = "sidecar-injector-environment", value_parser = name)]
    lease: String,
    /// Namespace of the Lease [default: --namespace, else the kubeconfig's or the pod's]
    #[arg(long, value_name = "NAME", value_parser = super::namespace)]
    lease_namespace: Option<String>,
    /// Validity of the Lease after a renewal, in whole seconds
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = lease_duration)]
    lease_duration: Duration,
    /// Run without a Lease, as the only replica
    #[arg(long)]
    no_lease: bool,
    /// How long to keep a watch open, from 1s to 294s
    #[arg(long, value_name = "TIME", default_value = "4m", value_parser = within(SECOND, MAX_WATCH))]
    watch_timeout: Duration,
    /// Timeout of other calls
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = within(SECOND, HOUR))]
    call_timeout: Duration,
    /// Address for `environment inspect`
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS)]
    status_address: SocketAddr,
    /// Address of /metrics, /healthz and /readyz, such as `[::]:8383`
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<SocketAddr>,
    #[command(flatten)]
    logging: logging::LoggingFlags,
}

/// Default address of the status pages, as in upstream.
pub(super) const ADDRESS: &str = "127.0.0.1:8000";
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// The client's limit (`kube::api::WatchParams`): under 295 seconds.
const MAX_WATCH: Duration = Duration::from_secs(294);

/// Parses a duration in Go's format, within bounds.
fn within(least: Duration, most: Duration) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let found = duration::parse(text).filter(|found| (least..=most).contains(found));
        let expected = "expected a duration such as 5s, 500ms or 1m30s";
        found.ok_or_else(|| format!("{expected}, from {}s to {}s", least.as_secs_f64(), most.as_secs_f64()))
    }
}

fn name(text: &str) -> Result<String, String> {
    let expected =
        "expected lowercase letters, digits, - and ., with a letter or digit at both ends (RFC 1123)";
    if is_domain(text) { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}

fn lease_duration(text: &str) -> Result<Duration, String> {
    let found = within(2 * SECOND, HOUR)(text)?;
    match found.subsec_nanos() {
        0 => Ok(found),
        _ => Err("expected whole seconds, such as 15s: a Lease has no smaller unit".to_owned()),
    }
}

pub(crate) fn run(flags: &OperatorFlags) -> Result<ExitCode, Box<dyn Error>> {
    let level = logging::start(&flags.logging);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, operate(flags, level))?;
    Ok(ExitCode::SUCCESS)
}

async fn operate(flags: &OperatorFlags, level: LogLevelHandle) -> Result<(), Box<dyn Error>> {
    let mut termination = Termination::new()?;
    let kubeconfig = flags.kubeconfig.as_deref();
    let (client, server) = access::reach(kubeconfig, flags.call_timeout).await?;
    // A watch is silent while nothing changes.
    let watching = access::client(kubeconfig, flags.watch_timeout + flags.call_timeout).await?;
    let own = client.default_namespace().to_owned();
    let namespace = (!flags.all).then(|| flags.namespace.clone().unwrap_or_else(|| own.clone()));
    let core = Core::new(flags.debounce, flags.hosts.allow_hosts.clone());
    let core = Rc::new(RefCell::new(core));
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    let unlisted = Arc::from("the first lists of watched objects are incomplete");
    let inspection = Rc::new(Inspection { core: Rc::clone(&core), level, namespace: namespace.clone() });
    let answer = move |path: &str, query: Option<&str>| inspection.page(path, query);
    let status = status::serve("--status-address", flags.status_address, answer)?;
    let served = flags.metrics_address.map(|address| {
        status::serve_pages("--metrics-address", address, registry, Arc::downgrade(&unlisted))
    });
    let metrics_address = served.transpose()?.map(|address| address.to_string());

    let identity = identity();
    let place = namespace.as_deref().unwrap_or("(all)");
    tracing::info!(namespace = place, identity, server, %status, metrics = metrics_address, "operating");
    // Operators of different namespaces have different Leases, so they don't wait for each other.
    let lease_namespace = flags.lease_namespace.clone().or_else(|| flags.namespace.clone()).unwrap_or(own);
    let mut candidate =
        LeaseCandidate::new(client, &lease_namespace, flags.lease.clone(), identity, flags.lease_duration);
    // Effectively unlimited.
    let always = Sender::new(Instant::now().checked_add(Duration::from_secs(100 * 365 * 86_400)));
    let leads_until = if flags.no_lease { always.subscribe() } else { candidate.until() };
    let operator = Rc::new(EnvironmentOperator {
        client: watching,
        scope: WatchScope { namespace, timeout: flags.watch_timeout, call_timeout: flags.call_timeout },
        core,
        metrics,
        leads_until,
    });
    let mut rounds = task::spawn_local(operator.run(unlisted));
    tokio::select! {
        () = termination.wait() => {}
        () = candidate.run(), if !flags.no_lease => {}
        // Only a panic ends `rounds`. The process then ends without renewing its Lease, so another replica leads.
        ended = &mut rounds => return ended.map_err(Into::into),
    }
    // Stops writes before another replica may lead.
    rounds.abort();
    let _ = rounds.await;
    if !flags.no_lease
        && let Err(error) = in_time(flags.call_timeout, candidate.release()).await
    {
        tracing::warn!(error = describe(&error), "cannot release the Lease; it expires");
    }
    tracing::info!("stopped");
    Ok(())
}

/// Unique name: the hostname (the pod's name) and a number.
fn identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:016x}", host.trim(), fastrand::u64(..))
}

/// Loop that passes events to the core, and does due work, one namespace at a time.
struct EnvironmentOperator {
    /// Read timeout longer than a watch.
    client: Client,
    scope: WatchScope,
    core: Rc<RefCell<Core>>,
    metrics: Metrics,
    leads_until: Receiver<Option<Instant>>,
}

type InProgress = (String, Pin<Box<dyn Future<Output = WorkOutcome>>>);

impl EnvironmentOperator {
    /// `unlisted` blocks readiness until all resources are listed.
    async fn run(self: Rc<Self>, unlisted: Arc<str>) {
        let mut unlisted = Some(unlisted);
        let mut events = pin!(watch::events(&self.client, &self.scope));
        let mut lead = self.leads_until.clone();
        let mut in_progress: Option<InProgress> = None;
        loop {
            let now = Instant::now();
            let leads_until = *lead.borrow_and_update();
            let leads = leads_until.is_some_and(|until| now < until);
            self.metrics.leading.set(leads.into());
            self.core.borrow_mut().lead(leads, now);
            if !leads {
                // Another replica may lead from now on: work in progress ends here.
                in_progress = None;
            } else if in_progress.is_none() {
                in_progress = self.start_work(now);
            }
            let due = self.core.borrow().next_due().filter(|_| in_progress.is_none());
            tokio::select! {
                Some((resource, event)) = events.next() => match event {
                    Ok(event) => {
                        let is_done = matches!(event, Event::InitDone);
                        self.core.borrow_mut().handle(resource, event, Instant::now());
                        if is_done && self.core.borrow().store.is_complete() {
                            drop(unlisted.take());
                        }
                    }
                    Err(failure) => {
                        self.metrics.watch_failed(watch::resource(resource).plural, failure.kind);
                    }
                },
                Some(outcome) = OptionFuture::from(in_progress.as_mut().map(|(_, work)| work)) => {
                    if let Some((namespace, _)) = in_progress.take() {
                        self.core.borrow_mut().finished(&namespace, outcome, Instant::now());
                    }
                }
                Some(()) = sleep_until(due) => {}
                Some(()) = sleep_until(leads_until.filter(|_| leads)) => {}
                // The sender lives as long as the process.
                Ok(()) = lead.changed() => {}
            }
        }
    }

    fn start_work(self: &Rc<Self>, now: Instant) -> Option<InProgress> {
        let work = self.core.borrow_mut().start(now)?;
        self.metrics.rounds.inc();
        let namespace = work.namespace.clone();
        tracing::debug!(namespace, steps = work.changes.steps.len(), "evaluated");
        for note in work.notes() {
            tracing::debug!(namespace, note, "suspicious configuration");
        }
        Some((namespace, Box::pin(Rc::clone(self).work(work))))
    }
}

fn sleep_until(time: Option<Instant>) -> OptionFuture<time::Sleep> {
    time.map(|time| time::sleep_until(time.into())).into()
}
