//! Webhook configurations: those of the installation, others that are called for its pods, and their order.

use super::{
    CheckedInstallation,
    finding::{InstallationFinding, InstallationTopic},
    unknown,
};
use crate::api::NoAnswer;
use crate::authority::webhooks;
use injection::webhook::{self, Webhook, overlap};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) type Configurations = Result<Vec<Value>, NoAnswer>;

pub(super) fn name(configuration: &Value) -> &str {
    configuration["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn ours<'a>(checked: &CheckedInstallation, all: &'a Configurations) -> Vec<&'a Value> {
    all.iter().flatten().filter(|configuration| is_ours(checked, configuration)).collect()
}

fn is_ours(checked: &CheckedInstallation, configuration: &Value) -> bool {
    webhooks(configuration).any(|webhook| checked.service.is_called_by(webhook))
}

pub(super) fn findings(checked: &CheckedInstallation, all: &Configurations) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Webhooks;
    let all = match all {
        Ok(all) => all,
        Err(error) => return vec![unknown(topic, "webhook configurations can't be listed", error)],
    };
    let printed: Vec<&Value> =
        checked.objects.iter().filter(|object| object["kind"] == "MutatingWebhookConfiguration").collect();
    // As they are in the cluster, where they are; otherwise as they would be.
    let installed: Vec<&Value> = all.iter().filter(|one| is_ours(checked, one)).collect();
    let own: Vec<Webhook> = match &installed[..] {
        [] => printed.iter().flat_map(|one| webhook::read(one)).collect(),
        some => some.iter().flat_map(|one| webhook::read(one)).collect(),
    };
    let mut findings = Vec::new();
    let others = || all.iter().filter(|one| !is_ours(checked, one));
    for configuration in others() {
        // With the name of one of ours, it would be replaced.
        if printed.iter().any(|one| name(one) == name(configuration)) {
            continue;
        }
        findings.extend(rival(configuration, &own));
    }
    findings.extend(unexpected_or_missing(&installed, all, &printed));
    findings.extend(order(&printed, all));
    if findings.is_empty() {
        findings.push(topic.ok("no other webhook injects these pods"));
    }
    findings
}

fn rival(configuration: &Value, own: &[Webhook]) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Webhooks;
    let title = name(configuration);
    let mut findings = Vec::new();
    let injecting = webhook::read(configuration);
    let shared = injecting
        .iter()
        .find_map(|other| own.iter().find_map(|webhook| Some((other, webhook, overlap(webhook, other)?))));
    match shared {
        Some((other, webhook, shared)) => findings.push(topic.fail(
            format!("{} also injects pods of {}: {shared}", other.name, webhook.name),
            "disable the other injector (istiod: INJECT_ENABLED=false), or install with --revision and label by istio.io/rev",
        )),
        None if !injecting.is_empty() => {
            findings.push(topic.ok(format!("{title} injects other pods")));
        }
        None => {}
    }
    for conditional in webhook::conditional(configuration) {
        findings.push(topic.warn(
            format!("{conditional} of {title} has matchConditions, which are not evaluated here"),
            "compare them with the labels of your namespaces",
        ));
    }
    let changing = webhook::read_others(configuration);
    if changing.iter().any(|other| own.iter().any(|webhook| overlap(webhook, other).is_some())) {
        findings.push(topic.ok(format!("{title} is called for pods, too, at another path")));
    }
    findings
}

/// Configurations that call this server but are not among those that `manifests` prints with the same flags; and those of
/// these that are missing, if any calls the server.
fn unexpected_or_missing(
    installed: &[&Value],
    all: &[Value],
    printed: &[&Value],
) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Webhooks;
    let mut findings = Vec::new();
    let names: Vec<&str> = printed.iter().map(|one| name(one)).collect();
    for configuration in installed {
        let title = name(configuration);
        if !names.contains(&title) && !title.starts_with(injection::manifests::ENVIRONMENT_TAG) {
            findings.push(topic.warn(
                format!("{title} calls this server, but is not one of {}", names.join(", ")),
                "name its tag with --tag, as in manifests; without, uninstall does not delete it",
            ));
        }
    }
    if !installed.is_empty() {
        let missing = names.iter().filter(|name| !all.iter().any(|one| self::name(one) == **name));
        findings.extend(missing.map(|name| {
            topic
                .fail(format!("{name} is missing, so its pods are not injected"), "apply the manifests again")
        }));
    }
    findings
}

/// The API server calls webhooks in the order of their configurations' names. The environment's tag changes injected
/// proxies, so it has to come after whatever injects.
fn order(printed: &[&Value], all: &[Value]) -> Option<InstallationFinding> {
    let topic = InstallationTopic::Webhooks;
    let mut by_name: BTreeMap<&str, &Value> = printed.iter().map(|one| (name(one), *one)).collect();
    by_name.extend(all.iter().map(|one| (name(one), one)));
    let is_tag = |one: &Value| {
        webhooks(one).any(|webhook| webhook["clientConfig"]["service"]["path"] == "/environment-tag")
    };
    let last = by_name.values().rev().find(|one| !webhook::read(one).is_empty())?;
    let first = by_name.values().find(|one| is_tag(one))?;
    let (last, first) = (name(last), name(first));
    Some(match first < last {
        true => topic.fail(
            format!("{first} is called before {last}, when the pod has no proxy yet"),
            match injection::manifests::ENVIRONMENT_TAG {
                name if last < name => format!("give it a name that sorts behind {last}, such as {name}"),
                _ => format!("give it a name that sorts behind {last}, such as {last}.environment-tag"),
            },
        ),
        false => topic.ok(format!("{first} is called behind {last}")),
    })
}
