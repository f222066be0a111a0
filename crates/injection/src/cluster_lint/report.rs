//! Findings as programs read them.

use super::findings::ClusterFindings;
use diagnose::finding::FindingReport;
use serde::Serialize;

/// The version of the form. A new field does not raise it; a removed one, or one with another meaning, does.
const VERSION: u32 = 1;

/// The findings about the objects of a cluster.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterLintReport<'a> {
    /// The version of the format. It increases when a field is removed or changes its meaning.
    pub version: u32,
    /// The findings, worst first; notes are among them with `--notes` alone.
    pub findings: Vec<ClusterItem<'a>>,
    /// What the input was not enough to judge, and why.
    pub not_judged: &'a [String],
    /// The number of pods in the input.
    pub pod_count: usize,
    /// The number of workloads in the input.
    pub workload_count: usize,
}

/// A finding, and what it is about.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterItem<'a> {
    #[serde(flatten)]
    pub finding: FindingReport,
    /// The objects that the finding is about: workloads in place of their pods.
    pub objects: Vec<ItemObject<'a>>,
}

/// An object of a finding.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ItemObject<'a> {
    /// Its kind, namespace and name.
    pub object: String,
    /// The number of its existing pods that are meant.
    pub pod_count: usize,
    /// The file that holds it; null for an object of a cluster.
    pub file: Option<&'a str>,
    /// Its first line in the file; null for an object of a cluster.
    pub line: Option<usize>,
}

/// The findings as they are serialized.
pub fn report(found: &ClusterFindings) -> ClusterLintReport<'_> {
    let findings = found.findings.iter().map(|finding| {
        let objects = finding.objects.iter().map(|object| {
            let place = object.place.as_ref();
            ItemObject {
                object: object.name.to_string(),
                pod_count: object.pods,
                file: place.map(|place| &*place.file),
                line: place.map(|place| place.line),
            }
        });
        ClusterItem { finding: finding.finding.clone().into(), objects: objects.collect() }
    });
    ClusterLintReport {
        version: VERSION,
        findings: findings.collect(),
        not_judged: &found.not_judged,
        pod_count: found.pods,
        workload_count: found.templates,
    }
}
