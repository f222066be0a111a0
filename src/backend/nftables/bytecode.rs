//! Our table as the kernel holds it, for reading and writing: lists of expressions, which the kernel's virtual machine executes
//! and `nft --debug=netlink` prints. Counters, handles and other kernel additions are left out.

use super::expression::{EncodedVerdict, Expression};
use super::record::{NFTNL_UDATA_RULE_COMMENT, TableRecord, item};
use crate::sys::header::*;
use rules::nft::{self, DataType, Field, Interval, SetKind};
use rules::{Chain, Table};
use std::borrow::Cow;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedTable {
    pub name: String,
    /// `NFT_TABLE_F_*`; 0 for our own tables.
    pub flags: u32,
    pub sets: Vec<EncodedSet>,
    /// Chains in order of creation, like the sets.
    pub chains: Vec<EncodedChain>,
    /// Record of how the table was made, if known. Comparisons of tables ignore it.
    pub record: Option<Box<TableRecord>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedSet {
    pub name: String,
    /// Data type of the keys for `nft`; the kernel ignores it.
    pub key_type: u32,
    pub key_length: u32,
    pub flags: i32,
    pub elements: Vec<Element>,
    /// Number of elements that we never write, such as a catch-all.
    pub others: usize,
    /// A map's distinct verdicts. Our own sets have none.
    pub verdicts: Vec<EncodedVerdict>,
}

/// An element of a set; in an interval set, the start of a range or the key after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub key: [u8; 16],
    pub is_end: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedChain {
    pub name: String,
    pub base: Option<BaseChain>,
    pub rules: Vec<EncodedRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseChain {
    pub kind: String,
    pub hook: u32,
    pub priority: i32,
    pub policy: u32,
    /// Interface names, or name prefixes with `*`.
    pub devices: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRule {
    pub expressions: Vec<Expression>,
    /// Bytes that the kernel stores for us: the comment.
    pub userdata: Vec<u8>,
}

impl From<nft::Base> for BaseChain {
    fn from(nft::Base { kind, hook, priority }: nft::Base) -> Self {
        let (kind, hook) = (kind.name().to_owned(), hook as u32);
        Self { kind, hook, priority, policy: NF_ACCEPT, devices: Vec::new() }
    }
}

impl EncodedTable {
    pub fn of(table: &nft::InetTable) -> Self {
        Self {
            name: table.name.clone(),
            sets: table.sets.iter().map(set).collect(),
            chains: table.chains.iter().map(chain).collect(),
            ..Self::default()
        }
    }

    pub(super) fn written(&self) -> impl Iterator<Item = Cow<'_, EncodedChain>> {
        let record = self.record.as_ref().map(|record| Cow::Owned(record.chain()));
        self.chains.iter().map(Cow::Borrowed).chain(record)
    }

    pub fn rule_count(&self) -> usize {
        self.chains.iter().map(|chain| chain.rules.len()).sum()
    }
}

impl EncodedChain {
    /// True for a base chain like iptables' in this table (`xtables_ipv4` in its `nft.c`), whatever its policy.
    pub(super) fn is_of_iptables(&self, family: u8, table: &str) -> bool {
        let Some(base) = &self.base else { return false };
        let table = Table::ALL.into_iter().find(|one| one.name() == table);
        let place = table
            .zip(self.name.parse().ok())
            .filter(|(table, chain)| matches!(chain, Chain::Base(hook) if table.hooks().contains(hook)));
        let usual = place.and_then(|(table, chain)| nft::base_of(table, &chain));
        let is_usual = |usual: nft::Base| {
            (usual.hook as u32, usual.kind.name(), usual.priority)
                == (base.hook, base.kind.as_str(), base.priority)
        };
        matches!(family, NFPROTO_IPV4 | NFPROTO_IPV6) && usual.is_some_and(is_usual)
    }
}

pub(super) fn comment_of(userdata: &[u8]) -> &str {
    match userdata {
        [NFTNL_UDATA_RULE_COMMENT, _, text @ ..] => crate::sys::message::text(text),
        _ => "",
    }
}

fn chain(chain: &nft::InetChain) -> EncodedChain {
    let rule = |rule: &nft::InetRule| EncodedRule {
        expressions: super::lower::rule(rule),
        userdata: comment(&rule.comment),
    };
    EncodedChain {
        name: chain.name.clone(),
        base: chain.base.map(BaseChain::from),
        rules: chain.rules.iter().map(rule).collect(),
    }
}

pub(super) fn comment(text: &str) -> Vec<u8> {
    if text.is_empty() { Vec::new() } else { item(NFTNL_UDATA_RULE_COMMENT, text.as_bytes()) }
}

pub(super) fn set(set: &nft::Set) -> EncodedSet {
    let SetKind { data_type, has_ranges } = set.kind;
    let element = |key, is_end| Element { key: data_type.key(key, has_ranges), is_end };
    let mut elements = Vec::with_capacity(set.values.ranges().len() * 2);
    for Interval { first, last } in set.elements() {
        elements.push(element(first, false));
        let end = last.checked_add(1).filter(|end| has_ranges && *end <= data_type.max());
        elements.extend(end.map(|end| element(end, true)));
    }
    sort(&mut elements);
    let flags = match set.kind {
        kind if kind.has_ranges => NFT_SET_INTERVAL,
        kind if kind.asks_for_hash() => NFT_SET_TIMEOUT,
        _ => 0,
    };
    let key_length = u32::try_from(data_type.width()).expect("16 bytes at most");
    let (name, key_type) = (set.name.clone(), data_type.number());
    EncodedSet { name, key_type, key_length, flags, elements, others: 0, verdicts: Vec::new() }
}

/// Sorts elements by key, a range's end before another range's start: the kernel accepts only this order.
pub(super) fn sort(elements: &mut [Element]) {
    // A big-endian number compares like the bytes, but faster.
    elements.sort_unstable_by_key(|element| (u128::from_be_bytes(element.key), !element.is_end));
}

impl EncodedSet {
    pub(super) fn data_type(&self) -> Option<DataType> {
        let is_such =
            |kind: &DataType| (kind.number(), kind.width()) == (self.key_type, self.key_length as usize);
        Field::ALL.map(Field::data_type).into_iter().find(is_such)
    }

    /// Byte order of keys in `nft` output (`enum byteorder` in its `datatype.h`); strings have the host's order.
    pub(super) fn byte_order(&self) -> u32 {
        const BYTEORDER_HOST_ENDIAN: u32 = 1;
        const BYTEORDER_BIG_ENDIAN: u32 = 2;
        match self.data_type() {
            Some(kind) if kind.is_host_order() || kind == DataType::InterfaceName => BYTEORDER_HOST_ENDIAN,
            _ => BYTEORDER_BIG_ENDIAN,
        }
    }
}
