//! The webhook's server as a process, with its files as Kubernetes mounts them.

use super::client::{Client, Response};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpStream},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};
use testkit::certificates::{Authority, pem};
use testkit::{folder::Folder, running::Running};

/// How long anything may take on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A policy, as Istio's chart writes it.
pub(crate) const CONFIG: &str = "policy: enabled\n";

/// A folder as Kubernetes mounts a ConfigMap or a Secret: all of its files are exchanged at once.
pub(crate) fn mount(folder: &Path, files: &[(&str, &str)]) {
    static VERSION: AtomicU32 = AtomicU32::new(0);
    let version = format!("..{}", VERSION.fetch_add(1, Ordering::Relaxed));
    let data = folder.join(&version);
    fs::create_dir_all(&data).expect("a folder");
    for (name, text) in files {
        fs::write(data.join(name), text).expect("a file");
        if folder.join(name).symlink_metadata().is_err() {
            symlink(Path::new("..data").join(name), folder.join(name)).expect("a link");
        }
    }
    let last = fs::read_link(folder.join("..data")).ok();
    symlink(&version, folder.join("..data_tmp")).expect("a link");
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("an exchange");
    if let Some(last) = last {
        fs::remove_dir_all(folder.join(last)).expect("the last version");
    }
}

/// Lines that the server has logged.
#[derive(Default)]
struct Log {
    /// And whether there will be more.
    lines: Mutex<(Vec<Value>, bool)>,
    more: Condvar,
}

/// The server, and a folder for its files, which goes with it.
pub(crate) struct Webhook {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Arc<Authority>,
    folder: Folder,
    child: Running,
    log: Arc<Log>,
}

impl Webhook {
    /// Starts one with this `config` and these `values`; further flags as they are.
    pub(crate) fn start(config: &str, values: &str, flags: &[&str]) -> Self {
        // Tests may run in an empty network namespace of their own, where loopback is down.
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).output();
        assert!(up.expect("ip starts").status.success(), "loopback can't be set up");
        let folder = Folder::new("webhook");
        let authority = Arc::new(Authority::new("webhook"));
        certify(&folder, &authority);
        configure(&folder, config, values);
        let mut child = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
            .args(["serve", "--address", "127.0.0.1:0", "--log_as_json", "--config-dir"])
            .arg(folder.join("config"))
            .arg("--tls-cert")
            .arg(folder.join("tls/tls.crt"))
            .arg("--tls-key")
            .arg(folder.join("tls/tls.key"))
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let log = Arc::new(Log::default());
        let (heard, lines) = (Arc::clone(&log), BufReader::new(child.stderr.take().expect("a pipe")).lines());
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "message": line }));
                heard.lines.lock().expect("no test has failed inside").0.push(line);
                heard.more.notify_all();
            }
            heard.lines.lock().expect("no test has failed inside").1 = true;
            heard.more.notify_all();
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut webhook = Self { address, authority, folder, child: Running(child), log };
        let serving = webhook.logged("serving");
        webhook.address = serving["address"].as_str().expect("a text").parse().expect("an address");
        webhook
    }

    /// Where plain HTTP is spoken.
    pub(crate) fn plain(&self) -> SocketAddr {
        let serving = self.logged("serving");
        serving["metrics_address"].as_str().expect("a text").parse().expect("an address")
    }

    /// The first line with this message, once it is there.
    pub(crate) fn logged(&self, message: &str) -> Value {
        self.wait(message, |lines| lines.iter().find(|line| line["message"] == message).cloned())
    }

    /// All lines with this message so far.
    pub(crate) fn lines(&self, message: &str) -> Vec<Value> {
        let lines = self.log.lines.lock().expect("no test has failed inside");
        lines.0.iter().filter(|line| line["message"] == message).cloned().collect()
    }

    /// Waits for as many lines with this message.
    pub(crate) fn logged_times(&self, message: &str, times: usize) {
        self.wait(message, |lines| {
            (lines.iter().filter(|line| line["message"] == message).count() >= times).then_some(())
        });
    }

    /// What was logged of a review with this UID.
    pub(crate) fn outcome_of(&self, uid: &str) -> Value {
        self.wait(uid, |lines| lines.iter().find(|line| line["uid"] == uid).cloned())
    }

    fn wait<T>(&self, what: &str, found: impl Fn(&[Value]) -> Option<T>) -> T {
        let lines = self.log.lines.lock().expect("no test has failed inside");
        let missing = |log: &mut (Vec<Value>, bool)| !log.1 && found(&log.0).is_none();
        let waited = self.log.more.wait_timeout_while(lines, TIMEOUT, missing);
        let (log, _) = waited.expect("no test has failed inside");
        found(&log.0).unwrap_or_else(|| panic!("no {what:?} in {:#?}", log.0))
    }

    /// Exchanges the configuration.
    pub(crate) fn configure(&self, config: &str, values: &str) {
        configure(&self.folder, config, values);
    }

    /// Exchanges the certificate for a new one of the same authority.
    pub(crate) fn certify(&self) {
        certify(&self.folder, &self.authority);
    }

    /// Exchanges certificate and key for these texts.
    pub(crate) fn certify_by(&self, certificate: &str, key: &str) {
        mount(&self.folder.join("tls"), &[("tls.crt", certificate), ("tls.key", key)]);
    }

    /// A connection of a client that trusts the authority.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address, self.trust(rustls::DEFAULT_VERSIONS)).expect("a connection")
    }

    /// What a client has to know to speak these versions of TLS.
    pub(crate) fn trust(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.certificate()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        Arc::new(builder.expect("versions").with_root_certificates(roots).with_no_client_auth())
    }

    /// A GET on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.connect().send("GET", path, &[], b"").expect("an answer")
    }

    /// The number of a line of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
    }

    /// The most memory that it has had resident so far, in KiB (`VmHWM`).
    pub(crate) fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// What it has resident at present, in KiB.
    pub(crate) fn resident_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("proc(5) has it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().expect("a process"));
        kill(pid, signal).expect("it lives");
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.child.wait().expect("an end")
    }

    /// Whether new connections are refused.
    pub(crate) fn refuses(&self) -> bool {
        TcpStream::connect(self.address).is_err()
    }
}

fn certify(folder: &Path, authority: &Authority) {
    let (certificate, key) = authority.server();
    let texts = (pem("CERTIFICATE", &certificate), pem("PRIVATE KEY", key.secret_der()));
    mount(&folder.join("tls"), &[("tls.crt", &texts.0), ("tls.key", &texts.1)]);
}

fn configure(folder: &Path, config: &str, values: &str) {
    mount(&folder.join("config"), &[("config", config), ("values", values)]);
}
