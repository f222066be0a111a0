//! What Istio's agent does for the application: it answers probes and Prometheus in its place.
//!
//! All of it is read from the merged pod: a template may set the annotations that ask for it, or that turn it off.

use super::pod::CheckedPod;
use super::{metrics, probes};
use crate::mesh_config::{IstioValues, MeshConfig};
use crate::sidecar::PROXY;
use mesh::Problems;
use mesh::istio::annotations as known;
use mesh::sources::boolean;

/// Sends Prometheus and probes to the agent, where the configuration or the merged pod asks for it. Returns warnings.
pub(super) fn serve(
    pod: &mut CheckedPod,
    values: &IstioValues,
    mesh: &MeshConfig,
) -> Result<Vec<String>, Problems> {
    if pod.container(PROXY).is_none() {
        return Ok(Vec::new());
    }
    metrics::annotate_secure_port(pod);
    let Some(port) = port(pod, mesh.status_port) else { return Ok(Vec::new()) };
    let asks = |pod: &CheckedPod, name: &str| pod.annotation(name).and_then(boolean);
    let mut warnings = Vec::new();
    if asks(pod, known::MERGE_METRICS).unwrap_or(mesh.merges_metrics) {
        warnings.extend(metrics::merge(pod, port)?);
    }
    if asks(pod, known::REWRITE_PROBES).unwrap_or(values.rewrite_probes) {
        warnings.extend(probes::rewrite(pod, port));
    }
    Ok(warnings)
}

/// Where the agent answers; `None` where an annotation turns it off. An invalid port can only come from a template, and has no
/// effect.
fn port(pod: &CheckedPod, of_mesh: u16) -> Option<u16> {
    let annotated = pod.annotation(known::STATUS_PORT);
    let port = annotated.and_then(|text| text.trim().parse().ok()).unwrap_or(of_mesh);
    Some(port).filter(|port| *port != 0)
}
