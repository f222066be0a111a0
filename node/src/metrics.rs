//! Numbers for Prometheus, and whether we are alive and ready, over HTTP.
//!
//! One thread does everything, so the numbers need no lock.

use cluster::slots::{Slot, Slots};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt::Write,
    io,
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task, time,
};

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Treatments by action and outcome.
    treatments: RefCell<BTreeMap<(&'static str, &'static str), u64>>,
    seconds: Cell<f64>,
    /// Disturbances of the watch by kind.
    disturbances: RefCell<BTreeMap<&'static str, u64>>,
    recovered: Cell<u64>,
    lists: Cell<u64>,
    broken: Cell<usize>,
    ready: Cell<bool>,
}

impl Metrics {
    pub(crate) fn treated(&self, action: &'static str, outcome: &'static str, took: Duration) {
        *self.treatments.borrow_mut().entry((action, outcome)).or_default() += 1;
        self.seconds.set(self.seconds.get() + took.as_secs_f64());
    }

    pub(crate) fn disturbed(&self, kind: &'static str) {
        *self.disturbances.borrow_mut().entry(kind).or_default() += 1;
    }

    pub(crate) fn recovered(&self) {
        self.recovered.set(self.recovered.get() + 1);
    }

    /// All pods are known.
    pub(crate) fn listed(&self) {
        self.lists.set(self.lists.get() + 1);
        self.ready.set(true);
    }

    pub(crate) fn broken(&self, count: usize) {
        self.broken.set(count);
    }

    /// The text that Prometheus reads.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, String)>| {
            let samples: String = samples
                .iter()
                .map(|(labels, value)| format!("sidecar_node_{name}{labels} {value}\n"))
                .collect();
            write!(text, "# HELP sidecar_node_{name} {help}\n# TYPE sidecar_node_{name} {kind}\n{samples}")
                .expect("a text takes whatever is written to it");
        };
        let plain = |value: String| vec![(String::new(), value)];
        let treatments = self.treatments.borrow();
        let labelled = treatments.iter().map(|((action, outcome), count)| {
            (format!("{{action=\"{action}\",outcome=\"{outcome}\"}}"), count.to_string())
        });
        family("repairs_total", "counter", "Broken pods that something was done for.", labelled.collect());
        family(
            "repair_seconds_total",
            "counter",
            "How long that took.",
            plain(self.seconds.get().to_string()),
        );
        family(
            "recovered_total",
            "counter",
            "Broken pods whose validation has passed since, or that are gone.",
            plain(self.recovered.get().to_string()),
        );
        family(
            "broken_pods",
            "gauge",
            "Pods whose traffic is not captured.",
            plain(self.broken.get().to_string()),
        );
        family(
            "lists_total",
            "counter",
            "How often all pods were listed.",
            plain(self.lists.get().to_string()),
        );
        let disturbances = self.disturbances.borrow();
        let labelled =
            disturbances.iter().map(|(kind, count)| (format!("{{kind=\"{kind}\"}}"), count.to_string()));
        family("watch_errors_total", "counter", "Disturbances of the watch.", labelled.collect());
        text
    }

    fn answer(&self, request: &str) -> (&'static str, String) {
        let path = request.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
        match path {
            Some("/metrics") => ("200 OK", self.text()),
            Some("/healthz") => ("200 OK", "alive\n".to_owned()),
            Some("/readyz") if self.ready.get() => ("200 OK", "ready\n".to_owned()),
            Some("/readyz") => {
                ("503 Service Unavailable", "the pods of the node are not known yet\n".to_owned())
            }
            _ => ("404 Not Found", "there are /metrics, /healthz and /readyz\n".to_owned()),
        }
    }
}

/// The longest request that is read.
const MOST_BYTES: u64 = 8 * 1024;
/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many clients are served at once: a node has a kubelet and a scraper or two.
const MOST_CONNECTIONS: usize = 64;

/// Serves them as long as the runtime lives.
///
/// # Errors
/// When the address can't be listened on.
pub(crate) async fn serve(metrics: Rc<Metrics>, address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let slots = Slots::new(MOST_CONNECTIONS);
    task::spawn_local(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (metrics, slot) = (Rc::clone(&metrics), slots.take().await);
                    // Who does not ask in time, or is gone before the answer, gets none.
                    task::spawn_local(async move {
                        tokio::select! {
                            () = slot.wanted() => {}
                            _ = time::timeout(PATIENCE, one(&metrics, stream, &slot)) => {}
                        }
                    });
                }
                // No file descriptors are left, as far as one can tell: wait for some.
                Err(_) => {
                    slots.close_idle();
                    time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(())
}

async fn one(metrics: &Metrics, mut stream: TcpStream, slot: &Slot) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = reader.take(MOST_BYTES);
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if reader.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    slot.asked();
    let (status, body) = metrics.answer(&String::from_utf8_lossy(&request));
    let head = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\nConnection: close";
    let answer = format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    writer.write_all(answer.as_bytes()).await?;
    writer.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        metrics.treated("repair", "done", Duration::from_millis(1_500));
        metrics.treated("repair", "done", Duration::from_millis(500));
        metrics.disturbed("gone");
        metrics.broken(3);
        let text = metrics.text();
        for line in [
            "sidecar_node_repairs_total{action=\"repair\",outcome=\"done\"} 2",
            "sidecar_node_repair_seconds_total 2",
            "sidecar_node_broken_pods 3",
            "sidecar_node_watch_errors_total{kind=\"gone\"} 1",
        ] {
            assert!(text.lines().any(|there| there == line), "no {line} in\n{text}");
        }
        assert_eq!(metrics.answer("GET /readyz HTTP/1.1\r\n\r\n").0, "503 Service Unavailable");
        metrics.listed();
        assert_eq!(metrics.answer("GET /readyz HTTP/1.1\r\n\r\n").0, "200 OK");
        assert_eq!(metrics.answer("POST /metrics HTTP/1.1\r\n\r\n").0, "404 Not Found");
    }
}
