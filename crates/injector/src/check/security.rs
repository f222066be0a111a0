//! Pod Security Standards: of the injector's own namespace, which its pods meet or not, and of namespaces whose pods it injects.

use super::{
    CheckedInstallation,
    before::ExistingObject,
    finding::{InstallationFinding, InstallationTopic},
    unknown,
    webhooks::{Configurations, ours},
};
use crate::api::NoAnswer;
use injection::webhook;
use mesh::pod::{ENFORCE, Standard};
use serde_json::Value;
use std::collections::BTreeMap;

/// The labels of an object.
pub(super) fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

pub(super) fn findings(
    checked: &CheckedInstallation,
    existing: &[ExistingObject],
    configurations: &Configurations,
    namespaces: &Result<Vec<Value>, NoAnswer>,
) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Security;
    let namespaces = match namespaces {
        Ok(namespaces) => namespaces,
        Err(error) => return vec![unknown(topic, "namespaces can't be listed", error)],
    };
    let mut findings = Vec::new();
    let own = namespaces.iter().find(|one| one["metadata"]["name"] == *checked.namespace);
    let level = own.and_then(|own| own["metadata"]["labels"][ENFORCE].as_str());
    findings.push(match (own, level) {
        (None, _) => topic.ok(format!("namespace {} is created by the manifests", checked.namespace)),
        (Some(_), None) => topic.ok(format!("namespace {} enforces no standard", checked.namespace)),
        // What `manifests` prints meets `restricted`, the strictest one.
        (Some(_), Some(level @ ("privileged" | "baseline" | "restricted"))) => topic
            .ok(format!("namespace {} enforces {level}, which the injector's pods meet", checked.namespace)),
        (Some(_), Some(other)) => topic.warn(
            format!(
                "namespace {} enforces {other:?}, which is not a level, so restricted applies",
                checked.namespace
            ),
            "set the label to privileged, baseline or restricted",
        ),
    });
    let webhooks: Vec<webhook::Webhook> =
        ours(checked, configurations).into_iter().flat_map(webhook::read).collect();
    let has_cni = existing
        .iter()
        .any(|found| matches!(&found.answer, Ok(Some(map)) if map["kind"] == "ConfigMap" && sets_cni(map)));
    let none = BTreeMap::new();
    for namespace in namespaces {
        let Some(standard) = Standard::enforced(namespace["metadata"]["labels"][ENFORCE].as_str()) else {
            continue;
        };
        let is_injected = webhooks.iter().any(|webhook| webhook.matches(&labels(namespace), &none));
        if is_injected && !has_cni {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
            findings.push(topic.warn(
                format!("namespace {name} enforces {standard}, which forbids the init container istio-init"),
                "set the rules by the CNI plugin: pilot.cni.enabled: true in the values",
            ));
        }
    }
    findings
}

/// Whether the values of a ConfigMap leave the rules to the CNI plugin: by `pilot.cni`, or by the older `istio_cni`.
fn sets_cni(map: &Value) -> bool {
    let text = map["data"]["values"].as_str().unwrap_or_default();
    let documents = mesh::pod::values("values", text).unwrap_or_default();
    documents
        .iter()
        .any(|values| values["pilot"]["cni"]["enabled"] == true || values["istio_cni"]["enabled"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_older_value_for_the_plugin_counts_too() {
        for (values, expected) in [
            ("pilot: {cni: {enabled: true}}", true),
            ("istio_cni: {enabled: true}", true),
            ("istio_cni: {enabled: false}", false),
            ("global: {}", false),
            ("a: [", false),
        ] {
            assert_eq!(sets_cni(&json!({"data": {"values": values}})), expected, "{values}");
        }
        assert!(!sets_cni(&json!({})));
    }
}
