//! A filter of the packets and rules to show.

use super::Block;
use crate::explain::VerdictKind;
use mesh::{Mesh, RuleReason};
use rules::Cidr;
use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// Nothing given lets everything through.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The mesh of a rule that it has met.
    pub mesh: Option<Mesh>,
    /// The name of a rule that it has met.
    pub rule: Option<String>,
    pub protocol: Option<String>,
    pub verdict: Option<VerdictKind>,
    pub destination: Option<DestinationFilter>,
}

/// A network, a port or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestinationFilter {
    pub network: Option<Cidr>,
    pub port: Option<u16>,
}

impl FromStr for DestinationFilter {
    type Err = ();

    /// `PORT`, `ADDRESS`, `NETWORK` or `ADDRESS:PORT`.
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
