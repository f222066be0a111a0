//! Findings on webhook configurations: a missing Service, an untrusted certificate, and rivals: webhooks called for the same
//! pods.

use super::{Webhook, WebhookClient, injecting, of_pods, of_value, overlap, short_name};
use crate::admission::ObjectLabels;
use rules::finding::{Code, Finding, Level};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct KnownCluster<'a> {
    /// Service names of each namespace with known Services.
    pub services: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// True if `services` includes every namespace.
    pub is_whole: bool,
    pub pods: Vec<SelectedPod<'a>>,
}

pub struct SelectedPod<'a> {
    /// Kind, namespace and name of the pod's workload.
    pub workload: String,
    pub namespace: &'a ObjectLabels,
    pub labels: &'a ObjectLabels,
}

pub struct WebhookFinding {
    pub finding: Finding,
    pub configurations: BTreeSet<String>,
}

/// Reason for an unknown verdict: a clause with `{}` for its subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unjudged(pub &'static str);

pub const CONDITIONS: Unjudged =
    Unjudged("which pods match {}: only the API server evaluates matchConditions");

impl Unjudged {
    pub fn sentence(self, subjects: &BTreeSet<String>) -> String {
        const SHOWN: usize = 3;
        let shown = subjects.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        match subjects.len().saturating_sub(SHOWN) {
            0 => self.0.replace("{}", &shown),
            others => self.0.replace("{}", &format!("{shown} and {others} more")),
        }
    }
}

/// Checks configurations together, and passes subjects with unknown verdicts to `unjudged`.
pub fn judge(
    configurations: &[&Value],
    cluster: &KnownCluster<'_>,
    mut unjudged: impl FnMut(Unjudged, String),
) -> Vec<WebhookFinding> {
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for configuration in configurations {
        let title = configuration["metadata"]["name"].as_str().unwrap_or_default();
        for webhook in injecting(configuration) {
            let name = || format!("webhook {} of {title}", short_name(webhook));
            match of_value(configuration, webhook) {
                Some(read) => {
                    if read.is_conditional {
                        unjudged(CONDITIONS, name());
                    }
                    all.push(read);
                }
                None => unjudged(Unjudged("which pods match {}: its selector is invalid"), name()),
            }
        }
        let mut untrusted = Vec::new();
        let mut missing: BTreeMap<(String, bool), Vec<&str>> = BTreeMap::new();
        for webhook in of_pods(configuration) {
            let name = short_name(webhook);
            let Some(WebhookClient::Service { namespace, name: service }) = WebhookClient::of(webhook) else {
                continue;
            };
            // A manifest, recognized by its missing uid, may get its CA bundle elsewhere.
            let bundle = webhook["clientConfig"]["caBundle"].as_str().unwrap_or_default();
            if bundle.is_empty() && !configuration["metadata"]["uid"].is_null() {
                untrusted.push(name);
            }
            let title = format!("{namespace}/{service}");
            match cluster.services.get(namespace.as_str()) {
                None if !cluster.is_whole => {
                    let why = "whether {} of a webhook exists: the input has no Service in its namespace";
                    unjudged(Unjudged(why), format!("Service {title}"));
                }
                services if services.is_none_or(|all| !all.contains(service.as_str())) => {
                    let refuses = webhook["failurePolicy"] != "Ignore";
                    missing.entry((title, refuses)).or_default().push(name);
                }
                _ => {}
            }
        }
        let missing =
            missing.iter().map(|((service, refuses), names)| without_service(service, *refuses, names));
        let findings = missing.chain((!untrusted.is_empty()).then(|| without_bundle(&untrusted)));
        let configurations = BTreeSet::from([title.to_owned()]);
        found.extend(
            findings.map(|finding| WebhookFinding { finding, configurations: configurations.clone() }),
        );
    }
    found.extend(rivals(&all.iter().collect::<Vec<_>>(), &cluster.pods));
    found
}

fn without_service(service: &str, refuses: bool, names: &[&str]) -> Finding {
    let outcome = match refuses {
        true => "with failurePolicy Fail, the API server refuses the selected pods",
        false => "with failurePolicy Ignore, pods are created without a sidecar",
    };
    let text =
        format!("Service {service}, called by webhook {}, does not exist: {outcome}", names.join(", "));
    let remedy = "install the injector, or delete its webhook configuration";
    Finding::warning(Code::WebhookServiceMissing, "clientConfig.service", text, remedy)
}

fn without_bundle(names: &[&str]) -> Finding {
    let names = names.join(", ");
    let text = format!("missing in webhook {names}, so the API server does not trust the injector");
    let remedy = "check the injector's log: it sets caBundle for certificates that it makes";
    Finding::warning(Code::WebhookUntrusted, "clientConfig.caBundle", text, remedy)
}

/// Finds webhooks of different injectors that are called for the same pods. Returns each configuration pair's worst finding: a
/// failure for an existing pod, or for a pod with only one webhook's required labels.
pub fn rivals(webhooks: &[&Webhook], pods: &[SelectedPod<'_>]) -> Vec<WebhookFinding> {
    let mut found = BTreeMap::new();
    for (at, first) in webhooks.iter().enumerate() {
        for second in webhooks[at + 1..].iter().filter(|second| second.client != first.client) {
            let both = [*first, *second];
            let Some(finding) = of_rivals(both, pods) else { continue };
            let known = found.entry(both.map(|one| (&one.configuration, &one.client)));
            let known = known.or_insert_with(|| finding.clone());
            if finding < *known {
                *known = finding;
            }
        }
    }
    let each = found.into_iter().map(|(both, finding)| WebhookFinding {
        finding,
        configurations: both.map(|(configuration, _)| configuration.clone()).into(),
    });
    each.collect()
}

fn of_rivals(both: [&Webhook; 2], pods: &[SelectedPod<'_>]) -> Option<Finding> {
    let shared = overlap(both[0], both[1])?;
    let is_called = |pod: &&SelectedPod<'_>| both.iter().all(|one| one.matches(pod.namespace, pod.labels));
    let selected: BTreeSet<&str> = pods.iter().filter(is_called).map(|pod| &*pod.workload).collect();
    let example = match selected.first() {
        None => shared.to_string(),
        Some(first) if selected.len() == 1 => (*first).to_owned(),
        Some(first) => format!("{first} and {} more", selected.len() - 1),
    };
    let is_usual = || both.iter().any(|one| overlap(one, one).as_ref() == Some(&shared));
    let level = match !selected.is_empty() || is_usual() {
        true if both.iter().any(|one| one.is_conditional) => Level::Warning,
        true => Level::Failure,
        false => Level::Note,
    };
    let text = format!(
        "webhooks {} and {} call different injectors, and both are called for {example}",
        both[0].name, both[1].name
    );
    let remedy = "give the injectors different revisions and label by istio.io/rev, or disable one (istiod: INJECT_ENABLED=false)";
    Some(Finding { level, ..Finding::note(Code::RivalWebhooks, "", text, remedy) })
}
