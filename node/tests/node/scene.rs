//! What a test needs: the API server, a folder, the program, and pods.

use super::server::Server;
use serde_json::{Value, json};
use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{self, Child, Command, ExitStatus},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

pub(crate) const NODE: &str = "node-1";
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) folder: PathBuf,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(false)
    }

    pub(crate) fn with(asks_for_certificates: bool) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Tests run in an empty namespace of their own, where loopback is down.
        command("ip", &["link", "set", "lo", "up"]);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("sidecar-node-{}-{number}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let server = Server::start(asks_for_certificates);
        fs::write(folder.join("ca.crt"), &server.authority.pem).expect("written");
        Self { server, folder }
    }

    /// A kubeconfig for this server with these credentials.
    pub(crate) fn kubeconfig(&self, user: &Value) -> PathBuf {
        let path = self.folder.join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "clusters": [{ "name": "c", "cluster": {
                "server": format!("https://{}", self.server.address),
                "certificate-authority": self.folder.join("ca.crt") } }],
            "users": [{ "name": "u", "user": user }],
        });
        fs::write(&path, config.to_string()).expect("written");
        path
    }

    /// Starts `sidecar-node repair` with these flags besides.
    pub(crate) fn start(&self, flags: &[&str]) -> Program {
        let kubeconfig = self.folder.join("kubeconfig");
        if !kubeconfig.exists() {
            self.kubeconfig(&json!({}));
        }
        let log = self.folder.join("log");
        let stderr = File::options().create(true).append(true).open(&log).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_sidecar-node"))
            .args(["repair", "--node", NODE, "--log-level", "debug", "--kubeconfig"])
            .arg(&kubeconfig)
            .args(flags)
            .env_remove("NODE_NAME")
            .stderr(stderr)
            .spawn()
            .expect("the program starts");
        Program { child, log }
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, flags: &[&str]) -> (Option<i32>, String) {
        let mut program = self.start(flags);
        let status = program.wait();
        (status.code(), program.log())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Leaving it behind hurts nobody.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the program ends", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// Ends it as the kubelet does.
    pub(crate) fn stop(mut self) -> Option<i32> {
        command("kill", &["-TERM", &self.child.id().to_string()]);
        self.wait().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "still not after {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program is installed");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A pod as the injector leaves it where a plugin sets the rules, and as its kubelet describes it while it starts.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": uid(name), "labels": { "app": name },
            "annotations": {
                "sidecar.istio.io/status": "{\"initContainers\":[\"istio-validation\"],\"containers\":[\"istio-proxy\"]}",
                "traffic.sidecar.istio.io/excludeInboundPorts": "9999",
            },
        },
        "spec": {
            "nodeName": NODE,
            "initContainers": [{ "name": "istio-validation", "image": "proxyv2",
                "args": ["istio-iptables", "-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*",
                    "-x", "", "-b", "*", "-d", "15090,15021,15020", "--run-validation", "--skip-rule-apply"] }],
            "containers": [
                { "name": "istio-proxy", "image": "proxyv2", "args": ["proxy", "sidecar"],
                  "securityContext": { "runAsUser": 1337, "runAsGroup": 1337 } },
                { "name": "app", "image": "app" },
            ],
        },
        "status": { "phase": "Pending" },
    })
}

/// The same after its validation has failed so often.
pub(crate) fn broken(name: &str, failures: u32) -> Value {
    let mut pod = pod(name);
    let ended = json!({ "terminated": { "exitCode": 126, "reason": "Error", "containerID": format!("c://{failures}") } });
    pod["status"]["initContainerStatuses"] = json!([{
        "name": "istio-validation", "image": "proxyv2", "imageID": "", "ready": false, "restartCount": failures,
        "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "lastState": ended,
    }]);
    pod
}

/// The same after its validation has passed.
pub(crate) fn healthy(name: &str) -> Value {
    let mut pod = broken(name, 1);
    pod["status"]["phase"] = "Running".into();
    pod["status"]["initContainerStatuses"][0]["state"] =
        json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
    pod
}

pub(crate) fn uid(name: &str) -> String {
    format!("7c3e4f2a-0000-4d1c-9a55-{:0>12}", name.replace(|c: char| !c.is_ascii_hexdigit(), "0"))
}
