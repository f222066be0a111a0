//! The report of findings, with the remarks of reading the settings.

use super::{Code, Finding, Level};
use crate::{Style, Subject, fold};
use mesh::visible;
use rules::finding::NamespaceFinding;
use serde::Serialize;

/// A finding.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Item<'a> {
    /// The level: warning or note.
    pub level: &'static str,
    /// The code of the finding.
    pub code: &'static str,
    /// The option; null if the text names it.
    pub option: Option<&'a str>,
    /// The text for people.
    pub text: &'a str,
    /// The remedy; null if the text includes it.
    pub remedy: Option<&'a str>,
}

/// All findings about a subject, warnings first: remarks about its form, the `warnings` of reading it, and `findings`.
pub fn items<'a>(subject: &'a Subject, warnings: &'a [String], findings: &'a [Finding]) -> Vec<Item<'a>> {
    let of_form =
        subject.warnings_of_form().iter().map(|remark| Item::plain(remark.level, remark.code, &remark.text));
    let of_values = warnings.iter().map(|text| Item::plain(Level::Warning, Code::SurprisingValue, text));
    let mut items: Vec<Item<'_>> = of_form.chain(of_values).chain(findings.iter().map(Item::from)).collect();
    items.sort_by_key(|item| !item.is_warning());
    items
}

/// The findings in lines of at most `width` columns; `No findings` where there are none.
pub fn text(items: &[Item<'_>], width: usize) -> String {
    match items {
        [] => "No findings\n".to_owned(),
        items => items.iter().map(|item| item.text(width)).collect(),
    }
}

impl<'a> Item<'a> {
    /// A remark of reading the manifest or the settings: its text names the option and the remedy.
    fn plain(level: Level, code: Code, text: &'a str) -> Self {
        Self { level: word(level), code: code.name(), option: None, text, remedy: None }
    }

    /// A finding of `status` about live rules, whose settings are not known. It has no code, so its topic is in that place.
    pub fn of_rules(finding: &'a NamespaceFinding) -> Self {
        let NamespaceFinding { topic, text, remedy, .. } = finding;
        Self { level: word(Level::Warning), code: topic, option: None, text, remedy: remedy.as_deref() }
    }

    /// Whether it is most probably unintended.
    pub fn is_warning(&self) -> bool {
        self.level == word(Level::Warning)
    }

    /// The finding in lines of at most `width` columns, except where a word is longer.
    pub fn text(&self, width: usize) -> String {
        // The column behind `warning  SI001 `.
        const TEXT: usize = 15;
        let style = if self.is_warning() { Style::Passing } else { Style::Quiet };
        let option = self.option.map(|option| format!("{}: ", Style::Strong.paint(visible(option))));
        let (option, text) = (option.unwrap_or_default(), visible(self.text));
        let line = format!("{:8} {} {option}{text}\n", style.paint(self.level), self.code);
        let remedy = self.remedy.map(|remedy| format!("{:TEXT$}-> {}\n", "", visible(remedy)));
        let remedy = remedy.unwrap_or_default();
        fold(&line, TEXT, width) + &fold(&remedy, TEXT + 3, width)
    }
}

impl<'a> From<&'a Finding> for Item<'a> {
    fn from(finding: &'a Finding) -> Self {
        let Finding { level, code, option, text, remedy, edit: _ } = finding;
        Self { level: word(*level), code: code.name(), option: Some(option), text, remedy: Some(remedy) }
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Warning => "warning",
        Level::Note => "note",
    }
}
