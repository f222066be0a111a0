//! The Helm chart: Helm renders it as the engine of `sidecar-injector manifests` does; it refuses wrong values; its pods keep the
//! Pod Security Standards that docker/README.md states. And Prometheus understands the alerts and the dashboard.
//!
//! The programs are compiled or fetched on first use, by `scripts/tool` and `scripts/promtool`; what needs them is ignored
//! unless everything is tested. `scripts/chart` runs these tests alone.

mod difference;
mod documents;
mod manifests;
mod monitoring;
mod refused;
mod rendered;
mod standards;
mod values;
