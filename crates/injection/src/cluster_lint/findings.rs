//! Groups findings by text, worst first, and prints them for people or as SARIF 2.1.0.

use super::inventory::{DescribedPod, Inventory, ObjectName, name_in};
use crate::webhook::Unjudged;
use data_encoding::HEXLOWER;
use diagnose::lint::annotate::{self, FindingLocation};
use diagnose::{Style, TextLine, finding::FindingReport, painted};
use mesh::{pod::KubernetesObject, sources::ObjectPlace};
use rules::finding::{Code, Finding, Level};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const VERSION: u32 = 1;

/// Findings about a cluster's objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterLintReport {
    /// The version of the format. It increases when a field is removed or changes its meaning.
    pub version: u32,
    /// The findings, worst first; notes are included only with `--notes`.
    pub findings: Vec<ClusterItem>,
    /// Checks that need more input, each with the reason.
    pub not_judged: Vec<String>,
    /// The number of pods in the input.
    pub pod_count: usize,
    /// The number of workloads in the input.
    pub workload_count: usize,
}

/// A finding, and its objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterItem {
    #[serde(flatten)]
    pub finding: FindingReport,
    /// The objects that the finding is about: workloads in place of their pods.
    pub objects: Vec<ItemObject>,
}

/// An object of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ItemObject {
    /// Kind, namespace and name.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub object: ObjectName,
    /// The number of affected pods.
    pub pod_count: usize,
    /// The object's file; null for a cluster's object.
    pub file: Option<String>,
    /// The first line in the file; null for a cluster's object.
    pub line: Option<usize>,
    #[serde(skip)]
    place: Option<ObjectPlace>,
}

impl ClusterLintReport {
    /// Removes findings with `allowed` codes and, without `notes`, the notes.
    pub fn select(&mut self, notes: bool, allowed: &[Code]) {
        self.findings.retain(|one| {
            let is_shown = notes || one.finding.level <= Level::Warning;
            is_shown && !allowed.iter().any(|code| one.finding.is(*code))
        });
    }

    pub fn has_warning(&self) -> bool {
        self.findings.iter().any(|one| one.finding.level <= Level::Warning)
    }
}

impl ClusterItem {
    pub fn pods(&self) -> usize {
        self.objects.iter().map(|object| object.pod_count).sum()
    }

    /// Sort key: the worst first, then findings about every new pod, then by the number of pods and objects.
    fn rank(&self) -> (Level, bool, Reverse<usize>, Reverse<usize>) {
        let of_webhooks = [Code::RivalWebhooks, Code::WebhookServiceMissing, Code::WebhookUntrusted];
        let concerns_all = of_webhooks.into_iter().any(|code| self.finding.is(code));
        (self.finding.level, !concerns_all, Reverse(self.pods()), Reverse(self.objects.len()))
    }
}

#[derive(Default)]
pub(super) struct FindingGroups {
    groups: BTreeMap<Finding, BTreeMap<ObjectName, GroupedObject>>,
    not_judged: BTreeMap<Unjudged, BTreeSet<String>>,
}

/// The number of a group's existing pods, and the location of its template or first pod.
type GroupedObject = (usize, Option<ObjectPlace>);

impl FindingGroups {
    pub(super) fn about(&mut self, finding: Finding, pod: &DescribedPod<'_>) {
        self.add(finding, &pod.workload, pod.read.origin.place.as_ref(), pod.is_pod);
    }

    pub(super) fn about_object(&mut self, finding: Finding, object: &KubernetesObject, namespace: &str) {
        self.add(finding, &name_in(object, namespace), object.place.as_ref(), false);
    }

    fn add(&mut self, finding: Finding, name: &ObjectName, place: Option<&ObjectPlace>, is_pod: bool) {
        let objects = self.groups.entry(finding).or_default();
        let (pods, known) = objects.entry(name.clone()).or_default();
        *pods += usize::from(is_pod);
        // A workload is changed in its template, if the input has one.
        if known.is_none() || !is_pod {
            *known = place.cloned().or(known.take());
        }
    }

    pub(super) fn not_judged(&mut self, why: Unjudged, about: impl Into<String>) {
        self.not_judged.entry(why).or_default().insert(about.into());
    }

    pub(super) fn finish(self, inventory: &Inventory<'_>) -> ClusterLintReport {
        let object = |(object, (pod_count, place)): (ObjectName, GroupedObject)| {
            let file = place.as_ref().map(|place| place.file.to_string());
            let line = place.as_ref().map(|place| place.lines.start);
            ItemObject { object, pod_count, file, line, place }
        };
        let group = |(finding, objects): (Finding, BTreeMap<_, _>)| ClusterItem {
            finding: finding.into(),
            objects: objects.into_iter().map(object).collect(),
        };
        let mut findings: Vec<ClusterItem> = self.groups.into_iter().map(group).collect();
        findings.sort_by_cached_key(ClusterItem::rank);
        let pod_count = inventory.pods.iter().filter(|pod| pod.is_pod).count();
        ClusterLintReport {
            version: VERSION,
            findings,
            not_judged: self.not_judged.iter().map(|(why, names)| why.sentence(names)).collect(),
            pod_count,
            workload_count: inventory.pods.len() - pod_count,
        }
    }
}

const HANG: usize = 15;
const FINGERPRINT: &str = "sidecarFinding/v1";

pub fn text(found: &ClusterLintReport, width: usize) -> String {
    let mut lines = Vec::new();
    for item in &found.findings {
        lines.extend(item.finding.lines());
        lines.push(objects(item));
    }
    for sentence in &found.not_judged {
        lines.push(TextLine::hanging(4).styled(Style::Quiet, "not checked:").plain(format!(" {sentence}")));
    }
    let findings = match found.findings.len() {
        0 => "No findings".to_owned(),
        number => counted(number, "finding"),
    };
    let (pods, workloads) = (counted(found.pod_count, "pod"), counted(found.workload_count, "workload"));
    lines.push(TextLine::hanging(2).plain(format!("{findings} in {pods} and {workloads}")));
    painted(&lines, width)
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats objects as `Deployment shop/web and 11 more (34 pods)`.
fn objects(item: &ClusterItem) -> TextLine {
    let line = TextLine::hanging(HANG).plain(" ".repeat(HANG));
    let Some(ItemObject { object, .. }) = item.objects.first() else { return line };
    let more = match item.objects.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let pods = match item.pods() {
        0 => String::new(),
        1 if object.kind == "Pod" && more.is_empty() => String::new(),
        pods => format!(" ({})", counted(pods, "pod")),
    };
    line.styled(Style::Strong, object.to_string()).plain(more + &pods)
}

/// Returns a SARIF log with a result for each object, located by file and line, or by name in a cluster.
pub fn sarif(found: &ClusterLintReport, version: &str) -> String {
    let mut seen = BTreeMap::new();
    let each = found.findings.iter();
    let each = each.flat_map(|one| one.objects.iter().map(move |object| (&one.finding, object)));
    let results: Vec<Value> = each.map(|(finding, object)| result(finding, object, &mut seen)).collect();
    annotate::sarif(&results, version)
}

fn result(finding: &FindingReport, object: &ItemObject, seen: &mut BTreeMap<String, usize>) -> Value {
    let title = object.object.to_string();
    let (file, place) = (object.file.as_deref(), object.place.as_ref());
    let location = FindingLocation { file, place, title: Some(&title) };
    let mut result = annotate::sarif_results(std::slice::from_ref(finding), &location).remove(0);
    if file.is_none() {
        result["locations"] = json!([{}]);
    }
    let kind = object.object.kind.to_lowercase();
    result["locations"][0]["logicalLocations"] = json!([{ "fullyQualifiedName": title, "kind": kind }]);
    result["partialFingerprints"] = json!({ FINGERPRINT: fingerprint(finding, &title, seen) });
    result
}

/// Hash of the parts that survive moved lines and new wording: code, subject, and index among equals.
fn fingerprint(finding: &FindingReport, title: &str, seen: &mut BTreeMap<String, usize>) -> String {
    let what = format!("{} {} {title}", finding.code, finding.subject.as_deref().unwrap_or_default());
    let number = seen.entry(what.clone()).or_default();
    *number += 1;
    HEXLOWER.encode(&Sha256::digest(format!("{what} {number}"))[..16])
}
