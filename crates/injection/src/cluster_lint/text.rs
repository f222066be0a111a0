//! Findings in lines for people.

use super::findings::{ClusterFinding, ClusterFindings, ConcernedObject};
use diagnose::finding::FindingReport;
use diagnose::{Style, TextLine, painted};

/// Under the text of a finding.
const HANG: usize = 15;

/// Findings in lines of so many columns, and what was not judged.
pub fn text(found: &ClusterFindings, width: usize) -> String {
    let mut lines = Vec::new();
    for finding in &found.findings {
        lines.extend(FindingReport::from(finding.finding.clone()).lines());
        lines.push(objects(finding));
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
    let pods = count(found.pods, "pod", "pods");
    let templates = count(found.templates, "workload", "workloads");
    lines.push(TextLine::hanging(2).plain(format!("{findings} in {pods} and {templates}")));
    painted(&lines, width)
}

/// `Deployment shop/web and 11 more (34 pods)`.
fn objects(finding: &ClusterFinding) -> TextLine {
    let line = TextLine::hanging(HANG).plain(" ".repeat(HANG));
    let Some(ConcernedObject { name, .. }) = finding.objects.first() else { return line };
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
    line.styled(Style::Strong, name.to_string()).plain(more + &pods)
}
