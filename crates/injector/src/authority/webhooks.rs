//! The server's webhook configurations: the `caBundle` with which the API server verifies the server, and the number of webhooks
//! that call it. Without webhooks, pods are silently created without injection, so missing webhooks are logged, counted, and
//! reported by `/ready?verbose`.

use data_encoding::BASE64;
use hyper::Uri;
use injection::webhook::WebhookClient;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookService {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Hosts of URLs, for webhooks without a Service: DNS names in lower case, and IP addresses.
    pub(crate) hosts: Vec<String>,
}

impl WebhookService {
    pub(crate) fn is_called_by(&self, webhook: &Value) -> bool {
        match WebhookClient::of(webhook) {
            Some(WebhookClient::Service { namespace, name }) => {
                name == self.name && namespace == self.namespace
            }
            Some(WebhookClient::Url(url)) => host_of(&url).is_some_and(|host| self.hosts.contains(&host)),
            None => false,
        }
    }

    pub(crate) fn callers(&self, configuration: Option<&Value>) -> CallerCount {
        let Some(configuration) = configuration else {
            return Err("no webhook configuration has this name (--webhook-configurations)".to_owned());
        };
        let calling = webhooks(configuration).filter(|webhook| self.is_called_by(webhook)).count();
        if calling > 0 {
            return Ok(calling);
        }
        let called = |webhook: &Value| match WebhookClient::of(webhook) {
            Some(WebhookClient::Service { namespace, name }) => format!("Service {namespace}/{name}"),
            Some(WebhookClient::Url(url)) => url,
            None => "neither a service nor a URL".to_owned(),
        };
        let others: BTreeSet<String> = webhooks(configuration).map(called).collect();
        let found =
            if others.is_empty() { "it has none".to_owned() } else { Vec::from_iter(others).join(", ") };
        let Self { namespace, name, hosts } = self;
        let hosts = if hosts.is_empty() { "from --name".to_owned() } else { hosts.join(" or ") };
        Err(format!(
            "none of its webhooks calls this server ({found}); expected the Service {namespace}/{name}, or a URL with the host {hosts}"
        ))
    }

    /// Names of a configuration's webhooks that call the server but have another bundle.
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

/// Patch that sets this bundle in the webhooks that call the server; `None` if all of them have it.
///
/// A strategic merge patch: other servers' webhooks and all other fields are unchanged. It names the version that was read,
/// so a webhook that is removed meanwhile does not come back as a fragment.
pub(super) fn patch(configuration: &Value, service: &WebhookService, bundle: &str) -> Option<Value> {
    let behind = service.behind(configuration, bundle);
    let bundle = BASE64.encode(bundle.as_bytes());
    let webhook = |name| json!({ "name": name, "clientConfig": { "caBundle": bundle } });
    let webhooks: Vec<Value> = behind.into_iter().map(webhook).collect();
    let version = configuration["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    (!webhooks.is_empty())
        .then(|| json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks }))
}

/// Host of a URL, in `--name`'s format; webhooks only use HTTPS.
fn host_of(url: &str) -> Option<String> {
    let url: Uri = url.parse().ok()?;
    let called = url.host().filter(|_| url.scheme_str() == Some("https"))?;
    host(called.trim_matches(['[', ']'])).ok()
}

pub(super) fn host(text: &str) -> Result<String, String> {
    let expected = "expected a DNS name such as injector.example, or an IP address without brackets";
    let name = ServerName::try_from(text.to_ascii_lowercase()).map_err(|_| expected.to_owned())?;
    Ok(name.to_str().into_owned())
}

/// How long a configuration may be wrong before it is logged: installations are applied object by object.
const GRACE: Duration = Duration::from_secs(5);

/// Number of a configuration's webhooks that call the server, or the reason why none does.
pub(crate) type CallerCount = Result<usize, String>;

#[derive(Debug)]
pub(crate) struct Callers(Mutex<BTreeMap<String, Known>>);

#[derive(Debug)]
struct Known {
    caller: CallerCount,
    /// Time to log the fault; `None` once logged.
    due: Option<Instant>,
}

impl Known {
    fn new(caller: CallerCount) -> Self {
        Self { due: caller.is_err().then(|| Instant::now() + GRACE), caller }
    }
}

impl Callers {
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a String>) -> Self {
        let fault = "the API server has not returned it yet; expected a role that may list and watch it";
        let known = |name: &String| (name.clone(), Known::new(Err(fault.to_owned())));
        Self(Mutex::new(names.into_iter().map(known).collect()))
    }

    pub(crate) fn all(&self) -> Vec<(String, CallerCount)> {
        self.0.lock().iter().map(|(name, known)| (name.clone(), known.caller.clone())).collect()
    }

    pub(super) fn note(&self, name: &str, caller: CallerCount) {
        let mut all = self.0.lock();
        let Some(known) = all.get_mut(name).filter(|known| known.caller != caller) else { return };
        if let (Err(_), None, Ok(webhooks)) = (&known.caller, known.due, &caller) {
            tracing::info!(configuration = name, webhooks, "the webhook configuration calls this server");
        }
        *known = Known::new(caller);
    }

    /// Logs due faults. Returns the time of the next fault, or `None`.
    pub(super) fn log(&self) -> Option<Instant> {
        let (mut all, now) = (self.0.lock(), Instant::now());
        for (configuration, known) in all.iter_mut() {
            if let Err(error) = &known.caller
                && known.due.take_if(|due| *due <= now).is_some()
            {
                tracing::warn!(configuration, error, "the webhook configuration does not call this server");
            }
        }
        all.values().filter_map(|known| known.due).min()
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
    fn a_url_is_recognized_by_its_host() {
        let calling = |client: Value| {
            let object = json!({ "webhooks": [{ "name": "w", "clientConfig": client }] });
            ours().callers(Some(&object))
        };
        for url in [
            "https://injector.example/inject",
            "https://Injector.Example:15017",
            "https://[FD00:0::1]:15017/inject?x",
        ] {
            assert_eq!(calling(json!({ "url": url })), Ok(1), "{url}");
        }
        for url in [
            "https://other.example",
            "http://injector.example",
            "https://injector.example.org/",
            "https://[fd00::1",
        ] {
            let fault = calling(json!({ "url": url })).expect_err("it calls another one");
            assert!(fault.contains(url) && fault.contains("injector.example or fd00::1"), "{fault}");
        }
    }

    #[test]
    fn only_outdated_webhooks_of_the_server_are_patched() {
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
