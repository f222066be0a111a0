//! The operator as a process, and a cluster with Istio's kinds in which a shop has environments.

use crate::PROGRAM;
use serde_json::{Value, json};
use std::{ops::Deref, path::Path, process::Command};
use testkit::cluster::Cluster;
use testkit::{http::get, running::Logged, until, word};

/// Cluster with Istio's kinds, and VirtualEnvironment from the definition that the program prints.
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
    cluster.put(&PROGRAM.run(&["environment", "crd", "--output", "json"]).with(0).json());
    cluster
}

/// The shop: a Service with workloads of two environments, and the VirtualEnvironment that routes between them.
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

/// Subsets of the shop's Service, and the number of its routes, if both exist.
pub(super) fn routed(cluster: &Cluster) -> Option<(Vec<String>, usize)> {
    let rule = cluster.find("destinationrules", "shop", "cart")?;
    let route = cluster.find("virtualservices", "shop", "cart")?;
    let subsets = rule["spec"]["subsets"].as_array()?;
    let names = subsets.iter().filter_map(|subset| subset["name"].as_str().map(str::to_owned));
    Some((names.collect(), route["spec"]["http"].as_array()?.len()))
}

pub(super) fn until_subsets(cluster: &Cluster, expected: &[&str]) {
    until("the routes are there", || {
        routed(cluster).is_some_and(|(subsets, routes)| subsets == expected && routes == expected.len())
    });
}

pub(super) fn writes(cluster: &Cluster) -> usize {
    let state = cluster.state();
    let is_write = |verb: &str| ["create", "update", "patch", "delete"].contains(&verb);
    state.requests.iter().filter(|(access, _)| is_write(access.verb) && access.resource != "leases").count()
}

/// Waits until the condition `Ready` of a VirtualEnvironment has this reason, and returns its message.
pub(super) fn until_told(cluster: &Cluster, name: &str, reason: &str) -> String {
    let ready = || {
        let one = cluster.find("virtualenvironments", "shop", name).unwrap_or_default();
        one["status"]["conditions"][1].clone()
    };
    until("the reason is reported", || ready()["reason"] == reason);
    ready()["message"].as_str().unwrap_or_default().to_owned()
}

pub(super) struct Operator(Logged);

impl Deref for Operator {
    type Target = Logged;

    fn deref(&self) -> &Logged {
        &self.0
    }
}

impl Operator {
    pub(super) fn start(cluster: &Cluster, more: &[&str]) -> Self {
        Self::start_as(&cluster.kubeconfig(), more)
    }

    pub(super) fn start_as(kubeconfig: &Path, more: &[&str]) -> Self {
        let unless = |flag: &str, default: &'static str| (!more.contains(&flag)).then_some(default);
        let operator = Logged::start(
            Command::new(PROGRAM.path)
                .args(["environment", "operator", "--kubeconfig", word(kubeconfig)])
                .args(unless("--debounce", "--debounce=100ms"))
                .args(["--lease-duration", "2s", "--call-timeout", "2s"])
                .args(["--status-address", "127.0.0.1:0", "--log_as_json"])
                .args(more)
                .args(unless("--metrics-address", "--metrics-address=127.0.0.1:0")),
        );
        operator.until_line("operating");
        Self(operator)
    }

    pub(super) fn metrics(&self) -> String {
        self.until_line("operating")["metrics"].as_str().expect("an address").to_owned()
    }

    pub(super) fn status_address(&self) -> String {
        self.until_line("operating")["status"].as_str().expect("an address").to_owned()
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        let text = get(self.metrics(), "/metrics").1;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    pub(super) fn leads(&self) -> bool {
        self.number("sidecar_environment_leading") == 1
    }

    /// Terminates the operator, and waits; true for exit code 0.
    pub(super) fn terminate(self) -> bool {
        self.0.stop() == Some(0)
    }
}
