//! Which tables there are: one dump answers for all that is asked of it.

use super::{Nftables, kind};
use crate::sys::header::*;
use crate::sys::{
    message::{attribute, text, u32_at},
    netfilter::{base_chains, lacks_nf_tables},
    netlink::Request,
    nfnetlink::{body, nfgenmsg, nfproto},
};
use rules::{Family, Ownership, Table};
use std::{collections::BTreeSet, io};

/// A table, from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outside {
    /// `NFPROTO_*`.
    pub(super) family: u8,
    pub(super) name: String,
    /// `NFT_TABLE_F_*`.
    pub(super) flags: u32,
}

/// All tables of nf_tables in a namespace at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables(pub(super) Vec<Outside>);

impl Tables {
    /// The names of those of the family `inet`, but for the owner's.
    pub fn of_others(&self, owner: &Ownership) -> BTreeSet<String> {
        let of_others = |table: &&Outside| table.family == NFPROTO_INET && table.name != owner.table;
        self.0.iter().filter(of_others).map(|table| table.name.clone()).collect()
    }

    /// Whether there is none but the owner's.
    pub fn are_of(&self, owner: &Ownership) -> bool {
        self.0.iter().all(|table| table.family == NFPROTO_INET && table.name == owner.table)
    }

    /// Those by the names that iptables uses.
    pub fn of_iptables(&self, family: Family) -> Vec<Table> {
        Table::ALL.into_iter().filter(|table| self.holds(nfproto(family), &[table.name()])).collect()
    }

    fn holds(&self, family: u8, names: &[&str]) -> bool {
        self.0.iter().any(|table| table.family == family && names.contains(&table.name.as_str()))
    }
}

impl Nftables {
    /// All tables; `None` where the kernel has no nf_tables. Asking creates none.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn tables(&mut self) -> io::Result<Option<Tables>> {
        let request = Request { kind: kind(NFT_MSG_GETTABLE), flags: 0, head: &nfgenmsg(NFPROTO_UNSPEC, 0) };
        let found = self.socket.dump(&request, |payload| {
            let attributes = body(payload)?;
            let name = text(attribute(attributes, NFTA_TABLE_NAME)?).to_owned();
            let flags = attribute(attributes, NFTA_TABLE_FLAGS).and_then(|flags| u32_at(flags, 0));
            Some(Outside { family: *payload.first()?, name, flags: flags.map_or(0, u32::from_be) })
        });
        match found {
            Err(error) if lacks_nf_tables(&error) => Ok(None),
            found => Ok(Some(Tables(found?))),
        }
    }

    /// Whether there are tables by the names that iptables uses: those in which we make rules, or another that holds a
    /// chain of the owner's.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn has_iptables(&mut self, tables: &Tables, family: Family, owner: &Ownership) -> io::Result<bool> {
        const OTHERS: [&str; 2] = ["filter", "security"];
        let of = nfproto(family);
        let are_usual = tables.holds(of, &["nat", "mangle", "raw"]);
        if are_usual || !tables.holds(of, &OTHERS) {
            return Ok(are_usual);
        }
        let request = Request { kind: kind(NFT_MSG_GETCHAIN), flags: 0, head: &nfgenmsg(of, 0) };
        let chains = self.socket.dump(&request, |payload| {
            let attributes = body(payload)?;
            let [table, name] =
                [NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME].map(|kind| attribute(attributes, kind).map(text));
            let is_owned = name?.parse().is_ok_and(|name| owner.owns_chain_named(&name));
            (OTHERS.contains(&table?) && is_owned).then_some(())
        })?;
        Ok(!chains.is_empty())
    }

    /// Whether a base chain does NAT that is neither the owner's nor one of iptables' usual ones (first), and whether one of
    /// those does (second).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn has_nat(&mut self, owner: &Ownership) -> io::Result<(bool, bool)> {
        let chains = base_chains(&mut self.socket)?;
        let nat = || chains.iter().filter(|chain| chain.kind == "nat" && !chain.is_of(owner));
        Ok((nat().any(|chain| !chain.is_of_iptables()), nat().any(|chain| chain.is_of_iptables())))
    }
}
