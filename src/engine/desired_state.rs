//! The desired state of a namespace, in the terms of one backend.

use crate::backend::{BackendName, Contents, Snapshot, nftables::bytecode};
use rules::{ByFamily, Family, Ownership, State, desired::Desired, routing::Object};
use std::collections::BTreeSet;

/// What a namespace has to contain after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredState {
    pub owner: Ownership,
    /// The rules; `None` where there should be none. No other backend should have rules of the owner's.
    pub contents: Option<Contents>,
    pub routes: BTreeSet<Object>,
}

impl DesiredState {
    /// Nothing of the owner's.
    pub fn nothing(owner: Ownership) -> Self {
        Self { owner, contents: None, routes: BTreeSet::new() }
    }

    /// The desired state, in the terms of this backend.
    pub fn of(desired: &Desired, backend: BackendName, snapshot: &Snapshot) -> Self {
        let Desired { owner, v6, routing, .. } = desired;
        let contents = match backend {
            BackendName::Nftables => {
                let table = desired.nft_table();
                table.map(|table| {
                    Contents::Nftables(bytecode::EncodedTable::of(&table).with_record(desired.made.as_ref()))
                })
            }
            BackendName::Iptables(variant) => {
                let state = |family| match desired.rules(family) {
                    Some(rules) => State::of(rules.rules()),
                    None => State::default(),
                };
                let tables = ByFamily { v4: state(Family::V4), v6: state(Family::V6) };
                Some(Contents::Iptables { variant, tables })
            }
        };
        let mut routes = routing.clone();
        if v6.is_some() && snapshot.lo_lacks_ipv6 {
            // Where no packet of IPv6 can pass, its rules do no harm and its routes are not missed.
            let text = "IPv6 is disabled on lo: rules are set for it, addresses and routes are not";
            tracing::warn!(target: "config", "{text}");
            routes.retain(|object| object.family() == Family::V4);
        }
        Self { owner: *owner, contents, routes }
    }

    /// What a backend should hold; `None` where another one should, or none.
    pub fn contents(&self, backend: BackendName) -> Option<&Contents> {
        self.contents.as_ref().filter(|contents| contents.backend() == backend)
    }

    /// The tables of iptables that a backend should hold for a family.
    pub(super) fn iptables(&self, backend: BackendName, family: Family) -> State {
        self.contents(backend).map_or_else(State::default, |content| content.state(family))
    }

    /// The table of nf_tables.
    pub(super) fn nftables(&self) -> Option<&bytecode::EncodedTable> {
        self.contents.as_ref().and_then(Contents::table)
    }
}
