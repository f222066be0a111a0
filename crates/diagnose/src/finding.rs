//! Findings in their forms for people and for programs, which all commands share.

use crate::{Style, fold};
use mesh::visible;
use rules::finding::{Finding, Level};
use serde::{Serialize, Serializer};

/// A finding.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingReport<'a> {
    /// The level: failure (capture cannot work, or traffic bypasses the proxy), warning, note, or ok.
    #[serde(serialize_with = "serialize_level")]
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    level: Level,
    /// The code of the finding.
    code: &'static str,
    /// The option, or the part of the network namespace; null if the text names it.
    subject: Option<&'a str>,
    /// The text for people.
    text: &'a str,
    /// The remedy; null if the text includes it, or nothing has to be done.
    remedy: Option<&'a str>,
}

fn serialize_level<S: Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level.name())
}

/// Writes findings, for `serialize_with`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_findings<S: Serializer>(findings: &[Finding], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(findings.iter().map(FindingReport::from))
}

impl<'a> From<&'a Finding> for FindingReport<'a> {
    fn from(Finding { level, code, subject, text, remedy, edit: _ }: &'a Finding) -> Self {
        let given = |text: &'a String| Some(text.as_str()).filter(|text| !text.is_empty());
        Self { level: *level, code: code.name(), subject: given(subject), text, remedy: given(remedy) }
    }
}

/// A finding in lines of at most `width` columns, except where a word is longer.
pub fn line(finding: &Finding, width: usize) -> String {
    // The column behind `warning  SI001 `.
    const TEXT: usize = 15;
    let FindingReport { level, code, subject, text, remedy } = FindingReport::from(finding);
    let style = match level {
        Level::Failure => Style::Dropped,
        Level::Warning => Style::Passing,
        Level::Note => Style::Quiet,
        Level::Ok => Style::Captured,
    };
    let subject = subject.map(|subject| format!("{}: ", Style::Strong.paint(visible(subject))));
    let (subject, text) = (subject.unwrap_or_default(), visible(text));
    let line = format!("{:8} {code} {subject}{text}\n", style.paint(level.name()));
    let remedy = remedy.map(|remedy| format!("{:TEXT$}-> {}\n", "", visible(remedy)));
    fold(&line, TEXT, width) + &fold(&remedy.unwrap_or_default(), TEXT + 3, width)
}
