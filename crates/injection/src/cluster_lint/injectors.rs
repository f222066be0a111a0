//! A cluster's injectors, found through webhooks and ConfigMaps, and findings on the webhooks.

use super::{findings::FindingGroups, inventory::Inventory};
use crate::configuration::{Configuration, ConfigurationText, Texts};
use crate::webhook::{
    DeployedInjector, InjectorIdentity, KnownCluster, SelectedPod, Unjudged, by_injector, judge,
};
use mesh::{Problems, pod::KubernetesObject};
use serde_json::Value;
use std::collections::BTreeSet;

/// Possible namespaces and names of the injectors' ConfigMaps, from their MutatingWebhookConfigurations.
pub fn config_maps<'a>(
    configurations: impl IntoIterator<Item = &'a KubernetesObject>,
) -> BTreeSet<(String, String)> {
    let injectors = by_injector(configurations.into_iter().map(|one| &one.value)).into_keys();
    let named = injectors
        .flat_map(|injector| injector.config_maps().map(move |name| (injector.namespace.clone(), name)));
    named.collect()
}

/// `None` if the webhooks are unknown.
pub(super) fn read(inventory: &Inventory<'_>, groups: &mut FindingGroups) -> Option<Vec<DeployedInjector>> {
    let configurations: Vec<&Value> = inventory.webhooks.iter().map(|one| &one.value).collect();
    judge_webhooks(&configurations, inventory, groups);
    if !inventory.is_whole && configurations.is_empty() {
        if !inventory.pods.is_empty() {
            let why = "which pods are injected: the input has no MutatingWebhookConfiguration";
            groups.not_judged(Unjudged(why), "");
        }
        return None;
    }
    let injector = |(identity, webhooks)| {
        let configuration = configuration(&identity, inventory, groups);
        DeployedInjector { revision: identity.revision, webhooks, configuration }
    };
    Some(by_injector(configurations).into_iter().map(injector).collect())
}

fn judge_webhooks(configurations: &[&Value], inventory: &Inventory<'_>, groups: &mut FindingGroups) {
    let services = inventory.services.iter().map(|(namespace, services)| {
        (namespace.as_str(), services.iter().map(|service| service.meta("name")).collect())
    });
    let pods = inventory.pods.iter().filter(|pod| pod.is_namespace_known && pod.is_running);
    let pods = pods.map(|pod| SelectedPod {
        workload: pod.workload.to_string(),
        namespace: &pod.namespace.labels,
        labels: &pod.labels,
    });
    let cluster =
        KnownCluster { services: services.collect(), is_whole: inventory.is_whole, pods: pods.collect() };
    for found in judge(configurations, &cluster, |why, what| groups.not_judged(why, what)) {
        for one in inventory.webhooks.iter().filter(|one| found.configurations.contains(one.meta("name"))) {
            groups.about_object(found.finding.clone(), one, "");
        }
    }
}

/// Without ConfigMaps, falls back to Istio's defaults.
fn configuration(
    identity: &InjectorIdentity,
    inventory: &Inventory<'_>,
    groups: &mut FindingGroups,
) -> Configuration {
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
        let why =
            "the policy and the selectors of {}: the input lacks its ConfigMap; assuming Istio's defaults";
        groups.not_judged(Unjudged(why), whose);
        return Configuration::default();
    };
    let name = format!("ConfigMap {}/{name}: data.config", identity.namespace);
    let texts = Texts { config: Some(ConfigurationText::new(&name, text)), ..Texts::default() };
    Configuration::read(&texts).unwrap_or_else(|Problems(problems)| {
        let first = problems.first().map(ToString::to_string);
        let why = "the policy and the selectors of an injector: {}";
        groups.not_judged(Unjudged(why), first.unwrap_or_default());
        Configuration::default()
    })
}
