//! A list of the tables, by one dump; and lists across all of them: objects of a kind, the handles of rules, and the number
//! of rules of each chain.

use super::read::{self, name};
use super::{Nftables, kind};
use crate::sys::header::*;
use crate::sys::message::{attribute, number};
use crate::sys::netfilter::{body, lacks_nf_tables, nfgenmsg, nfproto};
use rules::{Family, Ownership, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, io};

/// The handles of the rules of each chain in order, by family (`NFPROTO_*`), table and chain. By its handle a single rule
/// is deleted, and a trace refers to it.
pub type RuleHandles = BTreeMap<(u8, String, String), Vec<u64>>;

/// The number of rules of each chain, by table and chain.
pub type Counts = BTreeMap<String, BTreeMap<String, usize>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableHeader {
    /// `NFPROTO_*`.
    pub(super) family: u8,
    pub(super) name: String,
    /// `NFT_TABLE_F_*`.
    pub(super) flags: u32,
    /// The netlink port of the socket that alone may change it.
    pub(super) port: Option<u32>,
}

impl TableHeader {
    pub(super) fn is_dormant(&self) -> bool {
        self.flags & NFT_TABLE_F_DORMANT != 0
    }

    pub(super) fn title(&self) -> String {
        let family = match self.family {
            NFPROTO_INET => "inet",
            NFPROTO_IPV4 => "ip",
            NFPROTO_IPV6 => "ip6",
            NFPROTO_NETDEV => "netdev",
            NFPROTO_BRIDGE => "bridge",
            _ => "arp",
        };
        format!("{family} {}", self.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// No hook calls its chains.
    Dormant,
    /// Only the socket of this netlink port can change it.
    Owned { port: u32 },
    /// Its packets cross a bridge, which no walk follows.
    OfBridge,
}

/// A table, by family and name, that has an obstacle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockedTable {
    pub table: String,
    pub obstacle: Obstacle,
}

impl BlockedTable {
    pub fn remedy(&self) -> String {
        let Self { table, obstacle } = self;
        match obstacle {
            Obstacle::Dormant => format!("nft add table {table} wakes it"),
            Obstacle::Owned { .. } => format!(
                "end the process that holds {table}, or let it give the table back; ss -f netlink -p shows who has the port"
            ),
            Obstacle::OfBridge => format!("see what it does with nft list table {table}"),
        }
    }
}

impl fmt::Display for BlockedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, obstacle } = self;
        match obstacle {
            Obstacle::Dormant => write!(f, "table {table} is dormant: no packet meets its rules"),
            Obstacle::Owned { port } => {
                write!(
                    f,
                    "table {table} has an owner, the process with netlink port {port}, which alone can change it"
                )
            }
            Obstacle::OfBridge => {
                write!(f, "table {table} sees packets that cross a bridge, which is not followed here")
            }
        }
    }
}

/// All tables of nf_tables in a namespace at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables(pub(super) Vec<TableHeader>);

impl Tables {
    pub fn of_others(&self, owner: &Ownership) -> BTreeSet<String> {
        let of_others = |table: &&TableHeader| table.family == NFPROTO_INET && table.name != owner.table;
        self.0.iter().filter(of_others).map(|table| table.name.clone()).collect()
    }

    /// True if there is none but the owner's.
    pub fn are_of(&self, owner: &Ownership) -> bool {
        self.0.iter().all(|table| table.family == NFPROTO_INET && table.name == owner.table)
    }

    pub fn of_iptables(&self, family: Family) -> Vec<Table> {
        Table::ALL.into_iter().filter(|table| self.holds(nfproto(family), &[table.name()])).collect()
    }

    /// A table with an owner counts only where a mesh of ours would change it.
    pub fn blocked_tables(&self, owner: &Ownership) -> Vec<BlockedTable> {
        let is_changed = |table: &TableHeader| match table.family {
            NFPROTO_INET => owner.each().any(|one| {
                one.table == table.name
                    || one.predecessor.is_some_and(|other| other.tables.contains(&table.name.as_str()))
            }),
            NFPROTO_IPV4 | NFPROTO_IPV6 => Table::ALL.iter().any(|one| one.name() == table.name),
            _ => false,
        };
        let of_table = |table: &TableHeader| {
            let owned = table.port.filter(|_| is_changed(table)).map(|port| Obstacle::Owned { port });
            let found = [
                table.is_dormant().then_some(Obstacle::Dormant),
                owned,
                (table.family == NFPROTO_BRIDGE && !table.is_dormant()).then_some(Obstacle::OfBridge),
            ];
            let title = table.title();
            found.into_iter().flatten().map(move |obstacle| BlockedTable { table: title.clone(), obstacle })
        };
        let mut found: Vec<BlockedTable> = self.0.iter().flat_map(of_table).collect();
        found.sort();
        found
    }

    fn holds(&self, family: u8, names: &[&str]) -> bool {
        self.0.iter().any(|table| table.family == family && names.contains(&table.name.as_str()))
    }
}

impl Nftables {
    /// The objects of a kind (`NFT_MSG_GET*`) in the tables of a family, or of all families (`NFPROTO_UNSPEC`), by family
    /// and attributes.
    pub(super) fn list<T>(
        &mut self,
        message: u8,
        family: u8,
        read: impl Fn(u8, &[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        self.socket.dump(kind(message), &nfgenmsg(family, 0), |payload| {
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

    /// `None` where the kernel has no nf_tables. Asking creates none.
    pub fn tables(&mut self) -> io::Result<Option<Tables>> {
        let found = self.list(NFT_MSG_GETTABLE, NFPROTO_UNSPEC, |family, table| {
            let flags = number(table, NFTA_TABLE_FLAGS).unwrap_or(0);
            let port = number(table, NFTA_TABLE_OWNER);
            Some(TableHeader { family, name: name(table, NFTA_TABLE_NAME)?, flags, port })
        });
        match found {
            Err(error) if lacks_nf_tables(&error) => Ok(None),
            found => Ok(Some(Tables(found?))),
        }
    }

    /// True if there are tables by the names that iptables uses: those in which we make rules, or another that holds a
    /// chain of the owner's.
    pub fn has_iptables(&mut self, tables: &Tables, family: Family, owner: &Ownership) -> io::Result<bool> {
        const OTHERS: [&str; 2] = ["filter", "security"];
        let of = nfproto(family);
        let are_usual = tables.holds(of, &["nat", "mangle", "raw"]);
        if are_usual || !tables.holds(of, &OTHERS) {
            return Ok(are_usual);
        }
        let chains = self.list(NFT_MSG_GETCHAIN, of, |_, chain| {
            let is_owned =
                name(chain, NFTA_CHAIN_NAME)?.parse().is_ok_and(|name| owner.owns_chain_named(&name));
            (is_owned && OTHERS.contains(&name(chain, NFTA_CHAIN_TABLE)?.as_str())).then_some(())
        })?;
        Ok(!chains.is_empty())
    }

    /// The first is true if a base chain does NAT that is neither the owner's nor one of iptables' usual ones, the second if
    /// one of those does.
    pub fn has_nat(&mut self, tables: &Tables, owner: &Ownership) -> io::Result<(bool, bool)> {
        let mut chains = self.list(NFT_MSG_GETCHAIN, NFPROTO_UNSPEC, |family, attributes| {
            let (table, chain) = (name(attributes, NFTA_CHAIN_TABLE)?, read::chain(attributes)?);
            let is_of_iptables = chain.is_of_iptables(family, &table);
            (chain.base?.kind == "nat").then_some((family, table, is_of_iptables))
        })?;
        chains.retain(|(family, name, _)| {
            let is_its = |table: &TableHeader| table.family == *family && table.name == *name;
            let is_of_owner = *family == NFPROTO_INET && name == owner.table;
            !is_of_owner && !tables.0.iter().any(|table| table.is_dormant() && is_its(table))
        });
        let any = |usual: bool| chains.iter().any(|(.., is_of_iptables)| *is_of_iptables == usual);
        Ok((any(false), any(true)))
    }
}
