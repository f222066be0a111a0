//! Findings in the text and JSON formats that all commands share.

use crate::{Style, TextLine};
use rules::finding::{Code, Finding, Level};
use serde::{Deserialize, Serialize};

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingReport {
    /// The level: failure (capture cannot work, or traffic bypasses the proxy), warning, note, or ok.
    #[serde(with = "LevelName")]
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub level: Level,
    /// The finding's code.
    pub code: String,
    /// The option, or the part of the network namespace; null if the text names it.
    pub subject: Option<String>,
    /// The human-readable text.
    pub text: String,
    /// The remedy; null if the text includes it or none is needed.
    pub remedy: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Level", rename_all = "lowercase")]
enum LevelName {
    Failure,
    Warning,
    Note,
    Ok,
}

impl From<Finding> for FindingReport {
    fn from(Finding { level, code, subject, text, remedy, edit: _ }: Finding) -> Self {
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        Self { level, code: code.name().to_owned(), subject: given(subject), text, remedy: given(remedy) }
    }
}

impl FindingReport {
    pub fn is(&self, code: Code) -> bool {
        self.code == code.name()
    }

    pub fn lines(&self) -> Vec<TextLine> {
        // The column after `warning  SI001 `.
        const TEXT: usize = 15;
        let Self { level, code, subject, text, remedy } = self;
        let style = match level {
            Level::Failure => Style::Dropped,
            Level::Warning => Style::Passing,
            Level::Note => Style::Quiet,
            Level::Ok => Style::Captured,
        };
        let line = TextLine::hanging(TEXT).styled(style, format!("{:8}", level.name()));
        let line = line.plain(format!(" {code} "));
        let line = match subject {
            Some(subject) => line.styled(Style::Strong, subject).plain(": "),
            None => line,
        };
        let remedy = remedy.iter().map(|remedy| format!("{:TEXT$}-> {remedy}", ""));
        let remedy = remedy.map(|remedy| TextLine::hanging(TEXT + 3).plain(remedy));
        [line.plain(text)].into_iter().chain(remedy).collect()
    }
}

pub fn reports(findings: &[Finding]) -> Vec<FindingReport> {
    findings.iter().cloned().map(FindingReport::from).collect()
}
