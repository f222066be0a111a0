//! Trials: Pod Security Standards in namespaces with injection, and injection into a pod that is created with `dryRun=All`
//! in a selected namespace.
//!
//! A dry-run pod is treated like any other, including the API server's certificate check, and needs one permission, typical for a
//! namespace's users. A review through the Service's proxy would need `services/proxy`, and that proxy checks no certificate.

use super::finding::{InstallationFinding, InstallationTopic};
use super::{CheckedInstallation, before::ExistingObject, rights::name};
use cluster::error::describe;
use injection::configuration::{Configuration, ConfigurationText, Texts};
use injection::webhook::{Webhook, overlap};
use injection::{admission::texts, explain::BY_PLUGIN, pipeline::STATUS};
use mesh::pod::{ENFORCE, Standard};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Name of the pod, which is never stored.
const NAME: &str = "sidecar-injector-check";

/// Creates a pod in a dry run; this installation must inject it.
pub(super) async fn injected(
    checked: &CheckedInstallation,
    webhooks: &[Webhook],
    namespaces: &kube::Result<Vec<Value>>,
) -> InstallationFinding {
    let topic = InstallationTopic::Injection;
    if webhooks.is_empty() {
        return topic.fail("no webhook calls this server", "apply the webhook configurations again");
    }
    let Some((namespace, labels)) = namespace_and_labels(webhooks, namespaces.as_deref().unwrap_or_default())
    else {
        return topic.warn(
            "no known namespace has pods that the webhooks select, so no injection was tried",
            "label a namespace as described in docs/injector.md, or run this again as a user who may list namespaces",
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
            "compare the ConfigMap's revision value with the namespace's labels",
        ),
        None => topic.fail(
            format!("{subject} was created without a proxy"),
            "see the server's log, and the policy in the ConfigMap",
        ),
    }
}

/// Namespace and pod labels for which a webhook is called. A namespace that needs no labels on its pods is preferred.
fn namespace_and_labels(
    webhooks: &[Webhook],
    namespaces: &[Value],
) -> Option<(String, BTreeMap<String, String>)> {
    let smallest = |webhook| Some((webhook, overlap(webhook, webhook)?.pod));
    let mut asked: Vec<(&Webhook, BTreeMap<String, String>)> = webhooks.iter().filter_map(smallest).collect();
    asked.sort_by_key(|(_, labels)| labels.len());
    asked.into_iter().find_map(|(webhook, labels)| {
        let is_selected = |namespace: &&Value| {
            namespace["metadata"]["deletionTimestamp"].is_null()
                && webhook.matches(&texts(namespace, "labels"), &labels)
        };
        let namespace = namespaces.iter().find(is_selected)?;
        Some((name(namespace).to_owned(), labels))
    })
}

fn refused(subject: &str, error: &kube::Error) -> InstallationFinding {
    let topic = InstallationTopic::Injection;
    let text = describe(error);
    let has = |part: &str| text.contains(part);
    if has("violates PodSecurity") {
        return topic.warn(format!("{subject} was injected, but refused: {text}"), BY_PLUGIN);
    }
    let remedy = if has("failed calling webhook") {
        "no pod can be created in namespaces with injection: see the findings above, and docs/injector.md, \
         \"When pods are not created\""
    } else if has("denied the request") {
        "fix the cause in the message"
    } else {
        let text = format!("{subject} was refused, so no injection was tried: {text}");
        return topic.warn(text, "run this again as a user who may create pods there");
    };
    topic.fail(format!("{subject} was refused: {text}"), remedy)
}

pub(super) fn findings(
    existing: &[ExistingObject],
    webhooks: &[Webhook],
    namespaces: &kube::Result<Vec<Value>>,
) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Security;
    let namespaces = match namespaces {
        Ok(namespaces) => namespaces,
        Err(error) => return vec![topic.unknown("namespaces can't be listed", error)],
    };
    let has_cni = existing.iter().any(|found| {
        matches!(&found.answer, Ok(Some(map)) if map["kind"] == "ConfigMap" && sets_cni(&map["data"]["values"]))
    });
    let mut findings = Vec::new();
    for namespace in namespaces {
        let labels = texts(namespace, "labels");
        let Some(standard) = Standard::enforced(labels.get(ENFORCE).map(String::as_str)) else { continue };
        if !has_cni && webhooks.iter().any(|webhook| webhook.matches(&labels, &BTreeMap::new())) {
            let name = name(namespace);
            let text =
                format!("namespace {name} enforces {standard}, which forbids the init container istio-init");
            findings.push(topic.warn(text, BY_PLUGIN));
        }
    }
    if findings.is_empty() {
        findings.push(topic.ok("no namespace with injection forbids the init container istio-init"));
    }
    findings
}

fn sets_cni(values: &Value) -> bool {
    let text = ConfigurationText::new("values", values.as_str().unwrap_or_default());
    Configuration::read_in_part(&Texts { values: Some(text), ..Texts::default() }).0.values.has_plugin
}
