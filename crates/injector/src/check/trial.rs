//! An injection as a dry run: a pod that is created with `dryRun=All`, in a namespace whose pods the webhooks select.
//!
//! It takes the way of every pod, with the API server's check of the certificate, and needs one right, which users of a namespace have
//! anyway. A review through the proxy of the Service would need `services/proxy`, and that proxy checks no certificate.

use super::{
    CheckedInstallation,
    finding::{InstallationFinding, InstallationTopic},
    security::labels,
};
use crate::api::NoAnswer;
use injection::{
    decision::INJECT,
    pipeline::STATUS,
    webhook::{self, REVISION, Webhook},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of the pod. It is never stored.
const NAME: &str = "sidecar-injector-check";

/// Creates a pod as a dry run, and says whether this installation injected it.
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
        Some(revision) if revision == checked.revision => {
            topic.ok(format!("{subject} was injected by revision {revision}"))
        }
        Some(revision) => topic.fail(
            format!("{subject} was injected by revision {revision:?}; expected {:?}", checked.revision),
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
    let asking = match checked.revision.as_str() {
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
