//! Reads tables back: ours, and those of others.

use super::bytecode::{self, Element};
use super::expression::{EncodedVerdict, Expression};
use super::{kind, record::TableRecord, tables::TableHeader};
use crate::sys::message::{self, Messages, attribute, attributes, number, text};
use crate::sys::netfilter::{body, nfgenmsg};
use crate::sys::{header::*, netlink::NetlinkSocket};
use rules::{Hits, nft::LiveRule};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// If the table goes meanwhile, the answer is `NotFound`, or lacks what has gone.
pub(super) fn table(socket: &mut NetlinkSocket, header: &TableHeader) -> io::Result<bytecode::EncodedTable> {
    counted(socket, header).map(|(table, _)| table)
}

pub(super) fn counted(
    socket: &mut NetlinkSocket,
    header: &TableHeader,
) -> io::Result<(bytecode::EncodedTable, TableCounters)> {
    let TableHeader { family, name, flags, .. } = header;
    let head = nfgenmsg(*family, 0);
    let mut reader = TableReader { socket, head, table: name };
    let (sets, chains) = (reader.sets()?, reader.chains()?);
    let mut table = bytecode::EncodedTable { name: name.clone(), flags: *flags, sets, chains, record: None };
    let mut counts = TableCounters::default();
    for (name, rule, hits) in reader.rules()? {
        counts.0.entry(name.clone()).or_default().push(hits);
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableCounters(pub(super) BTreeMap<String, Vec<Option<Hits>>>);

impl TableCounters {
    /// `rules` are all that the kernel has in the chain, in its order.
    pub(super) fn note(&self, chain: &str, rules: &mut [LiveRule]) {
        let counted = self.0.get(chain).into_iter().flatten();
        for (rule, hits) in rules.iter_mut().zip(counted) {
            rule.hits = *hits;
        }
    }
}

struct TableReader<'a> {
    socket: &'a mut NetlinkSocket,
    head: [u8; 4],
    table: &'a str,
}

impl TableReader<'_> {
    /// All objects of a kind. Old kernels ignore that one table is asked for, so the others are left out here.
    fn dump<T>(&mut self, message: u8, table: u16, read: impl Fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
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

    fn chains(&mut self) -> io::Result<Vec<bytecode::EncodedChain>> {
        self.dump(NFT_MSG_GETCHAIN, NFTA_CHAIN_TABLE, chain)
    }

    fn rules(&mut self) -> io::Result<Vec<(String, bytecode::EncodedRule, Option<Hits>)>> {
        self.dump(NFT_MSG_GETRULE, NFTA_RULE_TABLE, |rule| {
            let list = attribute(rule, NFTA_RULE_EXPRESSIONS).unwrap_or_default();
            let expressions = attributes(list).filter_map(|(_, item)| Expression::decode(item)).collect();
            let userdata = attribute(rule, NFTA_RULE_USERDATA).unwrap_or_default().to_vec();
            let hits = attributes(list).find_map(|(_, item)| hits(item));
            Some((name(rule, NFTA_RULE_CHAIN)?, bytecode::EncodedRule { expressions, userdata }, hits))
        })
    }

    fn sets(&mut self) -> io::Result<Vec<bytecode::EncodedSet>> {
        self.dump(NFT_MSG_GETSET, NFTA_SET_TABLE, |set| {
            Some(bytecode::EncodedSet {
                name: name(set, NFTA_SET_NAME)?,
                key_type: number(set, NFTA_SET_KEY_TYPE)?,
                key_length: number(set, NFTA_SET_KEY_LEN)?,
                flags: number(set, NFTA_SET_FLAGS).unwrap_or(0),
                elements: Vec::new(),
                others: 0,
                verdicts: Vec::new(),
            })
        })
    }

    fn elements(&mut self, set: &mut bytecode::EncodedSet) -> io::Result<()> {
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
                // `nft` may put the end of nothing at zero, before the first range.
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

pub(super) fn chain(chain: &[u8]) -> Option<bytecode::EncodedChain> {
    let base = attribute(chain, NFTA_CHAIN_HOOK).and_then(|hook| {
        Some(bytecode::BaseChain {
            kind: name(chain, NFTA_CHAIN_TYPE)?,
            hook: number(hook, NFTA_HOOK_HOOKNUM)?,
            priority: number(hook, NFTA_HOOK_PRIORITY)?.cast_signed(),
            policy: number(chain, NFTA_CHAIN_POLICY).unwrap_or(NF_ACCEPT),
            devices: devices(hook),
        })
    });
    Some(bytecode::EncodedChain { name: name(chain, NFTA_CHAIN_NAME)?, base, rules: Vec::new() })
}

fn hits(item: &[u8]) -> Option<Hits> {
    let of =
        |kind| attribute(attribute(item, NFTA_EXPR_DATA)?, kind)?.try_into().ok().map(u64::from_be_bytes);
    (text(attribute(item, NFTA_EXPR_NAME)?) == "counter")
        .then(|| Some(Hits { packets: of(NFTA_COUNTER_PACKETS)?, bytes: of(NFTA_COUNTER_BYTES)? }))?
}

/// The interfaces for which a chain is called; all with a prefix as `nft` writes them: `eth*`.
pub(super) fn devices(hook: &[u8]) -> Vec<String> {
    // Headers know it since 6.18.
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

/// An element, and the verdict that a map has for it; `None` for one that is not just there: it expires, stands for more
/// than its key, or has a statement that decides whether it counts.
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
    match number(item, NFTA_SET_ELEM_FLAGS).unwrap_or(0) {
        0 => Some((Element { key, is_end: false }, verdict)),
        NFT_SET_ELEM_INTERVAL_END => Some((Element { key, is_end: true }, verdict)),
        _ => None,
    }
}

/// True if the statements of an element let every packet through.
fn only_counts(item: &[u8]) -> bool {
    let one = attribute(item, NFTA_SET_ELEM_EXPR);
    let many = attribute(item, NFTA_SET_ELEM_EXPRESSIONS).unwrap_or_default();
    let statements = one.into_iter().chain(attributes(many).map(|(_, item)| item));
    statements
        .map(|item| attribute(item, NFTA_EXPR_NAME).map(text))
        .all(|name| matches!(name, Some("counter" | "last")))
}
