//! What all checks are about, and what they report where the API server does not answer.

use super::api::{CheckedCluster, NoAnswer};
use super::finding::{InstallationFinding, InstallationTopic};
use injection::manifests::Installation;
use serde_json::Value;

/// What is checked: the objects of the installation, and what the cluster says of its webhooks.
pub(super) struct CheckedInstallation {
    pub(super) cluster: CheckedCluster,
    pub(super) target: Installation,
    /// As `manifests` prints them.
    pub(super) objects: Vec<Value>,
    pub(super) namespace: String,
    pub(super) revision: String,
}

/// A finding about a question that has no answer.
pub(super) fn unknown(topic: InstallationTopic, what: &str, error: &NoAnswer) -> InstallationFinding {
    let remedy = match error.status {
        Some(401 | 403) => "repeat it as a user with this right",
        _ => "repeat it when the API server answers",
    };
    topic.warn(format!("{what}: {}", error.text), remedy)
}
