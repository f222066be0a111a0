//! Differences between our table and the desired one, and digests that detect edits of a written table.

use super::batch::{Batch, BatchOperation};
use super::bytecode::{Element, EncodedChain, EncodedRule, EncodedSet, EncodedTable};
use super::listed::{self, Interfaces};
use super::{read::TableCounters, record::TableRecord};
use crate::sys::header::*;
use rules::drift::{Compared, DifferingPart, Reason, Side, compare};
use rules::{desired::Made, nft::LiveTable};
use std::{collections::BTreeSet, mem};

pub fn predecessor(name: &str) -> DifferingPart {
    let line = format!("table inet {name}");
    let lines = vec![Compared { side: Side::Live, line, reason: Some(Reason::Extra) }];
    part(&format!("table {name}, made by another program"), lines)
}

pub fn dormant(table: &str) -> DifferingPart {
    let [there, desired] = [NFT_TABLE_F_DORMANT, 0].map(|flags| [header_text(table, flags)]);
    part(&format!("table {table}"), compare(&there, &desired))
}

fn part(name: &str, lines: Vec<Compared<String>>) -> DifferingPart {
    DifferingPart { name: format!("{name} (nftables)"), lines }
}

/// True if two tables are equal, whatever the order of their sets and chains.
pub fn same(live: Option<&EncodedTable>, desired: Option<&EncodedTable>) -> bool {
    let (Some(live), Some(desired)) = (live, desired) else { return live.is_none() && desired.is_none() };
    (&live.name, live.flags, live.sets.len(), live.chains.len())
        == (&desired.name, desired.flags, desired.sets.len(), desired.chains.len())
        && desired.sets.iter().all(|set| live.sets.iter().any(|other| other == set))
        && desired.chains.iter().all(|chain| live.chains.iter().any(|other| other == chain))
}

pub fn differences(live: Option<&EncodedTable>, desired: Option<&EncodedTable>) -> Vec<DifferingPart> {
    if same(live, desired) {
        return Vec::new();
    }
    let mut found = vec![part("table", compare(header(live).as_slice(), header(desired).as_slice()))];
    let [(old_sets, old_chains), (new_sets, new_chains)] = [live, desired]
        .map(|table| table.map_or((&[][..], &[][..]), |table| (&table.sets[..], &table.chains[..])));
    for [there, desired] in pairs(old_sets, new_sets, |set| &set.name) {
        let name = there.or(desired).map_or("", |set| &set.name);
        found.push(part(&format!("set {name}"), set_lines(there, desired)));
    }
    let (interfaces, counters) = (Interfaces::default(), TableCounters::default());
    let texts = [live, desired]
        .map(|table| table.and_then(|table| listed::table(NFPROTO_INET, table, &interfaces, &[], &counters)));
    for [there, desired] in pairs(old_chains, new_chains, |chain| &chain.name) {
        let name = there.or(desired).map_or("", |chain| &chain.name);
        found.push(part(&format!("chain {name}"), chain_lines([there, desired], &texts)));
    }
    found.retain(|difference| difference.lines.iter().any(|compared| compared.reason.is_some()));
    found
}

fn pairs<'a, T>(live: &'a [T], desired: &'a [T], name: impl Fn(&T) -> &String) -> Vec<[Option<&'a T>; 2]> {
    let of = |side: &'a [T], desired: &T| side.iter().find(|other| name(other) == name(desired));
    let extra = live.iter().filter(|one| of(desired, one).is_none());
    desired.iter().map(|one| [of(live, one), Some(one)]).chain(extra.map(|one| [Some(one), None])).collect()
}

fn header(table: Option<&EncodedTable>) -> Option<String> {
    table.map(|table| header_text(&format!("inet {}", table.name), table.flags))
}

fn header_text(table: &str, flags: u32) -> String {
    // In kernel headers since 6.9: the table outlives its owner's socket.
    const NFT_TABLE_F_PERSIST: u32 = 4;
    const WORDS: [(u32, &str); 3] =
        [(NFT_TABLE_F_DORMANT, "dormant"), (NFT_TABLE_F_OWNER, "owner"), (NFT_TABLE_F_PERSIST, "persist")];
    let words: Vec<&str> =
        WORDS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, word)| *word).collect();
    match flags {
        0 => format!("table {table}"),
        _ => format!("table {table} # flags {}", words.join(", ")),
    }
}

fn set_lines(live: Option<&EncodedSet>, desired: Option<&EncodedSet>) -> Vec<Compared<String>> {
    let mut lines = compare(set_header(live).as_slice(), set_header(desired).as_slice());
    let elements = |set: Option<&EncodedSet>| -> BTreeSet<String> {
        set.map(listed::elements).unwrap_or_default().into_iter().collect()
    };
    let (there, desired) = (elements(live), elements(desired));
    let line =
        |element: &String, side, reason| Compared { side, line: element.clone(), reason: Some(reason) };
    lines.extend(there.difference(&desired).map(|element| line(element, Side::Live, Reason::Extra)));
    lines.extend(desired.difference(&there).map(|element| line(element, Side::Desired, Reason::Missing)));
    lines
}

fn set_header(set: Option<&EncodedSet>) -> Option<String> {
    set.map(|set| {
        let others = match set.others {
            0 => String::new(),
            others => format!(", {others} elements of another kind"),
        };
        format!("type {}{}{others}", listed::type_name(set), set_flags(set.flags))
    })
}

fn set_flags(flags: i32) -> String {
    const WORDS: [(i32, &str); 3] =
        [(NFT_SET_CONSTANT, "constant"), (NFT_SET_INTERVAL, "interval"), (NFT_SET_TIMEOUT, "timeout")];
    let known = WORDS.iter().fold(0, |all, (flag, _)| all | flag);
    let words = WORDS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, word)| (*word).to_owned());
    let other = (flags & !known != 0).then(|| format!("{:#x}", flags & !known));
    let words: Vec<String> = words.chain(other).collect();
    if words.is_empty() { String::new() } else { format!("; flags {}", words.join(",")) }
}

fn chain_lines(chains: [Option<&EncodedChain>; 2], texts: &[Option<LiveTable>; 2]) -> Vec<Compared<String>> {
    // Different rules may have the same text, which omits details.
    let mut kinds: Vec<&EncodedRule> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut sides = [Vec::new(), Vec::new()];
    for ((chain, texts), side) in chains.iter().zip(texts).zip(&mut sides) {
        let (Some(chain), Some(table)) = (chain, texts) else { continue };
        let Some(listed) = table.chains.iter().find(|listed| listed.name == chain.name) else { continue };
        for (rule, listed) in chain.rules.iter().zip(&listed.rules) {
            let kind = kinds.iter().position(|known| *known == rule).unwrap_or(kinds.len());
            if kind == kinds.len() {
                kinds.push(rule);
                words.push(listed.text.clone());
            }
            side.push(kind);
        }
    }
    let [old, new] = chains.map(|chain| chain?.base.as_ref().map(listed::base_text));
    let mut lines = compare(old.as_slice(), new.as_slice());
    let [there, desired] = &sides;
    let rules = compare(there, desired).into_iter();
    lines.extend(rules.map(|compared| compared.with_line(words[compared.line].clone())));
    if lines.is_empty() {
        let [old, new] = chains.map(|chain| chain.map(|_| "empty chain".to_owned()));
        lines = compare(old.as_slice(), new.as_slice());
    }
    lines
}

impl EncodedTable {
    #[must_use]
    pub fn with_record(self, made: Option<&Made>) -> Self {
        let record = made.map(|made| Box::new(TableRecord::of(made, &self)));
        Self { record, ..self }
    }

    pub fn is_as_made(&self) -> Option<bool> {
        self.record.as_ref().map(|record| record.rules_digest == rules_digest(self))
    }
}

impl TableRecord {
    pub(super) fn of(made: &Made, table: &EncodedTable) -> Self {
        let settings_digest = Digest::of(made.settings.as_bytes()).hexadecimal();
        let made = made.clone();
        let settings = Some(made.settings.clone());
        Self { made, settings, settings_digest, rules_digest: rules_digest(table) }
    }
}

/// Digest of a table in the kernel's encoding, which does not depend on our version; ignores the record and object order.
fn rules_digest(table: &EncodedTable) -> String {
    let mut bare = EncodedTable { record: None, ..table.clone() };
    bare.sets.sort_by(|one, other| one.name.cmp(&other.name));
    bare.chains.sort_by(|one, other| one.name.cmp(&other.name));
    // Many elements may exist, so their complete keys are digested without encoding.
    let bare_of = |set: &mut EncodedSet| {
        set.verdicts.clear();
        mem::take(&mut set.elements)
    };
    let elements: Vec<Vec<Element>> = bare.sets.iter_mut().map(bare_of).collect();
    let mut digest = Digest::EMPTY;
    digest.take(Batch::new(&[BatchOperation::Create(&bare)], 0, None).messages.bytes());
    for elements in elements {
        digest.step(elements.len() as u64);
        for Element { key, is_end } in elements {
            digest.take(&key);
            digest.step(is_end.into());
        }
    }
    digest.hexadecimal()
}

/// 64-bit FNV-1a, eight bytes a step: it detects edits, but does not prevent forgery.
struct Digest(u64);

impl Digest {
    const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    fn of(bytes: &[u8]) -> Self {
        let mut digest = Self::EMPTY;
        digest.take(bytes);
        digest
    }

    fn take(&mut self, bytes: &[u8]) {
        self.step(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            self.step(u64::from_le_bytes(eight));
        }
    }

    fn step(&mut self, word: u64) {
        const PRIME: u64 = 0x0100_0000_01b3;
        self.0 = (self.0 ^ word).wrapping_mul(PRIME);
        // Moves high bits down; otherwise the last bits would depend on few bytes.
        self.0 ^= self.0 >> 29;
    }

    fn hexadecimal(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn digest_depends_on_every_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        let whole = Digest::of(&bytes).0;
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(Digest::of(&other).0, whole, "{at}");
        }
        assert_ne!(Digest::of(&[0]).0, Digest::of(&[0, 0]).0);
    }
}
