//! The webhook configurations that should call the server: the `caBundle` by which the API server checks it, and whether their
//! webhooks call it at all. Where none does, pods are created without it, and no request ever shows that; so it is logged, counted,
//! and part of `/ready?verbose`.

use data_encoding::BASE64;
use injection::webhook::WebhookClient;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};
use tokio::time::Instant;

/// The server, as webhooks name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookService {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Hosts of URLs, for webhooks that name no Service: DNS names in small letters, and IP addresses.
    pub(crate) hosts: Vec<String>,
}

impl WebhookService {
    pub(crate) fn is_called_by(&self, webhook: &Value) -> bool {
        match WebhookClient::of(webhook) {
            Some(WebhookClient::Service { namespace, name }) => {
                name == self.name && namespace == self.namespace
            }
            Some(WebhookClient::Url(url)) => {
                host(&url).is_some_and(|host| self.hosts.iter().any(|own| is_same(own, host)))
            }
            None => false,
        }
    }

    /// The names of the webhooks of a configuration that call the server, and have another bundle.
    pub(crate) fn behind<'a>(&self, configuration: &'a Value, bundle: &str) -> Vec<&'a str> {
        let has = |webhook: &Value| {
            let text = webhook["clientConfig"]["caBundle"].as_str().unwrap_or_default();
            BASE64.decode(text.as_bytes()).is_ok_and(|bytes| bytes == bundle.as_bytes())
        };
        let behind = webhooks(configuration).filter(|webhook| self.is_called_by(webhook) && !has(webhook));
        behind.filter_map(|webhook| webhook["name"].as_str()).collect()
    }
}

pub(crate) fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration["webhooks"].as_array().into_iter().flatten()
}

/// The patch that sets this bundle in the webhooks that call the server; `None` if all of them have it.
///
/// A strategic merge patch: webhooks of other servers and all other fields stay. It names the version that was read, so a
/// webhook that is removed meanwhile does not come back as a fragment.
pub(super) fn patch(configuration: &Value, service: &WebhookService, bundle: &str) -> Option<Value> {
    let behind = service.behind(configuration, bundle);
    let bundle = BASE64.encode(bundle.as_bytes());
    let webhooks: Vec<Value> = behind
        .into_iter()
        .map(|name| json!({ "name": name, "clientConfig": { "caBundle": bundle } }))
        .collect();
    let version = configuration["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    (!webhooks.is_empty())
        .then(|| json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks }))
}

/// The count of webhooks that call the server, or the reason that none does.
pub(super) fn caller(configuration: Option<&Value>, service: &WebhookService) -> WebhookCaller {
    let Some(configuration) = configuration else {
        let text = "there is no webhook configuration of this name, so the API server does not call this server through it; \
                    name those that exist with --webhook-configurations";
        return WebhookCaller { webhooks: 0, fault: Some(text.to_owned()) };
    };
    let calling = webhooks(configuration).filter(|webhook| service.is_called_by(webhook)).count();
    let fault = (calling == 0).then(|| {
        let called = |webhook: &Value| match WebhookClient::of(webhook) {
            Some(WebhookClient::Service { namespace, name }) => format!("Service {namespace}/{name}"),
            Some(WebhookClient::Url(url)) => url,
            None => "neither a service nor a URL".to_owned(),
        };
        let others: BTreeSet<String> = webhooks(configuration).map(called).collect();
        let found = if others.is_empty() { "it has none".to_owned() } else { Vec::from_iter(others).join(", ") };
        let hosts = match &service.hosts[..] {
            [] => "a URL with a host that --name gives".to_owned(),
            hosts => format!("a URL with the host {}", hosts.join(" or ")),
        };
        let WebhookService { namespace, name, .. } = service;
        format!("none of its webhooks calls this server ({found}); expected the Service {namespace}/{name}, or {hosts}")
    });
    WebhookCaller { webhooks: calling, fault }
}

/// The host of a URL; webhooks call by HTTPS alone.
fn host(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("https://")?.split(['/', '?', '#']).next()?;
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(address, _)| address),
        None => Some(authority.rsplit_once(':').map_or(authority, |(host, _)| host)),
    }
}

/// Ignores the case of letters and the form of addresses.
fn is_same(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}

/// The time that a configuration may be wrong before it is logged: an installation is applied object by object.
const GRACE: Duration = Duration::from_secs(5);

/// A webhook configuration, as far as it calls the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WebhookCaller {
    pub(crate) webhooks: usize,
    pub(crate) fault: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Callers(Mutex<BTreeMap<String, Known>>);

#[derive(Debug)]
struct Known {
    caller: WebhookCaller,
    since: Instant,
    is_logged: bool,
}

impl Callers {
    /// Nothing is known of these names yet.
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a String>) -> Self {
        let fault = "it was not read from the API server yet; expected a role that lists and watches it";
        let known = |name: &String| {
            let caller = WebhookCaller { webhooks: 0, fault: Some(fault.to_owned()) };
            (name.clone(), Known { caller, since: Instant::now(), is_logged: false })
        };
        Self(Mutex::new(names.into_iter().map(known).collect()))
    }

    pub(crate) fn all(&self) -> Vec<(String, WebhookCaller)> {
        self.0.lock().iter().map(|(name, known)| (name.clone(), known.caller.clone())).collect()
    }

    /// One has come, was changed or is gone.
    pub(super) fn note(&self, name: &str, caller: WebhookCaller) {
        let mut all = self.0.lock();
        let Some(known) = all.get_mut(name).filter(|known| known.caller != caller) else { return };
        if known.is_logged && caller.fault.is_none() {
            tracing::info!(
                configuration = name,
                webhooks = caller.webhooks,
                "the webhook configuration calls this server"
            );
        }
        *known = Known { caller, since: Instant::now(), is_logged: false };
    }

    /// The time at which something is to be logged; `None` where all is well, or was logged.
    pub(super) fn due(&self) -> Option<Instant> {
        let all = self.0.lock();
        let waiting = all.values().filter(|known| known.caller.fault.is_some() && !known.is_logged);
        waiting.map(|known| known.since + GRACE).min()
    }

    pub(super) fn log(&self) {
        let now = Instant::now();
        for (name, known) in self.0.lock().iter_mut() {
            let Some(fault) = known.caller.fault.as_ref().filter(|_| !known.is_logged) else { continue };
            if known.since + GRACE <= now {
                tracing::warn!(
                    configuration = name,
                    error = fault,
                    "the webhook configuration does not call this server"
                );
                known.is_logged = true;
            }
        }
    }
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
            let object = json!({ "webhooks": [{ "name": "w", "clientConfig": client }] });
            caller(Some(&object), &ours())
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
    }

    #[test]
    fn only_what_is_ours_and_behind_is_changed() {
        let webhook = |name: &str, service: &str, bundle: Option<&str>| {
            let mut webhook = json!({ "name": name,
                "clientConfig": { "service": { "name": service, "namespace": "mesh" } } });
            if let Some(bundle) = bundle {
                webhook["clientConfig"]["caBundle"] = BASE64.encode(bundle.as_bytes()).into();
            }
            webhook
        };
        let configuration = |webhooks: Value| json!({ "metadata": { "name": "c", "resourceVersion": "7" }, "webhooks": webhooks });
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
