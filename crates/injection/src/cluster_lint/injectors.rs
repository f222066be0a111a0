//! The injectors of a cluster, by their webhooks and ConfigMaps: who is called for a pod, and by which rules it decides.

use super::findings::{FindingGroups, Unjudged};
use super::inventory::Inventory;
use super::object::ClusterObject;
use crate::configuration::{Configuration, ConfigurationText, Texts};
use crate::decision::{InjectionRules, Operator};
use crate::webhook::{self, INJECTION, REVISION, Webhook};
use mesh::Problems;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Where Istio is, the default for a webhook that calls a URL.
const ISTIO: &str = "istio-system";

/// The injectors, and whether webhooks are known at all.
pub(super) struct Injectors<'a> {
    pub(super) webhooks: Vec<InjectorWebhook<'a>>,
    rules: Vec<InjectionRules>,
    pub(super) is_known: bool,
}

/// A webhook that injects.
pub(super) struct InjectorWebhook<'a> {
    /// The MutatingWebhookConfiguration.
    pub(super) configuration: &'a ClusterObject,
    pub(super) webhook: Webhook,
    pub(super) client: WebhookClient,
    /// Its place among the rules.
    rules: usize,
}

/// What a webhook calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WebhookClient {
    Service { namespace: String, name: String },
    Url(String),
}

impl WebhookClient {
    /// `None` where it names neither, which the API server refuses.
    pub(super) fn of(written: &Value) -> Option<Self> {
        let client = &written["clientConfig"];
        if let Some(url) = client["url"].as_str() {
            return Some(Self::Url(url.to_owned()));
        }
        let text = |field: &str| client["service"][field].as_str().map(str::to_owned);
        Some(Self::Service { namespace: text("namespace")?, name: text("name")? })
    }
}

/// What identifies the ConfigMaps of an injector: its Service's namespace and name, and its revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MapsIdentity {
    namespace: String,
    service: String,
    revision: String,
}

impl MapsIdentity {
    fn of(configuration: &Value, client: Option<&WebhookClient>) -> Self {
        let revision = configuration["metadata"]["labels"][REVISION].as_str().unwrap_or("default").to_owned();
        match client {
            Some(WebhookClient::Service { namespace, name }) => {
                Self { namespace: namespace.clone(), service: name.clone(), revision }
            }
            Some(WebhookClient::Url(_)) | None => {
                Self { namespace: ISTIO.to_owned(), service: String::new(), revision }
            }
        }
    }

    /// The names that the ConfigMap of the injector may have: its Service's, as ours, or Istio's.
    fn names(&self) -> [String; 2] {
        let suffix = if self.revision == "default" { String::new() } else { format!("-{}", self.revision) };
        [self.service.clone(), format!("istio-sidecar-injector{suffix}")]
    }
}

/// The ConfigMaps that the injectors behind these MutatingWebhookConfigurations may go by: namespace and name of each. Others are
/// not looked at.
pub fn config_maps<'a>(
    configurations: impl IntoIterator<Item = &'a ClusterObject>,
) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for configuration in configurations {
        for (written, _) in webhook::read_each(&configuration.value) {
            let identity = MapsIdentity::of(&configuration.value, WebhookClient::of(written).as_ref());
            let names = identity.names().into_iter().filter(|name| !name.is_empty());
            found.extend(names.map(|name| (identity.namespace.clone(), name)));
        }
    }
    found
}

impl<'a> Injectors<'a> {
    pub(super) fn of(inventory: &Inventory<'a>, groups: &mut FindingGroups) -> Self {
        let mut rules = Vec::new();
        let mut places: BTreeMap<MapsIdentity, usize> = BTreeMap::new();
        let mut webhooks = Vec::new();
        for configuration in &inventory.webhooks {
            for name in webhook::conditional(&configuration.value) {
                groups.not_judged(
                    Unjudged::Conditions,
                    format!("webhook {name} of {}", configuration.meta("name")),
                );
            }
            for name in webhook::unreadable(&configuration.value) {
                groups.not_judged(
                    Unjudged::Selector,
                    format!("webhook {name} of {}", configuration.meta("name")),
                );
            }
            for (written, webhook) in webhook::read_each(&configuration.value) {
                let Some(client) = WebhookClient::of(written) else { continue };
                let identity = MapsIdentity::of(&configuration.value, Some(&client));
                let at = *places.entry(identity.clone()).or_insert_with(|| {
                    rules.push(read_rules(&identity, inventory, groups));
                    rules.len() - 1
                });
                webhooks.push(InjectorWebhook { configuration, webhook, client, rules: at });
            }
        }
        let is_known = inventory.is_whole || !inventory.webhooks.is_empty();
        if !is_known && !inventory.pods.is_empty() {
            groups.not_judged(Unjudged::NoWebhooks, "");
        }
        Self { webhooks, rules, is_known }
    }

    /// The webhooks that are called for a pod with these labels, in a namespace with those.
    pub(super) fn called(
        &self,
        namespace: &BTreeMap<String, String>,
        pod: &BTreeMap<String, String>,
    ) -> impl Iterator<Item = &InjectorWebhook<'a>> {
        self.webhooks.iter().filter(|known| known.webhook.matches(namespace, pod))
    }

    pub(super) fn rules(&self, webhook: &InjectorWebhook<'_>) -> &InjectionRules {
        &self.rules[webhook.rules]
    }

    /// The revisions and tags that selectors of webhooks name.
    pub(super) fn revisions(&self) -> BTreeSet<&str> {
        let selectors =
            self.webhooks.iter().flat_map(|known| [&known.webhook.namespace, &known.webhook.object]);
        let named = selectors.flat_map(|selector| &selector.0).filter(|asked| asked.key == REVISION);
        let values = named.filter_map(|asked| match &asked.operator {
            Operator::In(values) => Some(values),
            Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => None,
        });
        values.flatten().map(String::as_str).collect()
    }

    /// Whether a webhook is called for namespaces with the label `istio-injection`.
    pub(super) fn serves_namespaces(&self) -> bool {
        let enabled = BTreeMap::from([(INJECTION.to_owned(), "enabled".to_owned())]);
        self.webhooks
            .iter()
            .flat_map(|known| &known.webhook.namespace.0)
            .any(|asked| asked.key == INJECTION && asked.is_met(&enabled))
    }
}

/// The rules of an injector by its ConfigMaps; Istio's defaults where they are not known.
fn read_rules(
    identity: &MapsIdentity,
    inventory: &Inventory<'_>,
    groups: &mut FindingGroups,
) -> InjectionRules {
    let found = identity.names().into_iter().find_map(|name| {
        let is_it =
            |map: &&&ClusterObject| map.meta("namespace") == identity.namespace && map.meta("name") == name;
        let map = inventory.config_maps.iter().find(is_it)?;
        Some((name, map.value["data"]["config"].as_str()?))
    });
    let Some((name, text)) = found else {
        let MapsIdentity { namespace, service, revision } = identity;
        let whose = if service.is_empty() {
            format!("revision {revision}")
        } else {
            format!("{namespace}/{service}")
        };
        groups.not_judged(Unjudged::NoConfiguration, whose);
        return Configuration::default().rules;
    };
    let name = format!("ConfigMap {}/{name}: data.config", identity.namespace);
    let texts = Texts { config: Some(ConfigurationText { name: &name, text }), ..Texts::default() };
    match Configuration::read(&texts) {
        Ok(configuration) => configuration.rules,
        Err(Problems(problems)) => {
            let mut problems = problems.iter().map(ToString::to_string);
            let first = problems.next().unwrap_or_default();
            groups.not_judged(Unjudged::BadConfiguration, first);
            Configuration::default().rules
        }
    }
}
