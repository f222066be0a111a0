//! Findings as they are told, with what reading the words has remarked.

use super::{Finding, Level};
use crate::{Subject, Tone, fold};
use serde::Serialize;

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

impl Item<'_> {
    /// It in lines of so many columns, where words allow it.
    pub fn text(&self, width: usize) -> String {
        const TEXT: usize = 9;
        let tone = if self.is_warning() { Tone::Passing } else { Tone::Quiet };
        let option =
            self.option.map(|option| format!("{}: ", Tone::Strong.paint(option))).unwrap_or_default();
        let line = format!("{:8} {option}{}\n", tone.paint(self.level), self.text);
        let remedy = self.remedy.map(|remedy| format!("{:TEXT$}-> {remedy}\n", "")).unwrap_or_default();
        fold(&line, TEXT, width) + &fold(&remedy, TEXT + 3, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_hang_below_their_text() {
        let finding = Item {
            level: word(Level::Warning),
            option: Some("-d"),
            text: "has no effect at all",
            remedy: Some("drop the option"),
        };
        assert_eq!(
            crate::fold::plain(&finding.text(24)),
            "warning  -d: has no\n         effect at all\n         -> drop the\n            option\n"
        );
    }
}
