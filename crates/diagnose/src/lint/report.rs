//! The report of findings, with the remarks of reading the settings.

use super::{Code, Finding, Level};
use crate::finding::FindingReport;
use crate::{Subject, painted};

/// All findings about a subject, the worst first: remarks about its form, the `warnings` of reading it, and `findings`.
pub fn all(subject: &Subject, warnings: &[String], findings: Vec<Finding>) -> Vec<Finding> {
    let of_value = |text: &String| Finding::plain(Level::Warning, Code::SurprisingValue, text);
    let mut all = subject.warnings_of_form().to_vec();
    all.extend(warnings.iter().map(of_value));
    all.extend(findings);
    all.sort_by_key(|finding| finding.level);
    all
}

/// The findings in lines of at most `width` columns; `No findings` where there are none.
pub fn text(findings: &[FindingReport], width: usize) -> String {
    match findings {
        [] => "No findings\n".to_owned(),
        findings => findings.iter().map(|finding| painted(&finding.lines(), width)).collect(),
    }
}
