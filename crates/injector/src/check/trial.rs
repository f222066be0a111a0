//! Trials: of Pod Security Standards of the injector's own namespace, which its pods meet or not, and of namespaces
//! whose pods it injects; and of an injection as a dry run, of a pod that is created with `dryRun=All` in a namespace
//! whose pods the webhooks select.
//!
//! That takes the way of every pod, with the API server's check of the certificate, and needs one right, which users of a namespace have
//! anyway. A review through the proxy of the Service would need `services/proxy`, and that proxy checks no certificate.

use super::before::ExistingObject;
use super::finding::{InstallationFinding, InstallationTopic};
use super::webhooks::{Configurations, ours};
use super::{CheckedInstallation, unknown};
use crate::api::NoAnswer;
use injection::decision::INJECT;
use injection::pipeline::STATUS;
use injection::webhook::{self, REVISION, Webhook};
use mesh::pod::{ENFORCE, Standard};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of the pod. It is never stored.
const NAME: &str = "sidecar-injector-check";

/// Creates a pod as a dry run, which this installation has to inject.
pub(super) async fn injected(
    checked: &CheckedInstallation,
    ours: &[&Value],
    namespaces: &Result<Vec<Value>, NoAnswer>,
) -> InstallationFinding {
    let topic = InstallationTopic::Injection;
    let webhooks: Vec<Webhook> = ours.iter().flat_map(|one| webhook::read(one)).collect();
    if webhooks.is_empty() {
        return topic.fail("no webhook calls this server", "apply the manifests again: webhooks");
    }
    let Some((namespace, labels)) =
        namespace_and_labels(checked, &webhooks, namespaces.as_deref().unwrap_or_default())
    else {
        return topic.warn(
            "no namespace is known whose pods the webhooks select, so no injection was tried",
            "label one as docs/injector.md describes, or repeat it as a user who may list namespaces",
        );
    };
    let pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": NAME, "namespace": namespace, "labels": labels },
        "spec": { "containers": [{ "name": "application", "image": "example/application:1" }] } });
    let created = checked.api.post(&format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), &pod).await;
    let subject = format!("a pod in namespace {namespace} (dry run)");
    let pod = match created {
        Ok(pod) => pod,
        Err(error) => return refused(&subject, &error),
    };
    let status = pod["metadata"]["annotations"][STATUS].as_str();
    let status = status.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let revision = status.as_ref().map(|status| status["revision"].as_str().unwrap_or_default());
    match revision {
        Some(revision) if revision == checked.target.revision() => {
            topic.ok(format!("{subject} was injected by revision {revision}"))
        }
        Some(revision) => topic.fail(
            format!(
                "{subject} was injected by revision {revision:?}; expected {:?}",
                checked.target.revision()
            ),
            "compare the values of the ConfigMap (revision), and the labels of the namespace",
        ),
        None => topic.fail(
            format!("{subject} was created without a proxy"),
            "see the log of the server, and the policy in the ConfigMap",
        ),
    }
}

/// A namespace, and labels for the pod, for which a webhook is called. A namespace that needs no labels on its pods is
/// preferred.
fn namespace_and_labels(
    checked: &CheckedInstallation,
    webhooks: &[Webhook],
    namespaces: &[Value],
) -> Option<(String, BTreeMap<String, String>)> {
    let asking = match checked.target.revision() {
        "default" => BTreeMap::from([(INJECT.to_owned(), "true".to_owned())]),
        revision => BTreeMap::from([(REVISION.to_owned(), revision.to_owned())]),
    };
    for of_pod in [BTreeMap::new(), asking] {
        let found = namespaces.iter().find(|namespace| {
            namespace["metadata"]["deletionTimestamp"].is_null()
                && webhooks.iter().any(|webhook| webhook.matches(&labels(namespace), &of_pod))
        });
        if let Some(name) = found.and_then(|namespace| namespace["metadata"]["name"].as_str()) {
            return Some((name.to_owned(), of_pod));
        }
    }
    None
}

fn refused(subject: &str, error: &NoAnswer) -> InstallationFinding {
    let topic = InstallationTopic::Injection;
    let text = &error.text;
    if text.contains("failed calling webhook") {
        return topic.fail(
            format!("{subject} was refused: {text}"),
            "no pod of the injector's namespaces can be created: see the findings above, and docs/injector.md, \
             \"When pods are not created\"",
        );
    }
    if text.contains("denied the request") {
        return topic.fail(format!("{subject} was refused: {text}"), "correct what the message names");
    }
    if text.contains("violates PodSecurity") {
        return topic.warn(
            format!("{subject} was injected, but refused: {text}"),
            "set the rules by the CNI plugin: pilot.cni.enabled: true in the values",
        );
    }
    topic.warn(
        format!("{subject} was refused, so no injection was tried: {text}"),
        "repeat it as a user who may create pods there",
    )
}

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
    let own = namespaces.iter().find(|one| one["metadata"]["name"] == *checked.target.namespace);
    let level = own.and_then(|own| own["metadata"]["labels"][ENFORCE].as_str());
    findings.push(match (own, level) {
        (None, _) => topic.ok(format!("namespace {} is created by the manifests", checked.target.namespace)),
        (Some(_), None) => topic.ok(format!("namespace {} enforces no standard", checked.target.namespace)),
        // What `manifests` prints meets `restricted`, the strictest one.
        (Some(_), Some(level @ ("privileged" | "baseline" | "restricted"))) => topic.ok(format!(
            "namespace {} enforces {level}, which the injector's pods meet",
            checked.target.namespace
        )),
        (Some(_), Some(other)) => topic.warn(
            format!(
                "namespace {} enforces {other:?}, which is not a level, so restricted applies",
                checked.target.namespace
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

/// True if the values of a ConfigMap leave the rules to the CNI plugin: by `pilot.cni`, or by the older `istio_cni`.
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
