//! The installation's webhook configurations, other webhooks called for its pods, and their order.

use super::finding::{InstallationFinding, InstallationTopic};
use super::{CheckedInstallation, rights::name};
use crate::authority::webhooks;
use diagnose::lint::{Code, Finding};
use injection::manifests::ENVIRONMENT_TAG;
use injection::webhook::{self, CONDITIONS, KnownCluster, WebhookFinding, judge};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) type Configurations = kube::Result<Vec<Value>>;

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
        Err(error) => return vec![topic.unknown("webhook configurations can't be listed", error)],
    };
    let printed: Vec<&Value> =
        checked.objects.iter().filter(|object| object["kind"] == "MutatingWebhookConfiguration").collect();
    let (installed, others): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|one| is_ours(checked, one));
    let is_printed = |one: &Value| printed.iter().any(|printed| name(printed) == name(one));
    // If no configurations are installed, uses the printed ones, which replace others of the same names.
    let own = if installed.is_empty() { &printed } else { &installed };
    let together: Vec<&Value> =
        own.iter().copied().chain(others.into_iter().filter(|one| !is_printed(one))).collect();
    let mut findings = Vec::new();
    let judged = judge(&together, &KnownCluster::default(), |why, what| {
        if why == CONDITIONS {
            let text = format!("it is not known {}", why.sentence(&[what].into()));
            findings.push(topic.warn(text, "compare its conditions with the labels of your namespaces"));
        }
    });
    for WebhookFinding { finding: Finding { level, code, text, remedy, .. }, configurations } in judged {
        if code == Code::RivalWebhooks && own.iter().any(|one| configurations.contains(name(one))) {
            findings.push(InstallationFinding { level, ..topic.warn(text, remedy) });
        }
    }
    for title in installed.iter().map(|one| name(one)) {
        if !printed.iter().any(|one| name(one) == title) && !title.starts_with(ENVIRONMENT_TAG) {
            let text = format!("{title} calls this server, but manifests does not print it with these flags");
            let remedy = "give its tag with --tag, as for manifests; otherwise, uninstall does not delete it";
            findings.push(topic.warn(text, remedy));
        }
    }
    for title in printed.iter().map(|one| name(one)).filter(|_| !installed.is_empty()) {
        if let Err(fault) = checked.service.callers(all.iter().find(|one| name(one) == title)) {
            findings.push(topic.fail(format!("{title}: {fault}"), "apply the manifests again"));
        }
    }
    findings.extend(order(&printed, all));
    if findings.is_empty() {
        findings.push(topic.ok("no other webhook injects these pods"));
    }
    findings
}

/// The API server calls webhooks in the order of their configurations' names. The environment tag webhook changes injected
/// proxies, so it must follow all injection webhooks.
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
    (first < last).then(|| {
        topic.fail(
            format!("{first} is called before {last}, when the pod has no proxy yet"),
            format!("give the former a name that sorts after {last}, such as {last}.environment-tag"),
        )
    })
}
