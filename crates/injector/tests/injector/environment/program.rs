//! The operator as a process, and a cluster with Istio's kinds in which a shop has environments.

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};
use testkit::cluster::Cluster;
use testkit::{running::Running, until, word};

/// A cluster that has the kinds of Istio, and ours by the definition that the program prints.
pub(super) fn cluster() -> Cluster {
    let cluster = Cluster::start();
    let version = |name: &str| json!({ "name": name, "served": true });
    for (plural, kind, versions) in [
        ("virtualservices", "VirtualService", &["v1", "v1beta1", "v1alpha3"][..]),
        ("destinationrules", "DestinationRule", &["v1", "v1beta1", "v1alpha3"]),
        ("envoyfilters", "EnvoyFilter", &["v1alpha3"]),
    ] {
        cluster.put(&json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.networking.istio.io") },
            "spec": { "group": "networking.istio.io", "names": { "plural": plural, "kind": kind }, "scope": "Namespaced",
                "versions": versions.iter().map(|name| version(name)).collect::<Vec<_>>() } }));
    }
    let printed = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
        .args(["environment", "crd", "--format", "json"])
        .output()
        .expect("it starts");
    cluster.put(&serde_json::from_slice(&printed.stdout).expect("JSON"));
    cluster
}

/// The shop: a Service with workloads of two environments, and who routes between them.
pub(super) fn shop(cluster: &Cluster) {
    cluster.put(
        &json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "cart", "namespace": "shop" },
        "spec": { "selector": { "app": "cart" }, "ports": [{ "name": "http", "port": 80 }] } }),
    );
    workload(cluster, "Deployment", "base");
    workload(cluster, "StatefulSet", "base.red");
    environment(cluster, "demo", &json!({ "envLabel": { "defaultSubset": "base" } }));
}

pub(super) fn workload(cluster: &Cluster, kind: &str, value: &str) {
    cluster.put(&json!({ "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "name": format!("cart-{value}"), "namespace": "shop" },
        "spec": { "template": { "metadata": { "labels": { "app": "cart", "virtual-env": value } } } } }));
}

pub(super) fn environment(cluster: &Cluster, name: &str, spec: &Value) -> Value {
    cluster.put(&json!({ "apiVersion": "env.alibaba.com/v1alpha2", "kind": "VirtualEnvironment",
        "metadata": { "name": name, "namespace": "shop" }, "spec": spec }))
}

/// The subsets of the shop's Service, and how many routes it has; `None` where it has none of both.
pub(super) fn routed(cluster: &Cluster) -> Option<(Vec<String>, usize)> {
    let rule = cluster.find("destinationrules", "shop", "cart")?;
    let route = cluster.find("virtualservices", "shop", "cart")?;
    let subsets = rule["spec"]["subsets"].as_array()?;
    let names = subsets.iter().filter_map(|subset| subset["name"].as_str().map(str::to_owned));
    Some((names.collect(), route["spec"]["http"].as_array()?.len()))
}

/// Waits until the shop's Service has these subsets.
pub(super) fn until_subsets(cluster: &Cluster, expected: &[&str]) {
    until("the routes are there", || {
        routed(cluster).is_some_and(|(subsets, routes)| subsets == expected && routes == expected.len())
    });
}

/// How many writes there were of objects that are ours.
pub(super) fn writes(cluster: &Cluster) -> usize {
    let state = cluster.state();
    let is_write = |verb: &str| ["create", "update", "patch", "delete"].contains(&verb);
    state.requests.iter().filter(|(access, _)| is_write(access.verb) && access.resource != "leases").count()
}

/// An operator that runs. It is killed with the test.
pub(super) struct Operator {
    child: Running,
    log: Arc<Mutex<Vec<Value>>>,
}

impl Operator {
    pub(super) fn start(cluster: &Cluster, more: &[&str]) -> Self {
        Self::start_as(&cluster.kubeconfig(), more)
    }

    /// The same by another kubeconfig.
    pub(super) fn start_as(kubeconfig: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
            .args(["environment", "operator", "--kubeconfig", word(kubeconfig)])
            .args(more.iter().all(|word| *word != "--debounce").then_some("--debounce=100ms"))
            .args(["--lease-duration", "2s", "--call-timeout", "2s"])
            .args(["--status-address", "127.0.0.1:0", "--log_as_json"])
            .args(more)
            .args(
                more.iter()
                    .all(|word| *word != "--metrics-address")
                    .then_some("--metrics-address=127.0.0.1:0"),
            )
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe"));
        let log: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = Arc::clone(&log);
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "plain": line }));
                seen.lock().expect("no test has failed inside").push(line);
            }
        });
        let operator = Self { child: Running(child), log };
        until("it operates", || operator.line("operating").is_some());
        operator
    }

    /// The last line with this message.
    pub(super) fn line(&self, message: &str) -> Option<Value> {
        let log = self.log.lock().expect("no test has failed inside");
        log.iter().rev().find(|line| line["message"] == message).cloned()
    }

    /// How many lines there are with this message.
    pub(super) fn lines(&self, message: &str) -> usize {
        let log = self.log.lock().expect("no test has failed inside");
        log.iter().filter(|line| line["message"] == message).count()
    }

    /// All lines, for a test that has failed.
    pub(super) fn log(&self) -> String {
        let log = self.log.lock().expect("no test has failed inside");
        log.iter().map(|line| format!("{line}\n")).collect()
    }

    pub(super) fn status_address(&self) -> String {
        self.line("operating").expect("it operates")["status"].as_str().expect("an address").to_owned()
    }

    /// A number that it tells, by the line's beginning.
    pub(super) fn number(&self, name: &str) -> u64 {
        let line = self.line("operating").expect("it operates");
        let text = get(line["metrics"].as_str().expect("an address"), "/metrics").1;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    pub(super) fn leads(&self) -> bool {
        self.number("sidecar_environment_leading") == 1
    }

    /// As `kill -9` does it.
    pub(super) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn terminate(mut self) -> bool {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill starts").success());
        self.child.wait().expect("it ends").success()
    }
}

/// The status and the body that an address answers with.
pub(super) fn get(address: &str, path: &str) -> (u16, String) {
    let address: SocketAddr = address.parse().expect("an address");
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
    (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status"), body.to_owned())
}
