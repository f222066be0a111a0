//! Findings by what they say, each with all objects that it is about, worst first.

use super::inventory::{DescribedPod, Inventory};
use super::object::{ClusterObject, ObjectName, ObjectPlace};
use rules::finding::{Code, Finding, Level};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A finding about objects of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterFinding {
    /// Its option and its remedy may be empty, where the text has them.
    pub finding: Finding,
    /// In the order of their names.
    pub objects: Vec<ConcernedObject>,
}

/// An object that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConcernedObject {
    /// The workload, where the finding is about its pods.
    pub name: ObjectName,
    /// How many existing pods of it are meant.
    pub pods: usize,
    /// Where it is written, or the first of its pods.
    pub place: Option<ObjectPlace>,
}

/// The findings about a set of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFindings {
    pub findings: Vec<ClusterFinding>,
    /// What the objects were not enough to judge, and why, each in a sentence without its stop.
    pub not_judged: Vec<String>,
    /// How many pods and templates of pods were looked at.
    pub pods: usize,
    pub templates: usize,
}

impl ClusterFindings {
    /// Keeps warnings, and notes where they are wanted too, of all codes but these.
    pub fn select(&mut self, notes: bool, allowed: &[Code]) {
        self.findings.retain(|one| {
            let is_shown = notes || one.finding.level == Level::Warning;
            is_shown && !allowed.contains(&one.finding.code)
        });
    }

    pub fn has_warning(&self) -> bool {
        self.findings.iter().any(|one| one.finding.level == Level::Warning)
    }
}

impl ClusterFinding {
    /// How many existing pods it is about.
    pub fn pods(&self) -> usize {
        self.objects.iter().map(|object| object.pods).sum()
    }

    /// Warnings first; among them what concerns every pod that is made, then by the number of pods and objects.
    fn rank(&self) -> (Level, bool, Reverse<usize>, Reverse<usize>) {
        let of_webhooks = [Code::RivalWebhooks, Code::WebhookServiceMissing, Code::WebhookUntrusted];
        let concerns_all = of_webhooks.contains(&self.finding.code);
        (self.finding.level, !concerns_all, Reverse(self.pods()), Reverse(self.objects.len()))
    }
}

/// Findings as they come.
#[derive(Default)]
pub(super) struct FindingGroups {
    groups: BTreeMap<Finding, BTreeMap<ObjectName, ConcernedObject>>,
    not_judged: BTreeMap<Unjudged, BTreeSet<String>>,
}

/// What can't be judged, and why. Each has the names of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unjudged {
    /// Nothing is known of any webhook.
    NoWebhooks,
    UnknownNamespace,
    NoConfiguration,
    BadConfiguration,
    Conditions,
    Selector,
    WebhookService,
    Unread,
}

impl Unjudged {
    fn sentence(self, names: &BTreeSet<String>) -> String {
        let listed = few(names);
        match self {
            Self::NoWebhooks => {
                "which pods are to be injected: the input has no MutatingWebhookConfiguration".to_owned()
            }
            Self::UnknownNamespace => {
                format!(
                    "whether pods of {listed} are to be injected: the input does not have the labels of the namespace"
                )
            }
            Self::NoConfiguration => format!(
                "the policy and the selectors of {listed}: the input does not have its ConfigMap, so that Istio's defaults are assumed"
            ),
            Self::BadConfiguration => format!("the policy and the selectors of an injector: {listed}"),
            Self::Conditions => {
                format!("for which pods {listed} is called: only the API server evaluates matchConditions")
            }
            Self::Selector => format!("for which pods {listed} is called: its selector is invalid"),
            Self::WebhookService => {
                format!(
                    "whether {listed} exists, which a webhook calls: the input has no Service of its namespace"
                )
            }
            Self::Unread => format!("objects that can't be read: {listed}"),
        }
    }
}

/// The first names of a set.
fn few(names: &BTreeSet<String>) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        others => format!("{} and {others} more", shown.join(", ")),
    }
}

impl FindingGroups {
    /// Adds a finding about a pod or a template.
    pub(super) fn about(&mut self, finding: Finding, pod: &DescribedPod<'_>) {
        self.add(finding, &pod.workload, pod.place, pod.is_pod);
    }

    /// Adds a finding about another object.
    pub(super) fn about_object(&mut self, finding: Finding, object: &ClusterObject, namespace: &str) {
        self.add(finding, &object.name_in(namespace), object.place.as_ref(), false);
    }

    fn add(&mut self, finding: Finding, name: &ObjectName, place: Option<&ObjectPlace>, is_pod: bool) {
        let objects = self.groups.entry(finding).or_default();
        let object = objects.entry(name.clone()).or_insert_with(|| ConcernedObject {
            name: name.clone(),
            pods: 0,
            place: None,
        });
        object.pods += usize::from(is_pod);
        // Where the template of a workload is written, the change is made there.
        if object.place.is_none() || !is_pod {
            object.place = place.cloned().or(object.place.take());
        }
    }

    pub(super) fn not_judged(&mut self, why: Unjudged, about: impl Into<String>) {
        self.not_judged.entry(why).or_default().insert(about.into());
    }

    pub(super) fn finish(mut self, inventory: &Inventory<'_>) -> ClusterFindings {
        for problem in &inventory.unread {
            self.not_judged(Unjudged::Unread, problem);
        }
        let group = |(finding, objects): (Finding, BTreeMap<_, ConcernedObject>)| ClusterFinding {
            finding,
            objects: objects.into_values().collect(),
        };
        let mut findings: Vec<ClusterFinding> = self.groups.into_iter().map(group).collect();
        findings.sort_by_cached_key(ClusterFinding::rank);
        let pods = inventory.pods.iter().filter(|pod| pod.is_pod).count();
        ClusterFindings {
            findings,
            not_judged: self.not_judged.iter().map(|(why, names)| why.sentence(names)).collect(),
            pods,
            templates: inventory.pods.len() - pods,
        }
    }
}
