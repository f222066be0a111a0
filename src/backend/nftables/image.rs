//! Our table as the kernel holds it: what is written, and what is read back.
//!
//! One type for both directions, so that comparing and restoring an old state need no third form. Counters,
//! handles and whatever else the kernel adds on its own are left out.

use super::expression::Expression;
use super::header::{NF_ACCEPT, SET_IS_INTERVAL};
use rules::nft::{Chain, Kind, Set, SetKind, Span, Table};
use rules::{Family, Hook};

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Flags of the table: none, if it is as we make it.
    pub flags: u32,
    /// The sets, in the order in which they were made.
    pub sets: Vec<ImageSet>,
    /// The chains, in the order in which they were made.
    pub chains: Vec<ImageChain>,
}

/// A set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSet {
    /// The name.
    pub name: String,
    /// What `nft` takes the keys for; the kernel does not care.
    pub key_type: u32,
    /// Bytes of a key.
    pub key_length: u32,
    /// `NFT_SET_*`.
    pub flags: u32,
    /// The elements, ascending.
    pub elements: Vec<Element>,
}

/// An element of a set; in a set of ranges, where a range starts or where it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// The key, in its first bytes.
    pub key: [u8; 16],
    /// Whether a range has ended before this key.
    pub is_end: bool,
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageChain {
    /// The name.
    pub name: String,
    /// Where the kernel calls it.
    pub base: Option<ImageBase>,
    /// The rules.
    pub rules: Vec<ImageRule>,
}

/// Where the kernel calls a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageBase {
    /// `filter`, `route` or `nat`.
    pub kind: String,
    /// `NF_INET_*`.
    pub hook: u32,
    /// The place among others.
    pub priority: i32,
    /// `NF_ACCEPT` or `NF_DROP`.
    pub policy: u32,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRule {
    /// The expressions.
    pub expressions: Vec<Expression>,
    /// Bytes that the kernel keeps for us: the comment.
    pub userdata: Vec<u8>,
}

/// `NFTNL_UDATA_RULE_COMMENT` of libnftnl: type, length, text with NUL.
const COMMENT: u8 = 0;

impl Image {
    /// The image of a table.
    pub fn of(table: &Table) -> Self {
        Self {
            flags: 0,
            sets: table.sets.iter().map(set).collect(),
            chains: table.chains.iter().map(chain).collect(),
        }
    }

    /// The number of rules.
    pub fn rules(&self) -> usize {
        self.chains.iter().map(|chain| chain.rules.len()).sum()
    }
}

impl ImageRule {
    /// The comment, if there is one.
    pub fn comment(&self) -> &str {
        match self.userdata.as_slice() {
            [COMMENT, _, text @ ..] => crate::sys::message::text(text),
            _ => "",
        }
    }
}

fn chain(chain: &Chain) -> ImageChain {
    let base = chain.base.map(|base| ImageBase {
        kind: Kind::name(base.kind).to_owned(),
        hook: hook(base.hook),
        priority: base.priority,
        policy: NF_ACCEPT,
    });
    let rule = |rule: &rules::nft::Rule| {
        let comment = rule.comment.as_bytes();
        let length = u8::try_from(comment.len() + 1).expect("comments have at most 127 bytes");
        let userdata = match comment {
            [] => Vec::new(),
            _ => [&[COMMENT, length], comment, &[0]].concat(),
        };
        ImageRule { expressions: super::lower::rule(rule), userdata }
    };
    ImageChain { name: chain.name.clone(), base, rules: chain.rules.iter().map(rule).collect() }
}

/// `NF_INET_*` (`linux/netfilter.h`).
fn hook(hook: Hook) -> u32 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
    }
}

fn set(set: &Set) -> ImageSet {
    let (key_type, key_length) = key(set.kind);
    let mut elements = Vec::with_capacity(set.values.ranges().len() * 2);
    for Span { first, last } in set.elements() {
        elements.push(Element { key: key_bytes(set.kind, first), is_end: false });
        let end = last.checked_add(1).filter(|end| key_length == 16 || end >> (8 * key_length) == 0);
        if let (true, Some(end)) = (set.kind.has_ranges(), end) {
            elements.push(Element { key: key_bytes(set.kind, end), is_end: true });
        }
    }
    sort(&mut elements);
    let flags = if set.kind.has_ranges() { SET_IS_INTERVAL } else { 0 };
    ImageSet { name: set.name.clone(), key_type, key_length, flags, elements }
}

/// Sorts elements by key. Where a range starts right behind another, its start comes after the end of the other:
/// the kernel takes them in this order only.
pub(super) fn sort(elements: &mut [Element]) {
    elements.sort_unstable_by_key(|element| (element.key, !element.is_end));
}

/// What `nft` calls the type (`enum datatypes` of its `datatype.h`), and the bytes of a key.
fn key(kind: SetKind) -> (u32, u32) {
    match kind {
        SetKind::Interfaces { .. } => (41, 16),
        SetKind::Addresses(Family::V4) => (7, 4),
        SetKind::Addresses(Family::V6) => (8, 16),
        SetKind::Protocols => (12, 1),
        SetKind::Ports => (13, 2),
        SetKind::Uids => (24, 4),
        SetKind::Gids => (25, 4),
    }
}

/// The number as a key: ids as this machine writes them, all else with the most significant byte first.
fn key_bytes(kind: SetKind, number: u128) -> [u8; 16] {
    let length = key(kind).1 as usize;
    let mut bytes = [0; 16];
    bytes[..length].copy_from_slice(&number.to_be_bytes()[16 - length..]);
    if host_order(kind) && cfg!(target_endian = "little") {
        bytes[..length].reverse();
    }
    bytes
}

fn host_order(kind: SetKind) -> bool {
    match kind {
        SetKind::Uids | SetKind::Gids => true,
        SetKind::Interfaces { .. } | SetKind::Addresses(_) | SetKind::Protocols | SetKind::Ports => false,
    }
}

impl ImageSet {
    /// `NFTNL_UDATA_SET_KEYBYTEORDER`: which byte of a key comes first, so that `nft` can list it: 1 as this
    /// machine writes numbers (`nft` counts texts among these), 2 the most significant.
    pub(super) fn byte_order(&self) -> u32 {
        match self.key_type {
            24 | 25 | 41 => 1,
            _ => 2,
        }
    }
}
