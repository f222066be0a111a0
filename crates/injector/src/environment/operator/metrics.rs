//! The numbers that the operator counts, as Prometheus reads them.

use cluster::status::registered;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Clones share the numbers.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    writes: Family<[(&'static str, String); 3], Counter>,
    watch_errors: Family<[(&'static str, &'static str); 2], Counter>,
    pub(super) rounds: Counter,
    pub(super) leading: Gauge,
}

impl Metrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("sidecar_environment");
        Self {
            writes: registered(registry, "writes", "Objects that were written"),
            watch_errors: registered(registry, "watch_errors", "Disturbances of watches"),
            rounds: registered(registry, "rounds", "How often a namespace was looked at"),
            leading: registered(registry, "leading", "Whether this one leads"),
        }
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
