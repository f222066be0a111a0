//! Readiness and metrics over HTTP, in the text format of Prometheus, version 0.0.4: one request per connection, limited in size
//! and time. A silent client delays no other; beyond a number of connections, the oldest is closed.

use super::neighbours::{CAUSES, InstallWarning};
use crate::cni::traces::{self, BOUNDS, CallCounters, CniCounters, REPAIR};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{collections::VecDeque, path::PathBuf, thread};

/// Time limit of a connection, from its start to the last byte of the response.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 8 * 1024;
/// Maximum number of open connections: a node has a kubelet and a scraper or two.
const MAX_CONNECTIONS: usize = 64;
/// Pause after `accept` fails, for example without free descriptors.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
const REFUSED_METHOD: &str = "405 Method Not Allowed";

#[derive(Debug, Default)]
pub(super) struct InstallerServer {
    pub(super) state: PathBuf,
    pub(super) installer: Mutex<Installer>,
    pub(super) open: Mutex<VecDeque<Arc<TcpStream>>>,
}

pub(super) fn serve(address: SocketAddr, server: Arc<InstallerServer>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let work = move || {
        loop {
            let served = listener.accept().and_then(|(stream, _)| server.start(stream));
            if served.is_err() {
                server.close_oldest(0);
                thread::sleep(RETRY_INTERVAL);
            }
        }
    };
    thread::Builder::new().name("http".to_owned()).spawn(work)?;
    Ok(address)
}

impl InstallerServer {
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Installer) -> T) -> T {
        change(&mut self.installer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<Arc<TcpStream>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, stream: TcpStream) -> io::Result<()> {
        self.close_oldest(MAX_CONNECTIONS - 1);
        let (server, stream) = (Arc::clone(self), Arc::new(stream));
        self.open().push_back(Arc::clone(&stream));
        let served = Arc::clone(&stream);
        let work = move || {
            let _ = exchange(&served, &server);
            server.forget(&served);
        };
        let spawned = thread::Builder::new().name("http".to_owned()).spawn(work);
        spawned.map(drop).inspect_err(|_| self.forget(&stream))
    }

    fn forget(&self, stream: &Arc<TcpStream>) {
        self.open().retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// If more than `limit` are open, closes the oldest connection, which ends its thread.
    fn close_oldest(&self, limit: usize) {
        let mut open = self.open();
        if open.len() > limit
            && let Some(oldest) = open.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }
}

fn exchange(mut stream: &TcpStream, server: &InstallerServer) -> io::Result<()> {
    let end = Instant::now() + TIMEOUT;
    let left = || match end.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(ErrorKind::TimedOut)),
        left => Ok(Some(left)),
    };
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        stream.set_read_timeout(left()?)?;
        match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) => break,
            count => head.extend_from_slice(&buffer[..count?]),
        }
        if head.len() > MAX_BYTES {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    stream.set_write_timeout(left()?)?;
    stream.write_all(answer(&String::from_utf8_lossy(&head), server).as_bytes())
}

fn answer(head: &str, server: &InstallerServer) -> String {
    let installer = server.change(|installer| installer.clone());
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let plain = |status: &'static str, text: &str| (status, "text/plain; charset=utf-8", format!("{text}\n"));
    let (status, kind, body) = match (method, target.split('?').next().unwrap_or_default()) {
        _ if !is_http => plain("400 Bad Request", "expected an HTTP/1.1 request"),
        ("GET" | "HEAD", "/metrics") => match traces::read_counters(&server.state) {
            Ok(counters) => ("200 OK", CONTENT_TYPE, text(&counters, &installer)),
            Err(error) => plain("500 Internal Server Error", &format!("the counters can't be read: {error}")),
        },
        ("GET" | "HEAD", "/readyz") => {
            let Installer { is_installed, state, warnings, .. } = installer;
            let (status, word) =
                if is_installed { ("200 OK", "ready") } else { ("503 Service Unavailable", "not ready") };
            let warnings = warnings.iter().map(|warning| format!("\nwarning: {}", warning.text));
            plain(status, &format!("{word}\n{state}{}", warnings.collect::<String>()))
        }
        ("GET" | "HEAD", _) => plain("404 Not Found", "not found; paths are /metrics and /readyz"),
        _ => plain(REFUSED_METHOD, "expected GET"),
    };
    let allow = if status == REFUSED_METHOD { "Allow: GET, HEAD\r\n" } else { "" };
    let length = body.len();
    let mut text = format!(
        "HTTP/1.1 {status}\r\n{allow}Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if method != "HEAD" {
        text.push_str(&body);
    }
    text
}

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Installer {
    pub(super) is_installed: bool,
    pub(super) state: String,
    pub(super) warnings: Vec<InstallWarning>,
    pub(super) programs: u64,
    pub(super) entries: u64,
}

fn text(counters: &CniCounters, installer: &Installer) -> String {
    let mut text = MetricsText(String::new());
    let calls = || counters.verbs.iter().filter(|(verb, _)| verb.as_str() != REPAIR);
    text.head("sidecar_cni_calls_total", "counter", "Plugin calls, by verb and outcome.");
    for (verb, CallCounters { outcomes, .. }) in calls() {
        for (outcome, count) in outcomes {
            text.value("sidecar_cni_calls_total", &[("verb", verb), ("outcome", outcome)], count);
        }
    }
    let name = "sidecar_cni_call_duration_seconds";
    text.head(name, "histogram", "Duration of plugin calls, by verb.");
    calls().for_each(|(verb, calls)| text.histogram(name, verb, calls));
    let name = "sidecar_cni_repairs_total";
    text.head(name, "counter", "Repairs of network namespaces, by outcome.");
    for (outcome, count) in counters.verbs.get(REPAIR).iter().flat_map(|calls| &calls.outcomes) {
        text.value(name, &[("outcome", outcome)], count);
    }
    let name = "sidecar_cni_installations_total";
    text.head(name, "counter", "Changes by the installer since it started.");
    text.value(name, &[("what", "program")], installer.programs);
    text.value(name, &[("what", "entry")], installer.entries);
    let name = "sidecar_cni_installed";
    text.head(
        name,
        "gauge",
        "1 if the plugin is in the network configuration that the runtime uses, else 0.",
    );
    text.value(name, &[], u8::from(installer.is_installed));
    let name = "sidecar_cni_install_warnings";
    text.head(name, "gauge", "Current installer warnings, by cause; /readyz has their text.");
    for cause in CAUSES {
        let count = installer.warnings.iter().filter(|warning| warning.cause == cause).count();
        text.value(name, &[("cause", cause)], count);
    }
    text.0
}

struct MetricsText(String);

impl MetricsText {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.0 += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        self.0 += &match labels.is_empty() {
            true => format!("{name} {value}\n"),
            false => format!("{name}{{{}}} {value}\n", labels.join(",")),
        };
    }

    fn histogram(&mut self, name: &str, verb: &str, calls: &CallCounters) {
        let bucket = format!("{name}_bucket");
        let counts = calls.buckets.iter().copied().chain(std::iter::repeat(0));
        let mut sum = 0;
        for (bound, count) in BOUNDS.iter().zip(counts) {
            sum += count;
            let bound = (f64::from(*bound) / 1e3).to_string();
            self.value(&bucket, &[("verb", verb), ("le", &bound)], sum);
        }
        let all: u64 = calls.buckets.iter().sum();
        self.value(&bucket, &[("verb", verb), ("le", "+Inf")], all);
        self.value(&format!("{name}_sum"), &[("verb", verb)], calls.milliseconds / 1e3);
        self.value(&format!("{name}_count"), &[("verb", verb)], all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_lines() {
        let counters: CniCounters = serde_json::from_str(concat!(
            r#"{"verbs":{"ADD":{"outcomes":{"captured":3,"o\"dd\\":1},"milliseconds":17.5,"buckets":[1,0,2,0,0,0,0,0,0,0,0,0,1]},"#,
            r#""repair":{"outcomes":{"repaired":2},"milliseconds":1.0,"buckets":[2]}}}"#
        ))
        .expect("counters");
        let text = text(&counters, &Installer { is_installed: true, entries: 4, ..Installer::default() });
        for line in [
            "# TYPE sidecar_cni_calls_total counter",
            "sidecar_cni_calls_total{verb=\"ADD\",outcome=\"captured\"} 3",
            "sidecar_cni_calls_total{verb=\"ADD\",outcome=\"o\\\"dd\\\\\"} 1",
            "# TYPE sidecar_cni_call_duration_seconds histogram",
            "sidecar_cni_call_duration_seconds_bucket{verb=\"ADD\",le=\"0.001\"} 1",
            "sidecar_cni_call_duration_seconds_bucket{verb=\"ADD\",le=\"0.005\"} 3",
            "sidecar_cni_call_duration_seconds_bucket{verb=\"ADD\",le=\"5\"} 3",
            "sidecar_cni_call_duration_seconds_bucket{verb=\"ADD\",le=\"+Inf\"} 4",
            "sidecar_cni_call_duration_seconds_sum{verb=\"ADD\"} 0.0175",
            "sidecar_cni_call_duration_seconds_count{verb=\"ADD\"} 4",
            "sidecar_cni_repairs_total{outcome=\"repaired\"} 2",
            "sidecar_cni_installations_total{what=\"entry\"} 4",
            "sidecar_cni_installed 1",
            "sidecar_cni_install_warnings{cause=\"removal\"} 0",
        ] {
            assert!(text.lines().any(|there| there == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with('\n') && !text.contains("verb=\"repair\""));
    }
}
