//! The numbers that the operator counts, as Prometheus reads them.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Clones share the numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    writes: Family<[(&'static str, String); 3], Counter>,
    watch_errors: Family<[(&'static str, &'static str); 2], Counter>,
    pub(super) rounds: Counter,
    pub(super) leading: Gauge,
}

impl Metrics {
    /// Adds the metrics to what a scrape reads. Help texts get their full stop from the registry, counters their `_total`.
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("sidecar_environment");
        registry.register("writes", "Objects that were written", self.writes.clone());
        registry.register("watch_errors", "Disturbances of watches", self.watch_errors.clone());
        registry.register("rounds", "How often a namespace was looked at", self.rounds.clone());
        registry.register("leading", "Whether this one leads", self.leading.clone());
    }

    pub(super) fn wrote(&self, kind: &str, verb: &str, is_done: bool) {
        let outcome = if is_done { "done" } else { "failed" };
        let labels = [("kind", kind), ("verb", verb), ("outcome", outcome)];
        self.writes.get_or_create(&labels.map(|(name, value)| (name, value.to_owned()))).inc();
    }

    pub(super) fn watch_failed(&self, resource: &'static str, kind: &'static str) {
        self.watch_errors.get_or_create(&[("resource", resource), ("kind", kind)]).inc();
    }
}
