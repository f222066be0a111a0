//! Prometheus metrics of the program.

use cluster::status::registered;
use diagnose::overview::{NamespaceRow, Overview};
use prometheus_client::registry::Registry;
use prometheus_client::{metrics::counter::Counter, metrics::family::Family, metrics::gauge::Gauge};
use std::{sync::atomic::AtomicU64, time::Duration};

type NodeMetricLabels<const N: usize> = [(&'static str, &'static str); N];

#[derive(Debug)]
pub(crate) struct NodeMetrics {
    repairs: Family<NodeMetricLabels<2>, Counter>,
    seconds: Counter<f64, AtomicU64>,
    watch_errors: Family<NodeMetricLabels<1>, Counter>,
    pub(crate) recovered: Counter,
    pub(crate) lists: Counter,
    pub(crate) broken: Gauge,
    pub(crate) pods: Family<Vec<(&'static str, String)>, Gauge>,
    looks: Family<NodeMetricLabels<1>, Counter>,
    look_seconds: Counter<f64, AtomicU64>,
}

impl NodeMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("sidecar_node");
        Self {
            repairs: registered(registry, "repairs", "Actions on broken pods, by outcome"),
            seconds: registered(registry, "repair_seconds", "Duration of actions"),
            recovered: registered(registry, "recovered", "Broken pods that have recovered"),
            broken: registered(registry, "broken_pods", "Pods whose traffic is not captured"),
            pods: registered(registry, "pods", "Pods by capture state and mesh"),
            looks: registered(registry, "looks", "Readings of all the node's network namespaces"),
            look_seconds: registered(registry, "look_seconds", "Duration of readings"),
            lists: registered(registry, "lists", "Lists of all pods"),
            watch_errors: registered(registry, "watch_errors", "Interruptions of the watch"),
        }
    }

    pub(crate) fn handled(&self, action: &'static str, outcome: &'static str, took: Duration) {
        self.repairs.get_or_create(&[("action", action), ("outcome", outcome)]).inc();
        self.seconds.inc_by(took.as_secs_f64());
    }

    pub(crate) fn looked(&self, took: Duration, succeeded: bool) {
        let outcome = if succeeded { "done" } else { "failed" };
        self.looks.get_or_create(&[("outcome", outcome)]).inc();
        self.look_seconds.inc_by(took.as_secs_f64());
    }

    /// Counts the node's pods by state; with `per_pod`, in one series each.
    pub(crate) fn count(&self, overview: &Overview, per_pod: bool) {
        self.pods.clear();
        for row in overview.namespaces.iter().filter(|row| row.is_sandbox) {
            let NamespaceRow { state, pod, .. } = row;
            let mut labels = vec![("state", state.name().to_owned()), ("mesh", row.mesh())];
            if per_pod {
                let pod = pod.as_ref();
                let namespace = pod.map(|pod| pod.namespace.clone()).unwrap_or_default();
                let name = pod.map_or_else(|| row.name.clone(), |pod| pod.name.clone());
                labels.extend([("namespace", namespace), ("pod", name)]);
            }
            self.pods.get_or_create(&labels).inc();
        }
    }

    pub(crate) fn watch_failed(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&[("kind", kind)]).inc();
    }
}
