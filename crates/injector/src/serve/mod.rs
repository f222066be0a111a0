//! `serve`: the webhook that the API server calls for each new pod, over HTTPS.
//!
//! Configuration and certificate are reloaded when their files change. A shutdown interrupts no request: readiness fails, the
//! drain time passes, the listener closes, and requests in progress finish.

mod body;
mod cluster;
mod configuration;
mod connections;
mod metrics;
mod reload;
mod routes;
mod size_class;
pub(crate) mod tls;

use crate::logging::{self, LoggingFlags};
use crate::{authority, sources::ConfigurationSources};
use ::cluster::{
    error::describe,
    listen::listen,
    status,
    termination::{Termination, spawn_essential},
};
use clap::Args;
use cluster::{ClusterState, When};
use injection::tag;
use mesh::InputProblem;
use metrics::ServeMetrics;
use parking_lot::RwLock;
use reload::{FileContents, Files, Watched, WatchedFile};
use routes::WebhookServer;
use size_class::SizeClasses;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::{error::Error, process::ExitCode, sync::Arc, sync::atomic::AtomicBool};
use std::{sync::atomic::Ordering::Relaxed, thread, time::Duration};
use tls::ServerIdentity;
use tokio::{runtime::Builder, sync::watch, task::LocalSet, time::sleep};
use tokio_rustls::TlsAcceptor;

/// Port of Istio's injector, to which its Service points.
const PORT: u16 = 15017;
/// A review takes less than a millisecond, so a few threads answer thousands per second; more would only take memory.
const MAX_THREADS: usize = 4;

#[derive(Args, Debug)]
#[group(id = "serve")]
pub(crate) struct ServeFlags {
    /// HTTPS address; `[::]` means all IPv4 addresses and, if available, all IPv6 addresses
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)))]
    address: SocketAddr,
    /// Plain HTTP address of /metrics and /ready, such as `[::]:15014`
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_address: Option<SocketAddr>,
    /// PEM file with the server certificate and its intermediates; reloaded when it changes
    #[arg(long, value_name = "FILE", conflicts_with = "self_signed")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key; reloaded when it changes
    #[arg(long, value_name = "FILE", conflicts_with = "self_signed")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    authority: authority::AuthorityFlags,
    /// Folder with the files config, values and mesh, such as a mounted ConfigMap; reloaded when it changes
    #[arg(long, value_name = "FOLDER")]
    config_dir: Option<PathBuf>,
    #[command(flatten)]
    sources: ConfigurationSources,
    /// Comma-separated labels; the first one on a pod sets its environment, which /environment-tag passes to its proxy
    #[arg(long, value_name = "LABELS", value_parser = labels, env = "envLabel")]
    environment_labels: Option<Box<[String]>>,
    #[command(flatten)]
    cluster: cluster::ServeClusterFlags,
    /// How long requests are accepted after SIGTERM, while /ready fails
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    drain: Duration,
    /// Timeout for a handshake, a request's head, and its body
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive_seconds)]
    timeout: Duration,
    /// Maximum number of connections; beyond it, connections with incomplete requests are closed first, then idle ones
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: u16,
    #[command(flatten)]
    logging: LoggingFlags,
}

/// Parses labels; returns no `Vec`, which clap would treat as a repeatable flag.
fn labels(text: &str) -> Result<Box<[String]>, String> {
    let problem = |problem: &InputProblem| match &problem.item {
        Some(item) => format!("{item:?} {}", problem.text),
        None => problem.text.clone(),
    };
    let labels = tag::labels("--environment-labels", text).map(Vec::into_boxed_slice);
    labels.map_err(|problems| problems.0.iter().map(problem).collect::<Vec<_>>().join("; "))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let expected = "expected a number of seconds, such as 5 or 0.5";
    let seconds: f64 = text.parse().map_err(|_| expected.to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| expected.to_owned())?;
    if duration > Duration::from_secs(86_400) {
        return Err("expected at most a day".to_owned());
    }
    Ok(duration)
}

/// A timeout of 0 would refuse every request.
fn positive_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("expected more than 0".to_owned()),
        positive => Ok(positive),
    }
}

pub(crate) fn run(flags: &ServeFlags) -> Result<ExitCode, Box<dyn Error>> {
    logging::start(&flags.logging);
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads())
        // Threads for reviews end after a second without work, to free their memory.
        .thread_keep_alive(Duration::from_secs(1))
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut termination = Termination::new()?;
        let server = tokio::select! {
            server = prepare(flags) => server?,
            () = termination.wait() => return Ok(()),
        };
        serve(flags, &server, termination).await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Number of threads for connections, and for short reviews.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// Reads configuration and certificate, and watches their files. Invalid files prevent all writes to the cluster.
async fn prepare(flags: &ServeFlags) -> Result<Arc<WebhookServer>, Box<dyn Error>> {
    let kubeconfig = flags.authority.kubeconfig.as_deref();
    let is_self_signed = flags.authority.self_signed;
    if kubeconfig.is_some() && flags.cluster.watch_cluster == When::Off && !is_self_signed {
        let text = "--kubeconfig: has no effect without --watch-cluster auto or on, or --self-signed";
        return Err(text.into());
    }
    let metrics = Arc::new(ServeMetrics::default());
    let mut errors: Vec<String> = Vec::new();
    let cluster = ClusterState::begin(&flags.cluster, kubeconfig, &metrics).await;
    let cluster = cluster.map_err(|error| errors.push(describe(&error))).ok();
    let files = configuration::files(flags.config_dir.as_deref(), &flags.sources);
    let configured = files.read().map_err(Box::from);
    let configured = configured.and_then(|texts| Ok((configuration::parse(&files, &texts)?, texts)));
    let configured = configured.map_err(|error: Box<dyn Error>| errors.push(describe(&*error))).ok();
    let identified = match (&flags.tls_cert, &flags.tls_key) {
        _ if is_self_signed => Ok(None),
        (Some(certificate), Some(key)) => identity_of(certificate, key, &metrics).map(Some),
        _ => Err("--tls-cert and --tls-key: expected both, or --self-signed".into()),
    };
    let identified = identified.map_err(|error: Box<dyn Error>| errors.push(describe(&*error))).ok();
    let (Some(cluster), Some((configuration, texts)), Some(identified)) = (cluster, configured, identified)
    else {
        return Err(errors.join("\n").into());
    };
    let (identity, certificate, callers) = match identified {
        Some((identity, watched)) => (identity, Some(watched), None),
        None => {
            let (identity, reconciler) = authority::begin(&flags.authority).await?;
            let callers = reconciler.callers();
            spawn_essential("certificates", reconciler.run());
            (identity, None, Some(callers))
        }
    };
    let template_problems = configuration::try_templates(&configuration).err().map(|problems| {
        tracing::error!(error = %problems, "not ready: the default templates can't be rendered");
        problems.to_string()
    });
    let server = Arc::new(WebhookServer {
        configuration: RwLock::new(Arc::new(configuration)),
        cluster,
        environment_labels: flags.environment_labels.clone().unwrap_or_default().into_vec(),
        identity,
        metrics: Arc::clone(&metrics),
        draining: AtomicBool::new(false),
        classes: SizeClasses::new(threads()),
        timeout: flags.timeout,
        template_problems: RwLock::new(template_problems),
        callers,
    });
    let reloaded = Arc::clone(&server);
    let watched = files.clone();
    let reload = Box::new(move |contents: &FileContents| {
        let configuration = configuration::parse(&files, contents)?;
        configuration::try_templates(&configuration)?;
        reloaded.configure(configuration);
        Ok(())
    });
    let configuration = Watched::new("configuration", watched, texts, reload, metrics.configuration.clone());
    reload::watch([Some(configuration), certificate].into_iter().flatten().collect());
    Ok(server)
}

fn identity_of(
    certificate: &Path,
    key: &Path,
    metrics: &ServeMetrics,
) -> Result<(Arc<ServerIdentity>, Watched), Box<dyn Error>> {
    let file = |(key, path): (_, &Path)| WatchedFile { key, path: path.to_owned(), optional: false };
    let files = Files([("tls.crt", certificate), ("tls.key", key)].map(file).into());
    let parse = |contents: &FileContents| tls::from_pem(&contents["tls.crt"], &contents["tls.key"]);
    let begin = || -> Result<_, Box<dyn Error>> {
        let contents = files.read()?;
        Ok((ServerIdentity::new(parse(&contents)?)?, contents))
    };
    let (identity, contents) = begin().map_err(|error| {
        format!("--tls-cert {}, --tls-key {}: {}", certificate.display(), key.display(), describe(&*error))
    })?;
    let served = Arc::clone(&identity);
    let reload = Box::new(move |contents: &FileContents| Ok(served.set(parse(contents)?)?));
    Ok((identity, Watched::new("certificate", files, contents, reload, metrics.certificate.clone())))
}

async fn serve(
    flags: &ServeFlags,
    server: &Arc<WebhookServer>,
    mut termination: Termination,
) -> Result<(), Box<dyn Error>> {
    let (stop, stopped) = watch::channel(false);
    let listener = listen("--address", flags.address)?;
    let address = listener.local_addr()?;
    let pages = Arc::clone(server);
    let plain = flags.metrics_address.map(|address| {
        status::serve("--metrics-address", address, move |path, query| pages.page(path, query))
    });
    let plain = plain.transpose()?.map(|address| address.to_string());
    let tls = TlsAcceptor::from(tls::server(Arc::clone(&server.identity))?);
    let most = flags.max_connections.into();
    let connections = connections::serve(listener, tls, most, Arc::clone(server), stopped);
    let connections = spawn_essential("connections", connections);
    tracing::info!(%address, metrics_address = plain, "serving");

    termination.wait().await;
    tracing::info!(drain = flags.drain.as_secs_f64(), "draining");
    server.draining.store(true, Relaxed);
    tokio::select! {
        () = sleep(flags.drain) => {}
        () = termination.wait() => {}
    }
    stop.send_replace(true);
    connections.await?;
    tracing::info!("stopped");
    Ok(())
}
