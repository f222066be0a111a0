//! The `caBundle` of webhook configurations: by which certificates the API server checks whom it calls.

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use serde_json::{Value, json};

/// A Service that webhooks name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What gives the webhooks of our Service this bundle; none if they have it.
///
/// A strategic merge patch: webhooks of other Services and all other fields stay. It names the version that was read, so a
/// webhook that somebody takes away meanwhile does not come back as a stump.
pub(super) fn patch(
    configuration: &MutatingWebhookConfiguration,
    service: &Service,
    bundle: &str,
) -> Option<Value> {
    let behind: Vec<Value> = configuration
        .webhooks
        .iter()
        .flatten()
        .filter(|webhook| is_called_at(webhook, service) && !has(webhook, bundle))
        .map(|webhook| {
            json!({ "name": webhook.name, "clientConfig": { "caBundle": STANDARD.encode(bundle) } })
        })
        .collect();
    let version = configuration.metadata.resource_version.as_deref().unwrap_or_default();
    (!behind.is_empty()).then(|| json!({ "metadata": { "resourceVersion": version }, "webhooks": behind }))
}

fn is_called_at(webhook: &MutatingWebhook, service: &Service) -> bool {
    let named = webhook.client_config.service.as_ref();
    named.is_some_and(|named| named.name == service.name && named.namespace == service.namespace)
}

fn has(webhook: &MutatingWebhook, bundle: &str) -> bool {
    webhook.client_config.ca_bundle.as_ref().is_some_and(|held| held.0 == bundle.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_and_behind_is_changed() {
        let webhook = |name: &str, service: &str, bundle: Option<&str>| {
            let mut webhook = json!({ "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": { "service": { "name": service, "namespace": "mesh" } } });
            if let Some(bundle) = bundle {
                webhook["clientConfig"]["caBundle"] = STANDARD.encode(bundle).into();
            }
            webhook
        };
        let configuration = |webhooks: Value| {
            let object = json!({ "metadata": { "name": "c", "resourceVersion": "7" }, "webhooks": webhooks });
            serde_json::from_value::<MutatingWebhookConfiguration>(object).expect("a configuration")
        };
        let ours = Service { namespace: "mesh".to_owned(), name: "injector".to_owned() };
        let found = configuration(json!([
            webhook("new", "injector", None),
            webhook("right", "injector", Some("bundle")),
            webhook("old", "injector", Some("another")),
            webhook("foreign", "other", None),
        ]));
        let made = patch(&found, &ours, "bundle").expect("a patch");
        let names: Vec<&Value> =
            made["webhooks"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["new", "old"]);
        assert_eq!(made["metadata"]["resourceVersion"], "7");
        assert_eq!(made["webhooks"][0]["clientConfig"], json!({ "caBundle": STANDARD.encode("bundle") }));
        let right = configuration(json!([webhook("right", "injector", Some("bundle"))]));
        assert_eq!(patch(&right, &ours, "bundle"), None);
        assert_eq!(patch(&configuration(Value::Null), &ours, "bundle"), None);
    }
}
