//! A policy's requirements for a network namespace, independent of their origin.

use crate::{Checked, Family, Ownership, Zone, nft, routing::Object};
use std::{collections::BTreeSet, net::IpAddr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    pub owner: Ownership,
    pub v4: Checked,
    pub v6: Option<Checked>,
    pub routing: BTreeSet<Object>,
    pub stale_flows: Option<StaleFlows>,
    /// Provenance of the rules, stored beside them by a backend that supports it.
    pub made: Option<Made>,
}

/// Provenance of rules. No rule depends on it, and comparisons ignore it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Made {
    pub version: String,
    pub command: String,
    /// In RFC 3339 format.
    pub at: String,
    /// The capture settings in the caller's format.
    pub settings: String,
}

impl Desired {
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::captured(self.v6.is_some())
    }

    pub fn nft_table(&self) -> Option<nft::InetTable> {
        nft::table(self.owner.table, &self.v4, self.v6.as_ref())
    }

    pub fn rules(&self, family: Family) -> Option<&Checked> {
        match family {
            Family::V4 => Some(&self.v4),
            Family::V6 => self.v6.as_ref(),
        }
    }
}

/// UDP flows that the rules capture. NAT skips flows older than the rules until conntrack forgets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    pub port: u16,
    pub destinations: Option<BTreeSet<IpAddr>>,
    /// The conntrack zone of the proxy's own flows, which are not captured.
    pub except_zone: Zone,
    pub families: Vec<Family>,
}

impl StaleFlows {
    /// True if the rules capture the flow. Callers exclude flows that NAT has rewritten: their entries translate the replies.
    pub fn includes(&self, destination: IpAddr, port: u16, zone: u16) -> bool {
        let captured =
            self.destinations.as_ref().is_none_or(|destinations| destinations.contains(&destination));
        port == self.port && zone != self.except_zone.get() && captured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::check, ownership::tests::OWNER, parse};

    #[test]
    fn families_have_rules() {
        let checked = |family| {
            let rules = parse::restore("*nat\n-A OUTPUT -j ISTIO_A\n-A ISTIO_A -j RETURN\nCOMMIT\n", family);
            check(rules.expect("rules"), &OWNER).expect("lawful")
        };
        let v4 = Desired {
            owner: OWNER,
            v4: checked(Family::V4),
            v6: None,
            routing: BTreeSet::new(),
            stale_flows: None,
            made: None,
        };
        let both = Desired { v6: Some(checked(Family::V6)), ..v4.clone() };
        for (desired, expected) in [(&v4, &[Family::V4][..]), (&both, &[Family::V4, Family::V6])] {
            assert_eq!(desired.families().collect::<Vec<_>>(), expected);
            for family in Family::BOTH {
                let rules = desired.rules(family).map(|checked| checked.rules().family);
                assert_eq!(rules, expected.contains(&family).then_some(family));
            }
            assert_eq!(desired.nft_table().map(|table| table.name), Some("sidecar_init".to_owned()));
        }
    }

    #[test]
    fn flows_are_stale_by_port_zone_and_destination() {
        let [resolver, other] = ["10.96.0.10", "10.96.0.11"].map(|ip| ip.parse::<IpAddr>().expect("valid"));
        let all = StaleFlows {
            port: 53,
            destinations: None,
            except_zone: Zone::new(1).expect("not 0"),
            families: vec![Family::V4],
        };
        let some = StaleFlows { destinations: Some([resolver].into()), ..all.clone() };
        for (destination, port, zone, by_all, by_some) in [
            (resolver, 53, 0, true, true),
            (resolver, 53, 2, true, true),
            (resolver, 53, 1, false, false),
            (resolver, 54, 0, false, false),
            (other, 53, 0, true, false),
        ] {
            let found = [&all, &some].map(|stale| stale.includes(destination, port, zone));
            assert_eq!(found, [by_all, by_some], "{destination} {port} {zone}");
        }
    }
}
