//! A packet with all that it has met, for people and for programs.

use super::utc;
use crate::{Style, fold};
use mesh::visible;
use serde::Serialize;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// A packet, the rules whose conditions it fulfilled, and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// The time at which the packet was sent or received, in UTC.
    pub time: String,
    /// The first hook: `PREROUTING`, `OUTPUT` or another.
    pub hook: &'static str,
    /// The inbound interface.
    pub in_interface: Option<String>,
    /// The outbound interface.
    pub out_interface: Option<String>,
    /// The protocol; absent if the packet cannot be parsed.
    pub protocol: Option<String>,
    /// The source.
    pub source: Option<IpAddr>,
    /// Its source port, for protocols that have ports.
    pub source_port: Option<u16>,
    /// The destination.
    pub destination: Option<IpAddr>,
    pub destination_port: Option<u16>,
    /// The packet's mark when it was first seen.
    pub mark: u32,
    /// The sender's user, for outbound packets; absent if unknown.
    pub uid: Option<u32>,
    /// The sender's group.
    pub gid: Option<u32>,
    /// The sender's user as the caller of trace numbers it, where rules have other numbers (`hostUsers: false`).
    pub uid_here: Option<u32>,
    /// The sender's group, likewise.
    pub gid_here: Option<u32>,
    /// The rules, in order.
    pub rules: Vec<MetRule>,
    /// `redirect`, `tproxy`, `pass`, `drop` or `unknown`.
    pub verdict: &'static str,
    /// The listener's port; absent without a listener.
    pub port: Option<u16>,
    /// The verdict and its reason, as text for people.
    pub sentence: String,
    #[serde(skip)]
    pub(super) style: Option<Style>,
}

/// A rule that a packet met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetRule {
    /// The table; absent if the rule reports only its name.
    pub table: Option<String>,
    pub chain: Option<String>,
    /// Its number in the chain, from 1; absent if only the rule's name is known, or if the rule is new.
    #[serde(rename = "position")]
    pub rule: Option<usize>,
    /// The text of the rule.
    pub text: Option<String>,
    /// The name, if it is one of our rules and has one.
    #[serde(rename = "rule")]
    pub name: Option<String>,
    /// The options that make rules of this name; empty for unconditional and foreign rules.
    pub options: Vec<String>,
}

impl Block {
    /// Text of lines as wide as a terminal. Some words are in colour.
    pub fn text(&self, width: usize) -> String {
        let mut text = fold(&format!("{}\n", self.header()), HANG, width);
        let mut place = None;
        for rule in &self.rules {
            if let (Some(table), Some(chain)) = (&rule.table, &rule.chain) {
                if place != Some((table, chain)) {
                    let shown = format!("{} {}", visible(table), visible(chain));
                    let _ = writeln!(text, "  {}", Style::Strong.paint(shown));
                }
                place = Some((table, chain));
            }
            text.push_str(&fold(&format!("{}\n", rule.line()), HANG + 4, width));
        }
        let (verdict, reason) = match self.sentence.split_once(", because ") {
            Some((verdict, reason)) => (verdict, format!(", because {reason}")),
            None => (self.sentence.as_str(), String::new()),
        };
        let verdict = match self.style {
            Some(style) => style.paint(verdict).to_string(),
            None => verdict.to_owned(),
        };
        text + &fold(&format!("  => {verdict}{reason}\n"), HANG + 1, width)
    }

    fn header(&self) -> String {
        let mut header = self.time.clone();
        match (
            &self.protocol,
            end(self.source, self.source_port),
            end(self.destination, self.destination_port),
        ) {
            (Some(protocol), Some(source), Some(destination)) => {
                let ends = format!("{protocol} {source} -> {destination}");
                let _ = write!(header, " {}", Style::Strong.paint(ends));
            }
            _ => header.push_str(" no IP packet"),
        }
        for (word, interface) in [("in", &self.in_interface), ("out", &self.out_interface)] {
            if let Some(interface) = interface {
                let _ = write!(header, " {word} {}", visible(interface));
            }
        }
        for (word, id, here) in [("uid", self.uid, self.uid_here), ("gid", self.gid, self.gid_here)] {
            if let Some(id) = id {
                let _ = write!(header, " {word} {id}");
            }
            if let Some(here) = here {
                let _ = write!(header, " ({here} here)");
            }
        }
        header
    }

    pub(super) fn at(self, time: std::time::SystemTime) -> Self {
        Self { time: utc(time), ..self }
    }
}

/// How far lines are indented that go on with one before.
const HANG: usize = 4;

impl MetRule {
    /// A line that shows the rule.
    fn line(&self) -> String {
        let options =
            if self.options.is_empty() { String::new() } else { format!(" ({})", self.options.join(", ")) };
        let name = self.name.as_ref().map(|name| format!("{}{options}", visible(name)));
        match (&self.text, self.rule) {
            (Some(text), number) => {
                // In nf_tables its name is its comment too.
                let comment = text.rfind(" comment \"").filter(|_| name.is_some());
                let text = &text[..comment.unwrap_or(text.len())];
                let number = number.map_or_else(|| "   ".to_owned(), |number| format!("{number:>3}"));
                let name = name.map(|name| Style::Quiet.paint(format!("   # {name}")).to_string());
                format!("  {number} {}{}", visible(text), name.unwrap_or_default())
            }
            (None, _) => format!("    {}", name.unwrap_or_default()),
        }
    }
}

/// An address and its port if it has one, as people write them.
fn end(address: Option<IpAddr>, port: Option<u16>) -> Option<String> {
    Some(match (address?, port) {
        (address, None) => address.to_string(),
        (address, Some(port)) => SocketAddr::new(address, port).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_of_a_user_are_shown() {
        let (uid, uid_here) = (Some(1337), Some(101_337));
        let block = Block { uid, uid_here, gid: Some(0), ..Block::default() };
        assert!(block.text(80).contains("uid 1337 (101337 here) gid 0\n"), "{}", block.text(80));
        let document = serde_json::to_value(&block).expect("a document");
        assert_eq!((&document["uid_here"], &document["gid_here"]), (&101_337.into(), &().into()));
    }

    #[test]
    fn names_move_no_cursor() {
        let [table, chain, interface] = ["t\u{1b}[2J", "c", "e\u{1b}0"].map(|name| Some(name.to_owned()));
        let rules = vec![MetRule { table, chain, ..MetRule::default() }];
        let text = crate::plain(&Block { in_interface: interface, rules, ..Block::default() }.text(80));
        assert!(text.contains("t\\u{1b}[2J c") && text.contains(" in e\\u{1b}0"), "{text}");
    }
}
