//! The numbers that the program counts, as Prometheus reads them.

use cluster::status::registered;
use diagnose::overview::{NamespaceRow, Overview};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use std::{sync::atomic::AtomicU64, time::Duration};

/// Labels, by name.
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
        let recovered = "Broken pods whose validation has passed since, or that are gone";
        Self {
            repairs: registered(registry, "repairs", "Broken pods that something was done for"),
            seconds: registered(registry, "repair_seconds", "How long that took"),
            recovered: registered(registry, "recovered", recovered),
            broken: registered(registry, "broken_pods", "Pods whose traffic is not captured"),
            pods: registered(registry, "pods", "Pods by the state of their capture and their mesh"),
            looks: registered(registry, "looks", "How often all network namespaces of the node were read"),
            look_seconds: registered(registry, "look_seconds", "How long that took"),
            lists: registered(registry, "lists", "How often all pods were listed"),
            watch_errors: registered(registry, "watch_errors", "Disturbances of the watch"),
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

    /// Counts pods as they are now, each for itself where `per_pod`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn metrics_have_the_names_that_dashboards_read() {
        let mut registry = Registry::default();
        let metrics = NodeMetrics::new(&mut registry);
        metrics.handled("repair", "done", Duration::from_millis(1_500));
        metrics.handled("repair", "done", Duration::from_millis(500));
        metrics.watch_failed("gone");
        metrics.broken.set(3);
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes whatever is written to it");
        for line in [
            "# HELP sidecar_node_repairs Broken pods that something was done for.",
            "# TYPE sidecar_node_repairs counter",
            "sidecar_node_repairs_total{action=\"repair\",outcome=\"done\"} 2",
            "sidecar_node_repair_seconds_total 2.0",
            "# TYPE sidecar_node_broken_pods gauge",
            "sidecar_node_broken_pods 3",
            "sidecar_node_lists_total 0",
            "sidecar_node_recovered_total 0",
            "sidecar_node_watch_errors_total{kind=\"gone\"} 1",
        ] {
            assert!(text.lines().any(|there| there == line), "no {line} in\n{text}");
        }
    }
}
