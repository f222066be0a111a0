//! The injectors of a cluster, by their webhooks and ConfigMaps: who is called for a pod, and by which rules it decides.

use super::findings::{FindingGroups, Unjudged};
use super::inventory::Inventory;
use super::object::ClusterObject;
use crate::configuration::{Configuration, ConfigurationText, Texts};
use crate::decision::{InjectionRules, Operator};
use crate::webhook::{self, INJECTION, InjectorIdentity, REVISION, Webhook, WebhookClient};
use mesh::Problems;
use std::collections::{BTreeMap, BTreeSet};

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

/// The ConfigMaps that the injectors behind these MutatingWebhookConfigurations may go by: namespace and name of each. Others are
/// not looked at.
pub fn config_maps<'a>(
    configurations: impl IntoIterator<Item = &'a ClusterObject>,
) -> BTreeSet<(String, String)> {
    let each = configurations.into_iter().flat_map(|configuration| webhook::read_each(&configuration.value));
    let named = each.flat_map(|(identity, ..)| {
        identity.config_maps().map(move |name| (identity.namespace.clone(), name))
    });
    named.collect()
}

impl<'a> Injectors<'a> {
    pub(super) fn of(inventory: &Inventory<'a>, groups: &mut FindingGroups) -> Self {
        let mut rules = Vec::new();
        let mut places: BTreeMap<InjectorIdentity, usize> = BTreeMap::new();
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
            for (identity, client, webhook) in webhook::read_each(&configuration.value) {
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

    /// The webhooks, each with the rules by which its injector decides.
    pub(super) fn each(&self) -> impl Iterator<Item = (&InjectorWebhook<'a>, &Webhook, &InjectionRules)> {
        self.webhooks.iter().map(|known| (known, &known.webhook, &self.rules[known.rules]))
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
    identity: &InjectorIdentity,
    inventory: &Inventory<'_>,
    groups: &mut FindingGroups,
) -> InjectionRules {
    let found = identity.config_maps().find_map(|name| {
        let is_it =
            |map: &&&ClusterObject| map.meta("namespace") == identity.namespace && map.meta("name") == name;
        let map = inventory.config_maps.iter().find(is_it)?;
        Some((name, map.value["data"]["config"].as_str()?))
    });
    let Some((name, text)) = found else {
        let InjectorIdentity { namespace, service, revision } = identity;
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
