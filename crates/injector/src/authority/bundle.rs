//! The `caBundle` of webhook configurations: by which certificates the API server checks whom it calls; and which of their
//! webhooks call this server at all.

use super::callers::WebhookCaller;
use data_encoding::BASE64;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::IpAddr};

/// The server, as webhooks name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebhookService {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Hosts of URLs, for webhooks that name no Service: DNS names in small letters, and IP addresses.
    pub(super) hosts: Vec<String>,
}

/// The patch that sets this bundle in the webhooks that call the server; `None` if all of them have it.
///
/// A strategic merge patch: webhooks of other servers and all other fields stay. It names the version that was read, so a
/// webhook that is removed meanwhile does not come back as a fragment.
pub(super) fn patch(
    configuration: &MutatingWebhookConfiguration,
    service: &WebhookService,
    bundle: &str,
) -> Option<Value> {
    let behind: Vec<Value> = configuration
        .webhooks
        .iter()
        .flatten()
        .filter(|webhook| is_called_at(webhook, service) && !has(webhook, bundle))
        .map(|webhook| {
            json!({ "name": webhook.name, "clientConfig": { "caBundle": BASE64.encode(bundle.as_bytes()) } })
        })
        .collect();
    let version = configuration.metadata.resource_version.as_deref().unwrap_or_default();
    (!behind.is_empty()).then(|| json!({ "metadata": { "resourceVersion": version }, "webhooks": behind }))
}

/// Whether a webhook configuration calls the server, by how many webhooks, or whom it calls instead.
pub(super) fn caller(
    configuration: Option<&MutatingWebhookConfiguration>,
    service: &WebhookService,
) -> WebhookCaller {
    let Some(configuration) = configuration else {
        let text = "there is no webhook configuration of this name, so the API server does not call this server through it; \
                    name those that exist with --webhook-configurations";
        return WebhookCaller { webhooks: 0, fault: Some(text.to_owned()) };
    };
    let all: Vec<&MutatingWebhook> = configuration.webhooks.iter().flatten().collect();
    let webhooks = all.iter().filter(|webhook| is_called_at(webhook, service)).count();
    let fault = (webhooks == 0).then(|| {
        let others: BTreeSet<String> = all.iter().map(|webhook| called(webhook)).collect();
        let found = if others.is_empty() { "it has none".to_owned() } else { Vec::from_iter(others).join(", ") };
        let hosts = match &service.hosts[..] {
            [] => "a URL with a host that --name gives".to_owned(),
            hosts => format!("a URL with the host {}", hosts.join(" or ")),
        };
        let WebhookService { namespace, name, .. } = service;
        format!("none of its webhooks calls this server ({found}); expected the Service {namespace}/{name}, or {hosts}")
    });
    WebhookCaller { webhooks, fault }
}

fn called(webhook: &MutatingWebhook) -> String {
    let client = &webhook.client_config;
    match (&client.service, &client.url) {
        (Some(service), _) => format!("Service {}/{}", service.namespace, service.name),
        (None, Some(url)) => url.clone(),
        (None, None) => "neither a service nor a URL".to_owned(),
    }
}

fn is_called_at(webhook: &MutatingWebhook, service: &WebhookService) -> bool {
    let client = &webhook.client_config;
    match (&client.service, &client.url) {
        (Some(named), _) => named.name == service.name && named.namespace == service.namespace,
        (None, Some(url)) => host(url).is_some_and(|host| service.hosts.iter().any(|own| is_same(own, host))),
        (None, None) => false,
    }
}

/// The host of a URL; webhooks call by HTTPS alone.
fn host(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("https://")?.split(['/', '?', '#']).next()?;
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(address, _)| address),
        None => Some(authority.rsplit_once(':').map_or(authority, |(host, _)| host)),
    }
}

/// Whether two hosts are one, however their letters and addresses are written.
fn is_same(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}

fn has(webhook: &MutatingWebhook, bundle: &str) -> bool {
    webhook.client_config.ca_bundle.as_ref().is_some_and(|current| current.0 == bundle.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> WebhookService {
        let hosts = vec!["injector.example".to_owned(), "fd00::1".to_owned()];
        WebhookService { namespace: "mesh".to_owned(), name: "injector".to_owned(), hosts }
    }

    #[test]
    fn a_url_is_known_by_its_host() {
        let calling = |client: Value| {
            let webhook = json!({ "name": "w", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": client });
            let object = json!({ "metadata": { "name": "c" }, "webhooks": [webhook] });
            let configuration = serde_json::from_value(object).expect("a configuration");
            caller(Some(&configuration), &ours())
        };
        for url in [
            "https://injector.example/inject",
            "https://Injector.Example:15017",
            "https://[FD00:0::1]:15017/inject?x",
        ] {
            assert_eq!(calling(json!({ "url": url })), WebhookCaller { webhooks: 1, fault: None }, "{url}");
        }
        for url in [
            "https://other.example",
            "http://injector.example",
            "https://injector.example.org/",
            "https://[fd00::1",
        ] {
            let fault = calling(json!({ "url": url })).fault.expect("it calls another one");
            assert!(fault.contains(url) && fault.contains("injector.example or fd00::1"), "{fault}");
        }
        let fault = calling(json!({ "service": { "name": "istiod", "namespace": "mesh" } })).fault;
        assert!(fault.is_some_and(|fault| {
            fault.contains("(Service mesh/istiod); expected the Service mesh/injector")
        }));
        assert!(caller(None, &ours()).fault.is_some_and(|fault| fault.contains("no webhook configuration")));
    }

    #[test]
    fn only_what_is_ours_and_behind_is_changed() {
        let webhook = |name: &str, service: &str, bundle: Option<&str>| {
            let mut webhook = json!({ "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": { "service": { "name": service, "namespace": "mesh" } } });
            if let Some(bundle) = bundle {
                webhook["clientConfig"]["caBundle"] = BASE64.encode(bundle.as_bytes()).into();
            }
            webhook
        };
        let configuration = |webhooks: Value| {
            let object = json!({ "metadata": { "name": "c", "resourceVersion": "7" }, "webhooks": webhooks });
            serde_json::from_value::<MutatingWebhookConfiguration>(object).expect("a configuration")
        };
        let ours = ours();
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
        assert_eq!(
            made["webhooks"][0]["clientConfig"],
            json!({ "caBundle": BASE64.encode("bundle".as_bytes()) })
        );
        let right = configuration(json!([webhook("right", "injector", Some("bundle"))]));
        assert_eq!(patch(&right, &ours, "bundle"), None);
        assert_eq!(patch(&configuration(Value::Null), &ours, "bundle"), None);
    }
}
