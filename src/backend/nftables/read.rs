//! Reads any program's tables, and lists tables, objects, handles and rule counts.

use super::bytecode::{self, BaseChain, Element, EncodedChain, EncodedRule, EncodedSet, EncodedTable};
use super::expression::{EncodedVerdict, Expression};
use super::{Nftables, kind, record::TableRecord};
use crate::sys::message::{self, Messages, attribute, attributes, number, text};
use crate::sys::netfilter::{body, lacks_nf_tables, nfgenmsg};
use crate::{sys::header::*, sys::netlink::NetlinkSocket};
use rules::{Family, Hits, Ownership, Table, nft::family_number};
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, io};

/// A table with its counters. If it is removed meanwhile, the result is `NotFound`, or incomplete.
pub(super) fn counted(
    socket: &mut NetlinkSocket,
    header: &TableHeader,
) -> io::Result<(EncodedTable, TableCounters)> {
    let TableHeader { family, name, flags, .. } = header;
    let head = nfgenmsg(*family, 0);
    let mut reader = TableReader { socket, head, table: name };
    let sets = reader.sets()?;
    let chains = reader.dump(NFT_MSG_GETCHAIN, NFTA_CHAIN_TABLE, chain)?;
    let mut table = EncodedTable { name: name.clone(), flags: *flags, sets, chains, record: None };
    let mut counts = TableCounters::default();
    for (name, rule, hits) in reader.rules()? {
        counts.entry(name.clone()).or_default().push(hits);
        if let Some(chain) = table.chains.iter_mut().find(|chain| chain.name == name) {
            chain.rules.push(rule);
        }
    }
    for set in &mut table.sets {
        reader.elements(set)?;
        bytecode::sort(&mut set.elements);
    }
    table.record = TableRecord::take(&mut table.chains).map(Box::new);
    Ok((table, counts))
}

/// Counters of all rules of each chain, in the kernel's order.
pub(super) type TableCounters = BTreeMap<String, Vec<Option<Hits>>>;

struct TableReader<'a> {
    socket: &'a mut NetlinkSocket,
    head: [u8; 4],
    table: &'a str,
}

impl TableReader<'_> {
    /// All objects of a kind. Old kernels ignore the request's table, so other tables are skipped here.
    fn dump<T>(&mut self, message: i32, table: u16, read: impl Fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
        let (name, head) = (self.table, self.head);
        let of_table = |message: &mut Messages| {
            message.text(table, name);
        };
        self.socket.dump_some(kind(message), &head, of_table, |payload| {
            let attributes = body(payload)?;
            let is_of =
                payload.first() == head.first() && attribute(attributes, table).map(text) == Some(name);
            is_of.then(|| read(attributes)).flatten()
        })
    }

    fn rules(&mut self) -> io::Result<Vec<(String, EncodedRule, Option<Hits>)>> {
        self.dump(NFT_MSG_GETRULE, NFTA_RULE_TABLE, |rule| {
            let list = attribute(rule, NFTA_RULE_EXPRESSIONS).unwrap_or_default();
            let expressions = attributes(list).filter_map(|(_, item)| Expression::decode(item)).collect();
            let userdata = attribute(rule, NFTA_RULE_USERDATA).unwrap_or_default().to_vec();
            let hits = attributes(list).find_map(|(_, item)| hits(item));
            Some((name(rule, NFTA_RULE_CHAIN)?, EncodedRule { expressions, userdata }, hits))
        })
    }

    fn sets(&mut self) -> io::Result<Vec<EncodedSet>> {
        self.dump(NFT_MSG_GETSET, NFTA_SET_TABLE, |set| {
            Some(EncodedSet {
                name: name(set, NFTA_SET_NAME)?,
                key_type: number(set, NFTA_SET_KEY_TYPE)?,
                key_length: number(set, NFTA_SET_KEY_LEN)?,
                flags: number(set, NFTA_SET_FLAGS).unwrap_or(0).cast_signed(),
                elements: Vec::new(),
                others: 0,
                verdicts: Vec::new(),
            })
        })
    }

    fn elements(&mut self, set: &mut EncodedSet) -> io::Result<()> {
        let (table, name) = (self.table, set.name.clone());
        let of_set = |message: &mut Messages| {
            message.text(NFTA_SET_ELEM_LIST_TABLE, table).text(NFTA_SET_ELEM_LIST_SET, &name);
        };
        let chunks = self.socket.dump_some(kind(NFT_MSG_GETSETELEM), &self.head, of_set, |payload| {
            let list = attribute(body(payload)?, NFTA_SET_ELEM_LIST_ELEMENTS)?;
            Some(attributes(list).map(|(_, item)| element(item)).collect::<Vec<_>>())
        })?;
        for found in chunks.into_iter().flatten() {
            match found {
                // `nft` may write a range end at zero, before the first range.
                Some((Element { key, is_end: true }, _)) if key == [0; 16] => {}
                Some((element, verdict)) => {
                    set.elements.push(element);
                    set.verdicts.extend(verdict.filter(|verdict| !set.verdicts.contains(verdict)));
                }
                None => set.others += 1,
            }
        }
        Ok(())
    }
}

pub(super) fn chain(chain: &[u8]) -> Option<EncodedChain> {
    let base = attribute(chain, NFTA_CHAIN_HOOK).and_then(|hook| {
        Some(BaseChain {
            kind: name(chain, NFTA_CHAIN_TYPE)?,
            hook: number(hook, NFTA_HOOK_HOOKNUM)?,
            priority: number(hook, NFTA_HOOK_PRIORITY)?.cast_signed(),
            policy: number(chain, NFTA_CHAIN_POLICY).unwrap_or(NF_ACCEPT),
            devices: devices(hook),
        })
    });
    Some(EncodedChain { name: name(chain, NFTA_CHAIN_NAME)?, base, rules: Vec::new() })
}

fn hits(item: &[u8]) -> Option<Hits> {
    let of =
        |kind| attribute(attribute(item, NFTA_EXPR_DATA)?, kind)?.try_into().ok().map(u64::from_be_bytes);
    (text(attribute(item, NFTA_EXPR_NAME)?) == "counter")
        .then(|| Some(Hits { packets: of(NFTA_COUNTER_PACKETS)?, bytes: of(NFTA_COUNTER_BYTES)? }))?
}

/// Interfaces for which a chain is called; name prefixes have `nft`'s form: `eth*`.
pub(super) fn devices(hook: &[u8]) -> Vec<String> {
    // In the headers since 6.18.
    const NFTA_DEVICE_PREFIX: u16 = 2;
    let many = attribute(hook, NFTA_HOOK_DEVS).unwrap_or_default();
    let names = attributes(many).filter_map(|(kind, payload)| match kind {
        NFTA_DEVICE_NAME => Some(text(payload).to_owned()),
        NFTA_DEVICE_PREFIX => Some(format!("{}*", text(payload))),
        _ => None,
    });
    let one = attribute(hook, NFTA_HOOK_DEV).map(|payload| text(payload).to_owned());
    let names: BTreeSet<String> = names.chain(one).collect();
    names.into_iter().collect()
}

pub(super) fn name(attributes: &[u8], kind: u16) -> Option<String> {
    attribute(attributes, kind).map(message::name)
}

/// An element with its verdict in a map; `None` if it expires, has more than a key, or has a condition.
fn element(item: &[u8]) -> Option<(Element, Option<EncodedVerdict>)> {
    let others =
        [NFTA_SET_ELEM_TIMEOUT, NFTA_SET_ELEM_EXPIRATION, NFTA_SET_ELEM_OBJREF, NFTA_SET_ELEM_KEY_END];
    if others.iter().any(|kind| attribute(item, *kind).is_some()) || !only_counts(item) {
        return None;
    }
    let verdict = attribute(item, NFTA_SET_ELEM_DATA).and_then(|data| attribute(data, NFTA_DATA_VERDICT));
    let verdict = match verdict {
        Some(verdict) => Some(EncodedVerdict::decode(verdict)?),
        None => None,
    };
    let value = attribute(attribute(item, NFTA_SET_ELEM_KEY)?, NFTA_DATA_VALUE)?;
    let mut key = [0; 16];
    key.get_mut(..value.len())?.copy_from_slice(value);
    match number(item, NFTA_SET_ELEM_FLAGS).unwrap_or(0).cast_signed() {
        0 => Some((Element { key, is_end: false }, verdict)),
        NFT_SET_ELEM_INTERVAL_END => Some((Element { key, is_end: true }, verdict)),
        _ => None,
    }
}

/// True if an element's statements let every packet through.
fn only_counts(item: &[u8]) -> bool {
    let one = attribute(item, NFTA_SET_ELEM_EXPR);
    let many = attribute(item, NFTA_SET_ELEM_EXPRESSIONS).unwrap_or_default();
    let statements = one.into_iter().chain(attributes(many).map(|(_, item)| item));
    statements
        .map(|item| attribute(item, NFTA_EXPR_NAME).map(text))
        .all(|name| matches!(name, Some("counter" | "last")))
}

/// Each chain's rule handles in order, by family (`NFPROTO_*`), table and chain.
pub type RuleHandles = BTreeMap<(u8, String, String), Vec<u64>>;

pub type Counts = BTreeMap<String, BTreeMap<String, usize>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableHeader {
    pub(super) family: u8,
    pub(super) name: String,
    pub(super) flags: u32,
    /// Netlink port of the socket that owns the table and alone may change it.
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
    /// No hook calls the chains.
    Dormant,
    /// Only the socket of this netlink port can change it.
    Owned { port: u32 },
    /// The packets cross a bridge, which no walk follows.
    OfBridge,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockedTable {
    pub table: String,
    pub obstacle: Obstacle,
}

impl BlockedTable {
    pub fn remedy(&self) -> String {
        let Self { table, obstacle } = self;
        match obstacle {
            Obstacle::Dormant => format!("to activate it: nft add table {table}"),
            Obstacle::Owned { .. } => {
                format!("stop the process that owns {table}; ss -f netlink -p shows it by its port")
            }
            Obstacle::OfBridge => format!("to see its rules: nft list table {table}"),
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
                    "table {table} can be changed only by its owner, the process with netlink port {port}"
                )
            }
            Obstacle::OfBridge => {
                write!(f, "table {table} sees packets that cross a bridge, which are not evaluated")
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables(pub(super) Vec<TableHeader>);

impl Tables {
    pub fn of_others(&self, owner: &Ownership) -> BTreeSet<String> {
        let of_others = |table: &&TableHeader| table.family == NFPROTO_INET && table.name != owner.table;
        self.0.iter().filter(of_others).map(|table| table.name.clone()).collect()
    }

    pub fn are_of(&self, owner: &Ownership) -> bool {
        self.0.iter().all(|table| table.family == NFPROTO_INET && table.name == owner.table)
    }

    pub fn of_iptables(&self, family: Family) -> Vec<Table> {
        Table::ALL.into_iter().filter(|table| self.holds(family_number(family), &[table.name()])).collect()
    }

    /// Tables whose rules are not in effect as written. Owned tables are included only if one of our meshes would change them.
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
    /// A family's objects of a kind (`NFT_MSG_GET*`), or every family's (`NFPROTO_UNSPEC`), decoded from family and attributes.
    pub(super) fn list<T>(
        &mut self,
        message: i32,
        family: u8,
        read: impl Fn(u8, &[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        self.socket.dump(kind(message), &nfgenmsg(family, 0), |payload| {
            let of = *payload.first()?;
            if [of, NFPROTO_UNSPEC].contains(&family) { read(of, body(payload)?) } else { None }
        })
    }

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
        let family = family_number(family);
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

    /// All tables; `None` if the kernel has no nf_tables. Reading creates none.
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

    /// True if iptables has tables in which we set rules, or others with the owner's chains.
    pub fn has_iptables(&mut self, tables: &Tables, family: Family, owner: &Ownership) -> io::Result<bool> {
        const OTHERS: [&str; 2] = ["filter", "security"];
        let of = family_number(family);
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

    /// First, true if a base chain other than the owner's and iptables' built-in ones does NAT; second, if a built-in one does.
    pub fn has_nat(&mut self, tables: &Tables, owner: &Ownership) -> io::Result<(bool, bool)> {
        let mut chains = self.list(NFT_MSG_GETCHAIN, NFPROTO_UNSPEC, |family, attributes| {
            let (table, chain) = (name(attributes, NFTA_CHAIN_TABLE)?, chain(attributes)?);
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
