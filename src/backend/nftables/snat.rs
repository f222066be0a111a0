//! A table that replaces the source address of this machine's own packets to listed addresses. Pods recognize their host's calls,
//! for example kubelet probes, by that source; forwarded packets belong to no socket and keep their source. Values change one by
//! one; any other change replaces the whole table.

use super::bytecode::{self, Element, EncodedChain, EncodedRule, EncodedSet, EncodedTable};
use super::expression::{Expression, Register};
use super::{Nftables, Refusal, batch::BatchOperation, lower, retry, same};
use crate::backend::{During, Error};
use crate::sys::message::{ip, octets};
use crate::sys::netfilter::lacks_netlink;
use rules::nft::{self, Condition, DataType, Field, Interval, Intervals, SetKind, Test};
use rules::{Family, Hook, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{collections::BTreeSet, io};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snat {
    pub pods: BTreeSet<IpAddr>,
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

/// One below the source NAT priority of iptables and others (`NF_IP_PRI_NAT_SRC`): our rules come first.
const PRIORITY: i32 = 99;

const CHAIN: &str = "nat_POSTROUTING";

const fn set_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "pods_v4",
        Family::V6 => "pods_v6",
    }
}

impl Snat {
    fn table(&self, name: &str, comment: &str) -> EncodedTable {
        let rule = |family, source| EncodedRule {
            expressions: expressions(family, source),
            userdata: bytecode::comment(comment),
        };
        let base = nft::Base { kind: nft::Kind::Nat, hook: Hook::Postrouting, priority: PRIORITY };
        let rules = vec![rule(Family::V4, self.v4.into()), rule(Family::V6, self.v6.into())];
        EncodedTable {
            name: name.to_owned(),
            sets: Family::BOTH.map(|family| set(family, &self.pods)).to_vec(),
            chains: vec![EncodedChain { name: CHAIN.to_owned(), base: Some(base.into()), rules }],
            ..EncodedTable::default()
        }
    }
}

/// The live content, without values that other programs have removed.
fn content(table: &EncodedTable) -> (BTreeSet<IpAddr>, Option<Ipv4Addr>, Option<Ipv6Addr>) {
    let (mut pods, mut v4, mut v6) = (BTreeSet::new(), None, None);
    for family in Family::BOTH {
        let kind = DataType::Address(family);
        let is_such = |set: &&EncodedSet| set.name == set_name(family) && set.data_type() == Some(kind);
        let elements = table.sets.iter().find(is_such).into_iter().flat_map(|set| &set.elements);
        pods.extend(elements.filter_map(|element| ip(&element.key[..kind.width()])));
    }
    let rules = table.chains.iter().filter(|chain| chain.name == CHAIN).flat_map(|chain| &chain.rules);
    for expression in rules.flat_map(|rule| &rule.expressions) {
        let Expression::Immediate(Register::First, bytes) = expression else { continue };
        match ip(bytes) {
            Some(IpAddr::V4(address)) => v4 = Some(address),
            Some(IpAddr::V6(address)) => v6 = Some(address),
            None => {}
        }
    }
    (pods, v4, v6)
}

impl Nftables {
    /// Replaces our table in one step, or only its values if nothing else differs.
    fn replace_snat(&mut self, live: Option<&EncodedTable>, desired: &EncodedTable) -> Result<(), Refusal> {
        let bare = |table: &EncodedTable| {
            let sets = table.sets.iter().map(|set| EncodedSet { elements: Vec::new(), ..set.clone() });
            EncodedTable { sets: sets.collect(), ..table.clone() }
        };
        match live {
            Some(live) if same(Some(&bare(live)), Some(&bare(desired))) => self.change_values(live, desired),
            _ => self.replace(live, Some(desired)),
        }
    }

    fn change_values(&mut self, live: &EncodedTable, desired: &EncodedTable) -> Result<(), Refusal> {
        let generation = self.generation().map_err(Refusal::Conflict)?;
        let now = self.read().map_err(Refusal::Conflict)?;
        if !same(now.as_ref(), Some(live)) {
            return Err(Refusal::Conflict(io::ErrorKind::ResourceBusy.into()));
        }
        let (come, go) = (difference(desired, live), difference(live, desired));
        let name = desired.name.as_str();
        let deletions = go.iter().map(|set| BatchOperation::DeleteElements(name, set));
        let additions = come.iter().map(|set| BatchOperation::AddElements(name, set));
        let jobs: Vec<BatchOperation<'_>> = deletions.chain(additions).collect();
        self.commit(&jobs, Some(generation))
    }
}

fn difference(table: &EncodedTable, other: &EncodedTable) -> Vec<EncodedSet> {
    let lacking = table.sets.iter().map(|set| {
        let there = other.sets.iter().find(|one| one.name == set.name);
        let is_there = |element: &Element| {
            there.is_some_and(|one| one.elements.iter().any(|content| content.key == element.key))
        };
        EncodedSet {
            elements: set.elements.iter().filter(|element| !is_there(element)).copied().collect(),
            ..set.clone()
        }
    });
    lacking.filter(|set| !set.elements.is_empty()).collect()
}

fn set(family: Family, pods: &BTreeSet<IpAddr>) -> EncodedSet {
    let values = pods.iter().filter(|address| Family::of(**address) == family).map(|address| match address {
        IpAddr::V4(address) => Interval::one(address.to_bits().into()),
        IpAddr::V6(address) => Interval::one(address.to_bits()),
    });
    let kind = SetKind { data_type: DataType::Address(family), has_ranges: false };
    bytecode::set(&nft::Set { name: set_name(family).to_owned(), kind, values: values.collect() })
}

/// `meta l4proto tcp meta skuid != 4294967295 ip daddr @pods_v4 counter snat ip to SOURCE`. No user has that ID, so this tests
/// whether the packet has a process's socket (`nft_meta_get_eval_skugid` ends the rule if it has none).
fn expressions(family: Family, source: IpAddr) -> Vec<Expression> {
    let is = |field, number: u32| Condition::is(field, Intervals::one(number.into()));
    let tcp = is(Field::Protocol, nft::protocol_number(Protocol::Tcp).into());
    let has_owner = Condition { negated: true, ..is(Field::Uid, u32::MAX) };
    let mut expressions = lower::conditions([Condition::family(family), tcp, has_owner]);
    let condition = Condition::is(Field::Destination(family), Intervals::default());
    expressions.extend(lower::tests(&[Test { condition, set: Some(set_name(family).to_owned()) }]));
    expressions.extend([
        Expression::Counter,
        Expression::Immediate(Register::First, octets(source)),
        Expression::Snat(nft::family_number(family).into()),
    ]);
    expressions
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnatChange {
    pub table: &'static str,
    /// Comment of each rule, at most 127 bytes.
    pub comment: &'static str,
    pub add: BTreeSet<IpAddr>,
    pub remove: BTreeSet<IpAddr>,
    /// IPv4 source; `None` keeps the existing one, or takes the default.
    pub v4: Option<Ipv4Addr>,
    pub v6: Option<Ipv6Addr>,
    pub defaults: (Ipv4Addr, Ipv6Addr),
}

/// Brings the table to the requested state. Returns whether the table changed, and its content.
pub fn change(change: &SnatChange) -> Result<(bool, Snat), Error> {
    let mut nftables = open(change.table)?;
    let changed = retry(|| {
        let live = nftables.read().map_err(unread)?;
        let (mut pods, v4, v6) = live.as_ref().map(content).unwrap_or_default();
        pods.extend(&change.add);
        pods.retain(|pod| !change.remove.contains(pod));
        let (v4, v6) = (change.v4.or(v4), change.v6.or(v6));
        let (of_v4, of_v6) = change.defaults;
        let content = Snat { pods, v4: v4.unwrap_or(of_v4), v6: v6.unwrap_or(of_v6) };
        let table = content.table(change.table, change.comment);
        let changed = !same(live.as_ref(), Some(&table));
        if changed {
            nftables.replace_snat(live.as_ref(), &table)?;
        }
        Ok((changed, content))
    });
    changed.map_err(Error::from)
}

pub fn remove(table: &'static str) -> Result<bool, Error> {
    let mut nftables = match open(table) {
        Err(Error::NoNftables) => return Ok(false),
        opened => opened?,
    };
    let removed = retry(|| {
        let live = nftables.read().map_err(unread)?;
        nftables.replace(live.as_ref(), None)?;
        Ok(live.is_some())
    });
    removed.map_err(Error::from)
}

fn open(table: &'static str) -> Result<Nftables, Error> {
    match Nftables::open(table) {
        Err(error) if lacks_netlink(&error) => Err(Error::NoNftables),
        opened => opened.during("opening a netlink socket"),
    }
}

/// Classifies a failed read: another program changed nf_tables meanwhile, or the kernel refused.
fn unread(source: io::Error) -> Refusal {
    match source.kind() {
        io::ErrorKind::ResourceBusy | io::ErrorKind::Interrupted => Refusal::Conflict(source),
        _ => Refusal::of("reading nf_tables", source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_that_always_comes_late_is_a_conflict() {
        let failed = |kind: io::ErrorKind| {
            let mut tries = 0;
            let failed = retry::<()>(|| {
                tries += 1;
                Err(unread(kind.into()))
            });
            (tries > 1, Error::from(failed.expect_err("it always fails")).to_string())
        };
        for kind in [io::ErrorKind::ResourceBusy, io::ErrorKind::Interrupted] {
            assert_eq!(failed(kind), (true, "another program changed the rules at the same time".to_owned()));
        }
        let (is_repeated, text) = failed(io::ErrorKind::PermissionDenied);
        assert!(!is_repeated && text.contains("CAP_NET_ADMIN is required"), "{text}");
    }
}
