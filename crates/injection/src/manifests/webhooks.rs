//! The configurations of webhooks: Istio's, once for the revision and once for each of its tags, and that of the environment's
//! tag.

use super::{Component, Installation, of_cluster};
use crate::decision::{LabelSelector, Operator};
use crate::webhook::{REVISION, webhooks};
use serde_json::{Value, json};

/// The configuration of the environment's tag. The API server calls configurations in the order of their names
/// (`k8s.io/apiserver`, `mutating_webhook_manager.go`), and this one looks at what the others have injected: `istio-..`, and
/// `sidecar-injector-..`, whatever follows, because a full stop comes after a hyphen.
pub const ENVIRONMENT_TAG: &str = "sidecar-injector.environment-tag";

/// How long the API server waits for an answer, in seconds.
const TIMEOUT: u32 = 10;

pub(super) fn names(target: &Installation) -> Vec<String> {
    let (of_revision, of_tag) = match target.istio_names {
        true => ("istio-sidecar-injector", "istio-revision-tag"),
        false => ("sidecar-injector", "sidecar-injector-revision-tag"),
    };
    let mut names = vec![target.with_revision(of_revision)];
    names.extend(target.tags.iter().map(|tag| format!("{of_tag}-{tag}")));
    if !target.environment_labels.is_empty() {
        names.push(target.with_revision(ENVIRONMENT_TAG));
    }
    names
}

pub(super) fn objects(target: &Installation) -> Vec<Value> {
    let names = names(target);
    let revisions = std::iter::once(&target.revision).chain(&target.tags);
    let mut objects: Vec<Value> =
        names.iter().zip(revisions).map(|(name, revision)| injecting(target, name, revision)).collect();
    if !target.environment_labels.is_empty() {
        objects.push(tagging(target, &target.with_revision(ENVIRONMENT_TAG)));
    }
    objects
}

/// The configuration for those who ask for a revision by this name.
fn injecting(target: &Installation, name: &str, revision: &str) -> Value {
    let all = webhooks(revision, target.auto);
    let all = all.iter().map(|webhook| {
        let mut made = webhook_of(target, &format!("{}.sidecar-injector.istio.io", webhook.name), "/inject");
        made["reinvocationPolicy"] = "Never".into();
        made["namespaceSelector"] = selector(&webhook.namespace);
        made["objectSelector"] = selector(&webhook.object);
        made
    });
    let all: Vec<Value> = all.collect();
    let mut metadata = of_cluster(target, name, Component::Webhook);
    metadata["labels"][REVISION] = target.revision.as_str().into();
    if revision != target.revision {
        metadata["labels"]["istio.io/tag"] = revision.into();
    }
    configuration(&metadata, &all)
}

/// The configuration of the environment's tag. It is called again when a later webhook changes the pod.
fn tagging(target: &Installation, name: &str) -> Value {
    let mut webhook = webhook_of(target, "environment-tag.sidecar-injector.istio.io", "/environment-tag");
    webhook["reinvocationPolicy"] = "IfNeeded".into();
    webhook["namespaceSelector"] = json!({ "matchLabels": { "environment-tag-injection": "enabled" } });
    // A label on the injector's namespace must not block its pods.
    let mut expressions = vec![json!({ "key": "app.kubernetes.io/name", "operator": "NotIn",
        "values": ["sidecar-injector"] })];
    // An expression can't require one of several labels.
    if let [label] = &target.environment_labels[..] {
        expressions.push(json!({ "key": label, "operator": "Exists" }));
    }
    webhook["objectSelector"] = json!({ "matchExpressions": expressions });
    configuration(&of_cluster(target, name, Component::Webhook), &[webhook])
}

fn configuration(metadata: &Value, webhooks: &[Value]) -> Value {
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": metadata, "webhooks": webhooks })
}

/// What all webhooks have in common. `caBundle` is left to the server.
fn webhook_of(target: &Installation, name: &str, path: &str) -> Value {
    json!({
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": { "service": { "name": target.name(), "namespace": target.namespace, "path": path,
            "port": 443 } },
        // With what the API server would fill in: in a list `kubectl apply` would take it for a change each time.
        "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
            "scope": "*" }],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT,
    })
}

fn selector(selector: &LabelSelector) -> Value {
    let expressions = selector.0.iter().map(|requirement| {
        let (operator, values) = match &requirement.operator {
            Operator::Exists => ("Exists", None),
            Operator::DoesNotExist => ("DoesNotExist", None),
            Operator::In(values) => ("In", Some(values)),
            Operator::NotIn(values) => ("NotIn", Some(values)),
        };
        match values {
            Some(values) => json!({ "key": requirement.key, "operator": operator, "values": values }),
            None => json!({ "key": requirement.key, "operator": operator }),
        }
    });
    json!({ "matchExpressions": expressions.collect::<Vec<Value>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::InstallOptions;
    use crate::manifests::installation::tests::plain;

    #[test]
    fn configurations_of_the_tag_come_behind_those_that_inject() {
        // Those of several revisions, too: each is called after all that inject.
        let mut all = Vec::new();
        for revision in ["default", "zzzz", "0"] {
            for istio_names in [true, false] {
                let options = InstallOptions {
                    revision: revision.to_owned(),
                    tags: vec!["zzz".to_owned()],
                    environment_labels: Some("virtual-env".to_owned()),
                    istio_names,
                    ..plain()
                };
                all.extend(names(&Installation::read(options).expect("right")));
            }
        }
        all.sort();
        let first = all.iter().position(|name| name.starts_with(ENVIRONMENT_TAG)).expect("a tag's");
        assert_eq!((all.len(), first), (18, 12), "{all:?}");
        assert!(all[first..].iter().all(|name| name.starts_with(ENVIRONMENT_TAG)), "{all:?}");
    }
}
