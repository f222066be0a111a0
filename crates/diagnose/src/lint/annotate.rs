//! Findings in formats that pull requests show beside a file's lines: SARIF 2.1.0, and GitHub workflow commands.

use super::{Code, Level};
use crate::finding::FindingReport;
use mesh::sources::ObjectPlace;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, Default)]
pub struct FindingLocation<'a> {
    /// Path of the manifest; `None` for flags and standard input.
    pub file: Option<&'a str>,
    pub place: Option<&'a ObjectPlace>,
    pub title: Option<&'a str>,
}

/// Renders one line per finding, such as `::warning file=pod.yaml,line=7,title=SI007::TEXT`.
pub fn github(findings: &[FindingReport], place: &FindingLocation<'_>) -> String {
    let line = |finding: &FindingReport| {
        let command = match finding.level {
            Level::Failure => "error",
            Level::Warning => "warning",
            Level::Note | Level::Ok => "notice",
        };
        let file =
            place.file.map(|file| format!("file={},line={},", escape_property(file), place.line(finding)));
        let text = escape_data(&place.message(finding));
        format!("::{command} {}title={}::{text}\n", file.unwrap_or_default(), finding.code)
    };
    findings.iter().map(line).collect()
}

pub fn sarif_results(findings: &[FindingReport], place: &FindingLocation<'_>) -> Vec<Value> {
    let result = |finding: &FindingReport| {
        let mut result = json!({
            "ruleId": finding.code,
            "level": if finding.level == Level::Failure { "error" } else { finding.level.name() },
            "message": { "text": place.message(finding) },
        });
        if let Some(file) = place.file {
            result["locations"] = json!([{
                "physicalLocation": {
                    "artifactLocation": { "uri": uri(file) },
                    "region": { "startLine": place.line(finding) },
                }
            }]);
        }
        result
    };
    findings.iter().map(result).collect()
}

pub fn sarif(results: &[Value], version: &str) -> String {
    let mut rules: Vec<&str> = results.iter().filter_map(|result| result["ruleId"].as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let rules: Vec<Value> = rules.into_iter().map(rule).collect();
    let driver = json!({ "name": "sidecar-init", "version": version, "rules": rules });
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{ "tool": { "driver": driver }, "results": results }],
    });
    format!("{log:#}\n")
}

fn rule(id: &str) -> Value {
    let about = Code::named(id).map_or(id, |code| code.about());
    json!({
        "id": id,
        "shortDescription": { "text": about },
        "fullDescription": { "text": about },
        "help": { "text": format!("{about} The result has the remedy. sidecar-init help findings lists all codes.") },
    })
}

impl FindingLocation<'_> {
    fn message(&self, finding: &FindingReport) -> String {
        let title = self.title.map(|title| format!("{title}: ")).unwrap_or_default();
        let FindingReport { subject, text, remedy, .. } = finding;
        let subject = subject.as_ref().map(|subject| format!("{subject}: ")).unwrap_or_default();
        let remedy = remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        format!("{title}{subject}{text}{remedy}")
    }

    /// First line of the object with a word of the finding; else the object's first line.
    fn line(&self, finding: &FindingReport) -> usize {
        let Some(place) = self.place else { return 1 };
        let own = place.own_text();
        let lines: Vec<&str> = own.lines().collect();
        let words = finding.subject.as_deref().into_iter().chain(finding.text.split_whitespace());
        let words = words.map(|word| word.trim_matches([',', ':', '"', '\'', ';'])).filter(|word| {
            // Only annotations, variables, long flags and fields: other words occur anywhere.
            word.len() > 4
                && (word.contains(['/', '_', '=']) || word.starts_with("--") || word.starts_with("runAs"))
        });
        let of_word = |word: &str| lines.iter().position(|line| line.contains(word));
        place.lines.start + words.into_iter().find_map(of_word).unwrap_or_default()
    }
}

fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Path as a URI reference (RFC 3986).
fn uri(path: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._~-".contains(byte);
    let escaped = path.bytes().map(|byte| match is_plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    let scheme = if path.starts_with('/') { "file://" } else { "" };
    format!("{scheme}{}", escaped.collect::<String>())
}
