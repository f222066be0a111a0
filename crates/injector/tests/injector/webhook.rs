//! The webhook's server as a process, with files mounted as by Kubernetes.

use data_encoding::BASE64;
use rustls::{ClientConfig, SupportedProtocolVersion};
use serde_json::Value;
use std::{
    fs, iter,
    net::{SocketAddr, TcpStream},
    ops::{Deref, DerefMut},
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use testkit::certificates::{Authority, pem};
use testkit::http::{Client, Response, trusting};
use testkit::{folder::Folder, running::Logged, wait::TIMEOUT};

pub(crate) const CONFIG: &str = "policy: enabled\n";

/// Writes files like a mounted ConfigMap or Secret: all are replaced at once.
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

pub(crate) struct Webhook {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Arc<Authority>,
    folder: Folder,
    program: Logged,
}

impl Deref for Webhook {
    type Target = Logged;

    fn deref(&self) -> &Logged {
        &self.program
    }
}

impl DerefMut for Webhook {
    fn deref_mut(&mut self) -> &mut Logged {
        &mut self.program
    }
}

impl Webhook {
    pub(crate) fn start(config: &str, values: &str, flags: &[&str]) -> Self {
        // Tests may run in an empty network namespace, where loopback is down.
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).output();
        assert!(up.expect("ip starts").status.success(), "loopback can't be set up");
        let folder = Folder::new("webhook");
        let authority = Arc::new(Authority::new("webhook"));
        certify(&folder, &authority);
        configure(&folder, config, values);
        let program = Logged::start(
            Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
                .args(["serve", "--address", "127.0.0.1:0", "--log_as_json", "--config-dir"])
                .arg(folder.join("config"))
                .arg("--tls-cert")
                .arg(folder.join("tls/tls.crt"))
                .arg("--tls-key")
                .arg(folder.join("tls/tls.key"))
                // On a busy machine, a test's client is slow too.
                .args((!flags.contains(&"--timeout")).then_some("--timeout=100"))
                .args(flags),
        );
        let address = address(&program, "address");
        Self { address, authority, folder, program }
    }

    pub(crate) fn plain(&self) -> SocketAddr {
        address(&self.program, "metrics_address")
    }

    pub(crate) fn outcome_of(&self, uid: &str) -> Value {
        let read = |line: &String| serde_json::from_str(line).ok().filter(|line: &Value| line["uid"] == uid);
        self.until_logged(uid, |lines| lines.iter().find_map(read))
    }

    pub(crate) fn configure(&self, config: &str, values: &str) {
        configure(&self.folder, config, values);
    }

    pub(crate) fn certify(&self) {
        certify(&self.folder, &self.authority);
    }

    pub(crate) fn certify_by(&self, certificate: &str, key: &str) {
        mount(&self.folder.join("tls"), &[("tls.crt", certificate), ("tls.key", key)]);
    }

    pub(crate) fn connect(&self) -> Client {
        self.connect_by(rustls::DEFAULT_VERSIONS)
    }

    pub(crate) fn connect_by(&self, versions: &[&'static SupportedProtocolVersion]) -> Client {
        let name = self.address.ip().into();
        Client::connect(self.address, name, self.trust(versions), TIMEOUT).expect("a connection")
    }

    pub(crate) fn trust(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        trusting(iter::once(self.authority.certificate()), versions)
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.connect().send("GET", path, &[], b"").expect("an answer")
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
    }

    /// Peak of resident memory so far, in KiB (`VmHWM`).
    pub(crate) fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// Current resident memory, in KiB.
    pub(crate) fn resident_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("proc(5) has it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    pub(crate) fn refuses(&self) -> bool {
        TcpStream::connect(self.address).is_err()
    }
}

pub(crate) fn address(server: &Logged, which: &str) -> SocketAddr {
    let serving = server.until_line("serving");
    serving[which].as_str().expect("a text").parse().expect("an address")
}

pub(crate) fn patched(answer: &Value, pod: &Value) -> Value {
    let patch = answer["response"]["patch"].as_str().unwrap_or_else(|| panic!("no patch: {answer}"));
    let patch = BASE64.decode(patch.as_bytes()).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("RFC 6902");
    let mut after = pod.clone();
    json_patch::patch(&mut after, &patch).expect("a patch of the pod");
    after
}

fn certify(folder: &Path, authority: &Authority) {
    let (certificate, key) = authority.server();
    let texts = (pem("CERTIFICATE", &certificate), pem("PRIVATE KEY", key.secret_der()));
    mount(&folder.join("tls"), &[("tls.crt", &texts.0), ("tls.key", &texts.1)]);
}

fn configure(folder: &Path, config: &str, values: &str) {
    mount(&folder.join("config"), &[("config", config), ("values", values)]);
}
