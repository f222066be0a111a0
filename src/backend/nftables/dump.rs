//! Lists across all tables: objects of a kind, the handles of rules, and how many rules each chain has.

use super::read::name;
use super::{Nftables, kind};
use crate::sys::header::*;
use crate::sys::{
    message::attribute,
    netlink::NetlinkRequest,
    nfnetlink::{body, nfgenmsg, nfproto},
};
use rules::Family;
use std::{collections::BTreeMap, io};

/// The handles of the rules of each chain in order, by family (`NFPROTO_*`), table and chain. By its handle a single rule
/// is deleted, and a trace refers to it.
pub type RuleHandles = BTreeMap<(u8, String, String), Vec<u64>>;

/// How many rules each chain has, by table and chain.
pub type Counts = BTreeMap<String, BTreeMap<String, usize>>;

impl Nftables {
    /// The objects of a kind (`NFT_MSG_GET*`) in the tables of a family, or of all families (`NFPROTO_UNSPEC`), by family
    /// and attributes.
    pub(super) fn list<T>(
        &mut self,
        message: u8,
        family: u8,
        read: impl Fn(u8, &[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let request = NetlinkRequest { kind: kind(message), flags: 0, head: &nfgenmsg(family, 0) };
        self.socket.dump(&request, |payload| {
            let of = *payload.first()?;
            if [of, NFPROTO_UNSPEC].contains(&family) { read(of, body(payload)?) } else { None }
        })
    }

    /// The handles of all rules of a family, or of all families (`NFPROTO_UNSPEC`).
    pub fn rule_handles(&mut self, family: u8) -> io::Result<RuleHandles> {
        let rules = self.list(NFT_MSG_GETRULE, family, |family, rule| {
            Some((
                (family, name(rule, NFTA_RULE_TABLE)?, name(rule, NFTA_RULE_CHAIN)?),
                attribute(rule, NFTA_RULE_HANDLE)?.try_into().ok().map(u64::from_be_bytes)?,
            ))
        })?;
        let mut handles = RuleHandles::new();
        for (chain, handle) in rules {
            handles.entry(chain).or_default().push(handle);
        }
        Ok(handles)
    }

    /// How many rules each chain in the tables of a family has.
    pub fn counts(&mut self, family: Family) -> io::Result<Counts> {
        let family = nfproto(family);
        let chains = self.list(NFT_MSG_GETCHAIN, family, |_, chain| {
            Some((name(chain, NFTA_CHAIN_TABLE)?, name(chain, NFTA_CHAIN_NAME)?))
        })?;
        let handles = self.rule_handles(family)?;
        let mut counts = Counts::new();
        let chains = chains.into_iter().map(|(table, chain)| (table, chain, 0));
        let filled = handles.into_iter().map(|((_, table, chain), handles)| (table, chain, handles.len()));
        for (table, chain, count) in chains.chain(filled) {
            counts.entry(table).or_default().insert(chain, count);
        }
        Ok(counts)
    }
}
