//! The explanation of one packet, read from its document (`docs/schemas/explain.json`), and its text.

use crate::failure::visible;
use diagnose::{Style, fold};
use serde::Deserialize;
use serde_json::Value;

/// What becomes of a packet by one source of rules.
#[derive(Clone, Debug)]
pub(crate) struct ExplainedPacket {
    pub(crate) document: Value,
    pub(crate) verdict: PacketVerdict,
    /// The verdict and its reason.
    pub(crate) sentence: String,
    /// For people, without the basis.
    pub(crate) text: String,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketVerdict {
    /// The proxy gets it at a port, or at the first of several.
    Captured(Option<u16>),
    Passing,
    Dropped,
    Unknown,
    /// It depends on what the question leaves open.
    Depends,
    /// It can't be sent.
    Unsent,
}

#[derive(Debug, Deserialize)]
struct ExplanationDocument {
    verdict: String,
    port: Option<u16>,
    last_port: Option<u16>,
    decided_by: Option<DecidingRule>,
    destination: Option<String>,
    destination_port: u16,
    source: Option<String>,
    unsent: Option<String>,
    trace: Vec<RuleInDocument>,
    #[serde(default)]
    limits: Vec<LimitInDocument>,
    #[serde(default)]
    cases: Vec<CaseInDocument>,
}

#[derive(Debug, Deserialize)]
struct CaseInDocument {
    text: String,
    summary: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct DecidingRule {
    table: String,
    chain: String,
    position: Option<usize>,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct RuleInDocument {
    table: String,
    chain: String,
    position: usize,
    text: String,
    matched: Option<bool>,
    option: Option<String>,
}

#[derive(Debug, Deserialize)]
struct LimitInDocument {
    text: String,
    remedy: String,
}

/// Where a rule's text begins in its line.
const RULE: usize = 6;

impl ExplainedPacket {
    /// Reads a document for a screen of so many columns.
    ///
    /// # Errors
    /// Where it has another form.
    pub(crate) fn read(document: Value, width: usize) -> Result<Self, String> {
        let read = ExplanationDocument::deserialize(&document);
        let read = read.map_err(|error| format!("printed an explanation of another form ({error})"))?;
        let verdict = match (&read.unsent, &*read.verdict) {
            (Some(_), _) => PacketVerdict::Unsent,
            (None, "redirect" | "tproxy") => PacketVerdict::Captured(read.port),
            (None, "pass") => PacketVerdict::Passing,
            (None, "drop") => PacketVerdict::Dropped,
            (None, "unknown") => PacketVerdict::Unknown,
            (None, "depends") => PacketVerdict::Depends,
            (None, other) => return Err(format!("printed the unknown verdict {other:?}")),
        };
        let (sentence, text) = (visible(&read.sentence()), read.text(verdict, width));
        Ok(Self { document, verdict, sentence, text })
    }

    /// Whether the proxy gets it; `None` where that is not known, or it gets nowhere.
    pub(crate) fn is_captured(&self) -> Option<bool> {
        match self.verdict {
            PacketVerdict::Captured(_) => Some(true),
            PacketVerdict::Passing => Some(false),
            PacketVerdict::Dropped
            | PacketVerdict::Unknown
            | PacketVerdict::Depends
            | PacketVerdict::Unsent => None,
        }
    }
}

impl ExplanationDocument {
    fn head(&self) -> String {
        let to = match &self.destination {
            Some(address) if address.contains(':') => format!("[{address}]:{}", self.destination_port),
            Some(address) => format!("{address}:{}", self.destination_port),
            None => format!("port {}", self.destination_port),
        };
        let ports = match (self.port, self.last_port) {
            (Some(first), Some(last)) => format!("ports {first}-{last}"),
            (Some(port), None) => format!("port {port}"),
            (None, _) => "port".to_owned(),
        };
        match &*self.verdict {
            "redirect" => format!("captured: goes to the proxy's {ports}"),
            "tproxy" => format!("captured: handed unchanged to the proxy's {ports}"),
            "pass" => format!("not captured: goes to {to} as it was sent"),
            "drop" => "dropped: never arrives".to_owned(),
            "depends" => {
                let case = |case: &CaseInDocument| {
                    let CaseInDocument { text, summary, reason } = case;
                    format!("{text} {summary}, because {reason}")
                };
                let cases: Vec<String> = self.cases.iter().map(case).collect();
                format!("depends: {}", visible(&cases.join("; ")))
            }
            _ => "unknown: the verdict can't be determined".to_owned(),
        }
    }

    fn reason(&self) -> &str {
        match (&self.decided_by, &self.trace[..]) {
            (Some(rule), _) => rule.reason.as_str(),
            (None, []) => "it meets no rule",
            (None, _) => "no rule that it meets decides",
        }
    }

    fn sentence(&self) -> String {
        match self.cases.is_empty() {
            true => format!("{}, because {}", self.head(), self.reason()),
            false => self.head(),
        }
    }

    fn text(&self, verdict: PacketVerdict, width: usize) -> String {
        let mut text = String::new();
        if let Some(unsent) = &self.unsent {
            let note = format!("{}; by the rules alone:", visible(unsent));
            text.push_str(&fold(&format!("{}\n", Style::Dropped.paint(note)), 2, width));
        }
        let style = match verdict {
            PacketVerdict::Captured(_) => Style::Captured,
            PacketVerdict::Passing => Style::Passing,
            PacketVerdict::Dropped => Style::Dropped,
            PacketVerdict::Unknown | PacketVerdict::Depends | PacketVerdict::Unsent => Style::Strong,
        };
        let line = match self.cases.is_empty() {
            true => format!("{}, because {}\n", style.paint(self.head()), visible(self.reason())),
            false => format!("{}\n", style.paint(self.head())),
        };
        text.push_str(&fold(&line, 2, width));
        for LimitInDocument { text: limit, remedy } in &self.limits {
            let note = format!("{}: {}\n", Style::Strong.paint("note"), visible(limit));
            text.push_str(&fold(&note, RULE, width));
            text.push_str(&fold(&format!("{:RULE$}-> {}\n", "", visible(remedy)), RULE + 3, width));
        }
        if self.trace.is_empty() {
            return text;
        }
        let from =
            self.source.as_ref().map(|source| format!("from {}: ", visible(source))).unwrap_or_default();
        text.push_str(&format!("\n{from}the rules that it meets\n"));
        let mut place = None;
        for met in &self.trace {
            if place != Some((&met.table, &met.chain)) {
                place = Some((&met.table, &met.chain));
                let title = visible(&format!("{} {}", met.table, met.chain));
                text.push_str(&format!("\n{}\n", Style::Strong.paint(title)));
            }
            text.push_str(&fold(&self.line(met), RULE, width));
        }
        text
    }

    fn line(&self, met: &RuleInDocument) -> String {
        let RuleInDocument { table, chain, position, text, matched, option } = met;
        let mark = match matched {
            Some(true) => "+",
            Some(false) => " ",
            None => "?",
        };
        let decides = self
            .decided_by
            .as_ref()
            .is_some_and(|rule| (&rule.table, &rule.chain, rule.position) == (table, chain, Some(*position)));
        let decides = if decides { " <- decides" } else { "" };
        let option = option.as_deref().filter(|option| !option.is_empty());
        let option = option.map(|option| format!("   # {}", visible(option))).unwrap_or_default();
        let line = format!("{mark} {position:>3} {}{option}{decides}", visible(text));
        match matched {
            Some(false) => format!("{}\n", Style::Quiet.paint(line)),
            Some(true) | None => format!("{line}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({
            "version": 1, "verdict": "redirect", "port": 15006, "last_port": null, "destination": null,
            "destination_port": 8080, "source": null, "unsent": null, "trace": [],
            "decided_by": {
                "table": "nat", "chain": "A", "position": 1, "rule": null, "text": "x", "option": null,
                "reason": "-b '*' captures \u{1b}[2Jit"
            },
        })
    }

    #[test]
    fn texts_of_others_can_not_move_the_cursor() {
        let read = ExplainedPacket::read(document(), 80).expect("it is read");
        assert!(!read.sentence.contains('\u{1b}'), "{}", read.sentence);
        assert!(diagnose::plain(&read.text).contains("captures \\u{1b}[2Jit"), "{}", read.text);
        assert_eq!(read.verdict, PacketVerdict::Captured(Some(15006)));
    }

    #[test]
    fn other_forms_are_refused() {
        for (field, value, part) in [
            ("verdict", json!("maybe"), "unknown verdict \"maybe\""),
            ("port", json!(70000), "another form"),
            ("trace", json!(null), "another form"),
        ] {
            let mut document = document();
            document[field] = value;
            let error = ExplainedPacket::read(document, 80).expect_err(field);
            assert!(error.contains(part), "{error}");
        }
    }
}
