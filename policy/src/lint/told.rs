//! Findings as they are told, with what reading the words has remarked.

use super::{Finding, Level};
use crate::Subject;
use serde::Serialize;
use std::fmt;

/// A finding as people and programs read it.
#[derive(Clone, Debug, Serialize)]
pub struct Item<'a> {
    level: &'static str,
    option: Option<&'a str>,
    text: &'a str,
    remedy: Option<&'a str>,
}

/// All that is odd about a subject: how it is said, the `warnings` of reading it, and findings.
pub fn items<'a>(subject: &'a Subject, warnings: &'a [String], findings: &'a [Finding]) -> Vec<Item<'a>> {
    let said = subject.warnings_of_form().iter().chain(warnings);
    said.map(|text| Item::said(text)).chain(findings.iter().map(Item::from)).collect()
}

impl<'a> Item<'a> {
    /// A remark that reading the flags has made; it names the option itself.
    fn said(text: &'a str) -> Self {
        Self { level: word(Level::Warning), option: None, text, remedy: None }
    }

    /// Whether it is most probably not what was meant.
    pub fn is_warning(&self) -> bool {
        self.level == word(Level::Warning)
    }
}

impl<'a> From<&'a Finding> for Item<'a> {
    fn from(finding: &'a Finding) -> Self {
        let Finding { level, option, text, remedy } = finding;
        Self { level: word(*level), option: Some(option), text, remedy: Some(remedy) }
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Warning => "warning",
        Level::Note => "note",
    }
}

impl fmt::Display for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = self.option.map(|option| format!("{option}: ")).unwrap_or_default();
        let remedy = self.remedy.map(|remedy| format!("\n         -> {remedy}")).unwrap_or_default();
        writeln!(f, "{:8} {option}{}{remedy}", self.level, self.text)
    }
}
