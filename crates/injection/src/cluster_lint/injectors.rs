//! The injectors of a cluster, by their webhooks and ConfigMaps: the injector called for a pod, its rules, and webhooks that are
//! called in vain, are not trusted, or inject beside each other.

use super::findings::{FindingGroups, Unjudged};
use super::inventory::{DescribedPod, Inventory};
use crate::configuration::{Configuration, ConfigurationText, Texts};
use crate::decision::{InjectionRules, Operator};
use crate::webhook::{self, INJECTION, InjectorIdentity, REVISION, Webhook, WebhookClient, overlap};
use mesh::Problems;
use mesh::pod::KubernetesObject;
use rules::finding::{Code, Finding};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Injectors<'a> {
    pub(super) webhooks: Vec<InjectorWebhook<'a>>,
    rules: Vec<InjectionRules>,
    pub(super) is_known: bool,
}

pub(super) struct InjectorWebhook<'a> {
    pub(super) configuration: &'a KubernetesObject,
    pub(super) webhook: Webhook,
    rules: usize,
}

/// Namespaces and names of the ConfigMaps that the injectors behind these MutatingWebhookConfigurations may go by.
pub fn config_maps<'a>(
    configurations: impl IntoIterator<Item = &'a KubernetesObject>,
) -> BTreeSet<(String, String)> {
    let each = configurations.into_iter().flat_map(|configuration| webhook::read(&configuration.value));
    let named = each.flat_map(|Webhook { injector, .. }| {
        injector.config_maps().map(move |name| (injector.namespace.clone(), name))
    });
    named.collect()
}

impl<'a> Injectors<'a> {
    pub(super) fn of(inventory: &Inventory<'a>, groups: &mut FindingGroups) -> Self {
        let mut rules = Vec::new();
        let mut places: BTreeMap<InjectorIdentity, usize> = BTreeMap::new();
        let mut webhooks = Vec::new();
        for configuration in &inventory.webhooks {
            let conditional =
                webhook::conditional(&configuration.value).map(|name| (Unjudged::Conditions, name));
            let unreadable = webhook::unreadable(&configuration.value).map(|name| (Unjudged::Selector, name));
            for (why, name) in conditional.chain(unreadable) {
                groups.not_judged(why, format!("webhook {name} of {}", configuration.meta("name")));
            }
            for webhook in webhook::read(&configuration.value) {
                let at = *places.entry(webhook.injector.clone()).or_insert_with(|| {
                    rules.push(read_rules(&webhook.injector, inventory, groups));
                    rules.len() - 1
                });
                webhooks.push(InjectorWebhook { configuration, webhook, rules: at });
            }
        }
        let is_known = inventory.is_whole || !inventory.webhooks.is_empty();
        if !is_known && !inventory.pods.is_empty() {
            groups.not_judged(Unjudged::NoWebhooks, "");
        }
        Self { webhooks, rules, is_known }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&InjectorWebhook<'a>, &Webhook, &InjectionRules)> {
        self.webhooks.iter().map(|known| (known, &known.webhook, &self.rules[known.rules]))
    }

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

    pub(super) fn serves_namespaces(&self) -> bool {
        let enabled = BTreeMap::from([(INJECTION.to_owned(), "enabled".to_owned())]);
        self.webhooks
            .iter()
            .flat_map(|known| &known.webhook.namespace.0)
            .any(|asked| asked.key == INJECTION && asked.is_met(&enabled))
    }
}

/// Istio's defaults where its ConfigMaps are not known.
fn read_rules(
    identity: &InjectorIdentity,
    inventory: &Inventory<'_>,
    groups: &mut FindingGroups,
) -> InjectionRules {
    let found = identity.config_maps().find_map(|name| {
        let is_it = |map: &&&KubernetesObject| {
            map.meta("namespace") == identity.namespace && map.meta("name") == name
        };
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
    let texts = Texts { config: Some(ConfigurationText::new(&name, text)), ..Texts::default() };
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

pub(super) fn judge(inventory: &Inventory<'_>, injectors: &Injectors<'_>, groups: &mut FindingGroups) {
    for configuration in &inventory.webhooks {
        let mut untrusted = Vec::new();
        let mut missing: BTreeMap<(String, bool), Vec<&str>> = BTreeMap::new();
        for written in webhook::of_pods(&configuration.value) {
            let name = webhook::short_name(written);
            let Some(WebhookClient::Service { namespace, name: service }) = WebhookClient::of(written) else {
                continue;
            };
            if written["clientConfig"]["caBundle"].as_str().unwrap_or_default().is_empty() {
                untrusted.push(name);
            }
            if is_missing(&namespace, &service, inventory, groups) {
                let refuses = written["failurePolicy"] != "Ignore";
                missing.entry((format!("{namespace}/{service}"), refuses)).or_default().push(name);
            }
        }
        for ((service, refuses), names) in missing {
            groups.about_object(without_service(&service, refuses, &names), configuration, "");
        }
        if !untrusted.is_empty() && !is_filled_in(configuration) {
            groups.about_object(without_bundle(configuration, &untrusted), configuration, "");
        }
    }
    rivals(inventory, injectors, groups);
}

fn is_missing(namespace: &str, name: &str, inventory: &Inventory<'_>, groups: &mut FindingGroups) -> bool {
    let services = inventory.services.get(namespace);
    if services.is_none() && !inventory.is_whole {
        groups.not_judged(Unjudged::WebhookService, format!("Service {namespace}/{name}"));
        return false;
    }
    !services.into_iter().flatten().any(|service| service.meta("name") == name)
}

/// `does` is the verb of one webhook, `several` that of more.
fn listed(names: &[&str], does: &str, several: &str) -> String {
    let (noun, verb) = if names.len() == 1 { ("webhook", does) } else { ("webhooks", several) };
    format!("{noun} {} {verb}", names.join(", "))
}

fn without_service(service: &str, refuses: bool, names: &[&str]) -> Finding {
    let outcome = match refuses {
        true => "with failurePolicy Fail, the API server refuses the pods that they select",
        false => "with failurePolicy Ignore, pods are created without a sidecar",
    };
    Finding::warning(
        Code::WebhookServiceMissing,
        "clientConfig.service",
        format!("Service {service} does not exist, which the {}: {outcome}", listed(names, "calls", "call")),
        "install the injector, or delete the webhook configuration that it left",
    )
}

/// True for manifests whose bundle another program is known to fill in.
fn is_filled_in(configuration: &KubernetesObject) -> bool {
    let annotations = configuration.value["metadata"]["annotations"].as_object();
    let mut names = annotations.into_iter().flatten().map(|(name, _)| name.as_str());
    configuration.meta("uid").is_empty() && names.any(|name| name.starts_with("cert-manager.io/inject-"))
}

fn without_bundle(configuration: &KubernetesObject, names: &[&str]) -> Finding {
    let lacking = listed(names, "has", "have");
    let text = format!("the {lacking} no caBundle, so that the API server does not trust the injector");
    let option = "clientConfig.caBundle";
    // A manifest has no uid.
    if !configuration.meta("uid").is_empty() {
        let remedy = "check the log of the injector, which fills it in where it makes its own certificate";
        Finding::warning(Code::WebhookUntrusted, option, text, remedy)
    } else {
        let remedy = "none is needed where istiod, serve --self-signed or another program fills it in";
        Finding::note(Code::WebhookUntrusted, option, text, remedy)
    }
}

fn rivals(inventory: &Inventory<'_>, injectors: &Injectors<'_>, groups: &mut FindingGroups) {
    let all = &injectors.webhooks;
    for (at, first) in all.iter().enumerate() {
        for second in all[at + 1..].iter().filter(|second| second.webhook.client != first.webhook.client) {
            if overlap(&first.webhook, &second.webhook).is_some() {
                let finding = of_rivals(first, second, inventory);
                for configuration in [first.configuration, second.configuration] {
                    groups.about_object(finding.clone(), configuration, "");
                }
            }
        }
    }
}

fn of_rivals(
    first: &InjectorWebhook<'_>,
    second: &InjectorWebhook<'_>,
    inventory: &Inventory<'_>,
) -> Finding {
    let is_called = |known: &InjectorWebhook<'_>, pod: &DescribedPod<'_>| {
        known.webhook.matches(&pod.namespace.namespace.labels, &pod.labels)
    };
    let pods = inventory.pods.iter().filter(|pod| pod.namespace.is_known && pod.is_running);
    let selected: BTreeSet<String> = (pods.filter(|pod| is_called(first, pod) && is_called(second, pod)))
        .map(|pod| pod.workload.to_string())
        .collect();
    let [a, b] = [first, second].map(|known| &known.webhook.name);
    let remedy = "give the injectors different revisions, or delete the configuration of one";
    match (selected.first(), selected.len()) {
        (Some(example), count) => {
            let others = if count == 1 { String::new() } else { format!(" and {} more", count - 1) };
            let text = format!(
                "webhooks {a} and {b} call different injectors, and select the same pods: {example}{others}"
            );
            Finding::warning(Code::RivalWebhooks, "", text, remedy)
        }
        (None, _) => {
            let text = format!(
                "webhooks {a} and {b} call different injectors, and labels exist by which both select a pod; none of the input does"
            );
            Finding::note(Code::RivalWebhooks, "", text, remedy)
        }
    }
}
