//! Findings as lines for people, and as SARIF 2.1.0.

use super::findings::{ClusterItem, ClusterLintReport, ItemObject};
use data_encoding::HEXLOWER;
use diagnose::finding::FindingReport;
use diagnose::lint::annotate::{self, FindingLocation};
use diagnose::{Style, TextLine, painted};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Under the text of a finding.
const HANG: usize = 15;
/// The name and the version of the fingerprints' recipe.
const FINGERPRINT: &str = "sidecarFinding/v1";

/// `width` is in columns.
pub fn text(found: &ClusterLintReport, width: usize) -> String {
    let mut lines = Vec::new();
    for item in &found.findings {
        lines.extend(item.finding.lines());
        lines.push(objects(item));
    }
    for sentence in &found.not_judged {
        lines.push(TextLine::hanging(4).styled(Style::Quiet, "not judged:").plain(format!(" {sentence}")));
    }
    let count =
        |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let findings = match found.findings.len() {
        0 => "No findings".to_owned(),
        number => count(number, "finding", "findings"),
    };
    let pods = count(found.pod_count, "pod", "pods");
    let templates = count(found.workload_count, "workload", "workloads");
    lines.push(TextLine::hanging(2).plain(format!("{findings} in {pods} and {templates}")));
    painted(&lines, width)
}

/// `Deployment shop/web and 11 more (34 pods)`.
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
        1 => " (1 pod)".to_owned(),
        pods => format!(" ({pods} pods)"),
    };
    line.styled(Style::Strong, object.to_string()).plain(more + &pods)
}

/// A SARIF log: a result for each object, at its line in its file; results about objects of a cluster have names in place of lines.
pub fn sarif(found: &ClusterLintReport, version: &str) -> String {
    let mut seen = BTreeMap::new();
    let each = found.findings.iter();
    let each = each.flat_map(|one| one.objects.iter().map(move |object| (&one.finding, object)));
    let results: Vec<Value> = each.map(|(finding, object)| result(finding, object, &mut seen)).collect();
    annotate::sarif(&results, version)
}

fn result(finding: &FindingReport, object: &ItemObject, seen: &mut BTreeMap<String, usize>) -> Value {
    let title = object.object.to_string();
    let location = FindingLocation { file: object.file.as_deref(), text: &object.text, title: Some(&title) };
    let mut result = annotate::sarif_results(std::slice::from_ref(finding), &location).remove(0);
    if let Some(first) = object.line {
        let line = &mut result["locations"][0]["physicalLocation"]["region"]["startLine"];
        // It was counted within the object's own text.
        *line = (line.as_u64().unwrap_or(1) + first as u64 - 1).into();
    } else {
        result["locations"] = json!([{}]);
    }
    let kind = object.object.kind.to_lowercase();
    result["locations"][0]["logicalLocations"] = json!([{ "fullyQualifiedName": title, "kind": kind }]);
    result["partialFingerprints"] = json!({ FINGERPRINT: fingerprint(finding, &title, seen) });
    result
}

/// Parts of a finding that stay the same while lines move and words change: code, subject, and number among several.
fn fingerprint(finding: &FindingReport, title: &str, seen: &mut BTreeMap<String, usize>) -> String {
    let what = format!("{} {} {title}", finding.code, finding.subject.as_deref().unwrap_or_default());
    let number = seen.entry(what.clone()).or_default();
    *number += 1;
    HEXLOWER.encode(&Sha256::digest(format!("{what} {number}"))[..16])
}
