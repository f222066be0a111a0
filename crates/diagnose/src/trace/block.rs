//! A packet and the rules that it met, as text and as JSON; and a filter of packets to show.

use crate::explain::{PacketEnd, VerdictKind};
use crate::{Style, TextLine, painted};
use mesh::{Mesh, RuleReason};
use rules::Cidr;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::{borrow::Cow, str::FromStr, time::SystemTime};

/// A packet, the rules that it matched, and its verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// The time at which the packet was sent or received, in UTC.
    pub time: String,
    /// The first hook: `PREROUTING`, `OUTPUT` or another.
    pub hook: Cow<'static, str>,
    /// The inbound interface.
    pub in_interface: Option<String>,
    /// The outbound interface.
    pub out_interface: Option<String>,
    /// The protocol; absent if the packet cannot be parsed.
    pub protocol: Option<String>,
    /// The source.
    pub source: Option<IpAddr>,
    /// The source port, for protocols that have ports.
    pub source_port: Option<u16>,
    /// The destination.
    pub destination: Option<IpAddr>,
    pub destination_port: Option<u16>,
    /// The mark when the packet was first seen.
    pub mark: u32,
    /// The sender's user, for outbound packets; absent if unknown.
    pub uid: Option<u32>,
    /// The sender's group.
    pub gid: Option<u32>,
    /// The sender's user in `trace`'s user namespace, if rules use other numbers (`hostUsers: false`).
    pub uid_here: Option<u32>,
    /// The sender's group, likewise.
    pub gid_here: Option<u32>,
    /// The rules, in order.
    pub rules: Vec<MetRule>,
    #[serde(flatten)]
    pub end: PacketEnd,
}

/// A rule that a packet met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetRule {
    /// The table; absent if the rule reports only its name.
    pub table: Option<String>,
    pub chain: Option<String>,
    /// The rule's number in the chain, from 1; absent if only the name is known or the rule is new.
    #[serde(rename = "position")]
    pub rule: Option<usize>,
    /// The rule's text.
    pub text: Option<String>,
    /// The name, if the rule is ours and has one.
    #[serde(rename = "rule")]
    pub name: Option<String>,
    /// The options that create rules of this name; empty for unconditional and foreign rules.
    pub options: Vec<String>,
}

impl Block {
    pub fn text(&self, width: usize) -> String {
        let mut lines = vec![self.header()];
        let mut place = None;
        for rule in &self.rules {
            if let (Some(table), Some(chain)) = (&rule.table, &rule.chain) {
                if place != Some((table, chain)) {
                    lines.push(
                        TextLine::default().plain("  ").styled(Style::Strong, format!("{table} {chain}")),
                    );
                }
                place = Some((table, chain));
            }
            lines.push(rule.line());
        }
        lines.push(self.end.line(TextLine::hanging(HANG + 1).plain("  => ")));
        painted(&lines, width)
    }

    fn header(&self) -> TextLine {
        let line = TextLine::hanging(HANG).plain(&self.time);
        let ends = (end(self.source, self.source_port), end(self.destination, self.destination_port));
        let line = match (&self.protocol, ends) {
            (Some(protocol), (Some(source), Some(destination))) => {
                line.plain(" ").styled(Style::Strong, format!("{protocol} {source} -> {destination}"))
            }
            _ => line.plain(" non-IP packet"),
        };
        let mut more = String::new();
        for (word, interface) in [("in", &self.in_interface), ("out", &self.out_interface)] {
            more.extend(interface.iter().map(|name| format!(" {word} {name}")));
        }
        for (word, id, here) in [("uid", self.uid, self.uid_here), ("gid", self.gid, self.gid_here)] {
            more.extend(id.iter().map(|id| format!(" {word} {id}")));
            more.extend(here.iter().map(|here| format!(" ({here} here)")));
        }
        line.plain(more)
    }

    pub(super) fn at(self, time: SystemTime) -> Self {
        Self { time: utc(time), ..self }
    }
}

const HANG: usize = 4;

impl MetRule {
    fn line(&self) -> TextLine {
        let options =
            if self.options.is_empty() { String::new() } else { format!(" ({})", self.options.join(", ")) };
        let name = self.name.as_ref().map(|name| format!("{name}{options}"));
        let line = TextLine::hanging(HANG + 4);
        let Some(text) = &self.text else { return line.plain(format!("    {}", name.unwrap_or_default())) };
        // In nf_tables, the comment repeats the name.
        let comment = text.rfind(" comment \"").filter(|_| name.is_some());
        let text = &text[..comment.unwrap_or(text.len())];
        let number = self.rule.map(|number| number.to_string()).unwrap_or_default();
        let name = name.map(|name| format!("   # {name}")).unwrap_or_default();
        line.plain(format!("  {number:>3} {text}")).styled(Style::Quiet, name)
    }
}

fn end(address: Option<IpAddr>, port: Option<u16>) -> Option<String> {
    Some(match (address?, port) {
        (address, None) => address.to_string(),
        (address, Some(port)) => SocketAddr::new(address, port).to_string(),
    })
}

/// Time in RFC 3339, in UTC, with microseconds; times before 1970 become 1970.
pub fn utc(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(time.max(SystemTime::UNIX_EPOCH)).to_string()
}

/// Packet filter; an empty filter accepts all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub mesh: Option<Mesh>,
    /// Name of a rule that the packet has met.
    pub rule: Option<String>,
    pub protocol: Option<String>,
    pub verdict: Option<VerdictKind>,
    pub destination: Option<DestinationFilter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestinationFilter {
    pub network: Option<Cidr>,
    pub port: Option<u16>,
}

impl FromStr for DestinationFilter {
    type Err = ();

    /// Parses `PORT`, `ADDRESS`, `NETWORK` or `ADDRESS:PORT`.
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(port) = text.parse() {
            return Ok(Self { network: None, port: Some(port) });
        }
        if let Ok(to) = text.parse::<SocketAddr>() {
            return Ok(Self { network: Some(Cidr::host(to.ip())), port: Some(to.port()) });
        }
        let address = text.parse::<IpAddr>().map(Cidr::host).ok();
        let network = address.or_else(|| text.parse().ok()).ok_or(())?;
        Ok(Self { network: Some(network), port: None })
    }
}

impl Filter {
    pub fn takes(&self, block: &Block) -> bool {
        let goes_there = |to: &DestinationFilter| {
            let inside = |network: Cidr| block.destination.is_some_and(|address| network.contains(address));
            to.network.is_none_or(inside) && to.port.is_none_or(|port| block.destination_port == Some(port))
        };
        let has_met = |name: &String| block.rules.iter().any(|rule| rule.name.as_ref() == Some(name));
        let is_of = |mesh: Mesh| {
            let mut reasons = block.rules.iter().filter_map(|rule| RuleReason::named(rule.name.as_ref()?));
            reasons.any(|reason| reason.mesh() == mesh)
        };
        self.verdict.is_none_or(|verdict| verdict == block.end.verdict)
            && self.rule.as_ref().is_none_or(has_met)
            && self.mesh.is_none_or(is_of)
            && self.protocol.as_ref().is_none_or(|protocol| block.protocol.as_ref() == Some(protocol))
            && self.destination.as_ref().is_none_or(goes_there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::block::MetRule;

    #[test]
    fn both_numbers_of_a_user_are_shown() {
        let (uid, uid_here) = (Some(1337), Some(101_337));
        let block = Block { uid, uid_here, gid: Some(0), ..Block::default() };
        assert!(block.text(80).contains("uid 1337 (101337 here) gid 0\n"), "{}", block.text(80));
        let document = serde_json::to_value(&block).expect("a document");
        assert_eq!((&document["uid_here"], &document["gid_here"]), (&101_337.into(), &().into()));
    }

    #[test]
    fn control_characters_of_names_are_escaped() {
        let [table, chain, interface] = ["t\u{1b}[2J", "c", "e\u{1b}0"].map(|name| Some(name.to_owned()));
        let rules = vec![MetRule { table, chain, ..MetRule::default() }];
        let text = crate::plain(&Block { in_interface: interface, rules, ..Block::default() }.text(80));
        assert!(text.contains("t\\u{1b}[2J c") && text.contains(" in e\\u{1b}0"), "{text}");
    }

    #[test]
    fn rules_and_protocols_are_those_of_the_packet() {
        let met = |name: &str| MetRule { name: Some(name.to_owned()), ..MetRule::default() };
        let rules = vec![MetRule::default(), met("outbound"), met("dns")];
        let block = Block { rules, protocol: Some("tcp".to_owned()), ..Block::default() };
        let by_rule = |name: &str| Filter { rule: Some(name.to_owned()), ..Filter::default() };
        let by_protocol = |name: &str| Filter { protocol: Some(name.to_owned()), ..Filter::default() };
        let by_mesh = |mesh| Filter { mesh: Some(mesh), ..Filter::default() };
        for filter in [by_rule("dns"), by_protocol("tcp"), by_mesh(Mesh::Istio), Filter::default()] {
            assert!(filter.takes(&block), "{filter:?}");
        }
        for filter in [by_rule("drop-invalid"), by_protocol("udp"), by_mesh(Mesh::Kuma)] {
            assert!(!filter.takes(&block), "{filter:?}");
        }
    }

    #[test]
    fn destinations_are_networks_ports_or_both() {
        let destination = Some("10.1.2.3".parse().expect("an address"));
        let block = Block { destination, destination_port: Some(443), ..Block::default() };
        for (text, expected) in [
            ("443", true),
            ("80", false),
            ("10.1.2.3", true),
            ("10.1.2.4", false),
            ("10.0.0.0/8", true),
            ("10.1.2.3:443", true),
            ("10.1.2.3:80", false),
            ("2001:db8::1", false),
            ("[::1]:443", false),
        ] {
            let destination = Some(text.parse().expect("a destination"));
            assert_eq!(Filter { destination, ..Filter::default() }.takes(&block), expected, "{text}");
        }
        for text in ["", "nowhere", "65536", "10.1.2.3:", "10.0.0.0/33"] {
            assert_eq!(text.parse::<DestinationFilter>(), Err(()), "{text}");
        }
    }
}
