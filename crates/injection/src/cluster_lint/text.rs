//! Findings in lines for people.

use super::findings::{ClusterFinding, ClusterFindings, ConcernedObject};
use diagnose::finding::line;
use diagnose::{Style, fold};
use mesh::visible;

/// Under the text of a finding.
const HANG: usize = 15;

/// Findings in lines of so many columns, and what was not judged.
pub fn text(found: &ClusterFindings, width: usize) -> String {
    let mut out = String::new();
    for finding in &found.findings {
        out += &line(&finding.finding, width);
        out += &fold(&format!("{:HANG$}{}\n", "", objects(finding)), HANG, width);
    }
    for sentence in &found.not_judged {
        out += &fold(&format!("{} {}\n", Style::Quiet.paint("not judged:"), visible(sentence)), 4, width);
    }
    let count =
        |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let findings = match found.findings.len() {
        0 => "No findings".to_owned(),
        number => count(number, "finding", "findings"),
    };
    let pods = count(found.pods, "pod", "pods");
    let templates = count(found.templates, "workload", "workloads");
    out + &format!("{findings} in {pods} and {templates}\n")
}

/// `Deployment shop/web and 11 more (34 pods)`.
fn objects(finding: &ClusterFinding) -> String {
    let Some(ConcernedObject { name, .. }) = finding.objects.first() else { return String::new() };
    let more = match finding.objects.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let pods = match finding.pods() {
        0 => String::new(),
        1 if name.kind == "Pod" && more.is_empty() => String::new(),
        1 => " (1 pod)".to_owned(),
        pods => format!(" ({pods} pods)"),
    };
    format!("{}{more}{pods}", Style::Strong.paint(visible(&name.to_string())))
}
