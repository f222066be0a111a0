//! Findings as SARIF 2.1.0: a result for each object, at its line where it is written in a file.

use super::findings::{ClusterFindings, ConcernedObject};
use data_encoding::HEXLOWER;
use diagnose::lint::annotate::{self, FindingLocation};
use rules::finding::Finding;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The name and the version of the fingerprints' recipe.
const FINGERPRINT: &str = "sidecarFinding/v1";

/// A log of SARIF. Results about objects of a cluster have their names in place of lines.
pub fn sarif(found: &ClusterFindings, version: &str) -> String {
    let mut seen = BTreeMap::new();
    let each = found.findings.iter();
    let each = each.flat_map(|one| one.objects.iter().map(move |object| (&one.finding, object)));
    let results: Vec<Value> = each.map(|(finding, object)| result(finding, object, &mut seen)).collect();
    annotate::sarif(&results, version)
}

fn result(finding: &Finding, object: &ConcernedObject, seen: &mut BTreeMap<String, usize>) -> Value {
    let title = object.name.to_string();
    let place = object.place.as_ref();
    let location = FindingLocation {
        file: place.map(|place| &*place.file),
        text: place.map_or("", |place| &place.text),
        title: Some(&title),
    };
    let mut result = annotate::sarif_results(&[finding.clone().into()], &location).remove(0);
    if let Some(place) = place {
        let line = &mut result["locations"][0]["physicalLocation"]["region"]["startLine"];
        // It was counted within the object's own text.
        *line = (line.as_u64().unwrap_or(1) + place.line as u64 - 1).into();
    } else {
        result["locations"] = json!([{}]);
    }
    let kind = object.name.kind.to_lowercase();
    result["locations"][0]["logicalLocations"] = json!([{ "fullyQualifiedName": title, "kind": kind }]);
    result["partialFingerprints"] = json!({ FINGERPRINT: fingerprint(finding, &title, seen) });
    result
}

/// What stays the same of a finding while lines move and words change: its code, what it is about, and which of several.
fn fingerprint(finding: &Finding, title: &str, seen: &mut BTreeMap<String, usize>) -> String {
    let what = format!("{} {} {title}", finding.code, finding.subject);
    let number = seen.entry(what.clone()).or_default();
    *number += 1;
    HEXLOWER.encode(&Sha256::digest(format!("{what} {number}"))[..16])
}
