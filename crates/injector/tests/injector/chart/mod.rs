//! The Helm chart: Helm renders it like `sidecar-injector manifests`; it refuses wrong values; its pods comply with the Pod
//! Security Standards in docker/README.md. Prometheus accepts the alerts and the dashboard.
//!
//! The programs are compiled or fetched on first use, by `scripts/tool` and `scripts/promtool`; tests that need them are
//! ignored by default. `scripts/chart` runs only these tests.

mod difference;
mod documents;
mod manifests;
mod monitoring;
mod refused;
mod rendered;
mod standards;
mod values;
