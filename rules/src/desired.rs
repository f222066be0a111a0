//! What a policy wants of a network namespace: all that an engine needs to know of it, and nothing of how it came about.

use crate::{Checked, Family, Ownership, Zone, nft, routing::Object};
use std::{collections::BTreeSet, net::IpAddr};

/// The wanted rules of each family, and the routing that they rely on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Whose rules and routing they are.
    pub owner: Ownership,
    pub v4: Checked,
    /// `None` where IPv6 is not captured.
    pub v6: Option<Checked>,
    pub routing: BTreeSet<Object>,
    /// Flows that pass the rules by if they are older than those.
    pub stale_flows: Option<StaleFlows>,
    /// Who wants it: noted beside the rules by a backend that can keep it.
    pub made: Option<Made>,
}

/// How rules were made. No rule depends on it, and rules that differ in nothing else are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Made {
    /// The version of the program.
    pub version: String,
    /// What was called: one word.
    pub command: String,
    /// When, as RFC 3339 writes it.
    pub at: String,
    /// What was said to be captured, in the caller's words.
    pub settings: String,
}

impl Desired {
    /// The families that the rules are for.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        let v6 = self.v6.as_ref().map(|_| Family::V6);
        [Some(Family::V4), v6].into_iter().flatten()
    }

    /// The rules of both families as one table of nf_tables; `None` where nothing is captured.
    pub fn nft_table(&self) -> Option<nft::Table> {
        nft::table(self.owner.table, &self.v4, self.v6.as_ref())
    }

    pub fn rules(&self, family: Family) -> Option<&Checked> {
        match family {
            Family::V4 => Some(&self.v4),
            Family::V6 => self.v6.as_ref(),
        }
    }
}

/// UDP flows that the rules capture. NAT looks at the first packet of a flow, so one that conntrack knew before goes on
/// past the rules until conntrack forgets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleFlows {
    /// Their destination port.
    pub port: u16,
    /// Their destinations; `None` for all.
    pub destinations: Option<BTreeSet<IpAddr>>,
    /// The zone of flows that are excluded.
    pub except_zone: Zone,
    pub families: Vec<Family>,
}

impl StaleFlows {
    /// Whether a flow is meant that no rule has rewritten yet: the entry of one that is redirected leads answers back.
    pub fn includes(&self, destination: IpAddr, port: u16, zone: u16) -> bool {
        let captured =
            self.destinations.as_ref().is_none_or(|destinations| destinations.contains(&destination));
        port == self.port && zone != self.except_zone.number() && captured
    }
}
