//! A table that changes the source of what this machine's own processes send to listed addresses.
//!
//! Pods know calls of their host by that source, such as the kubelet's probes. What is only forwarded keeps its own: such
//! packets belong to no socket. The table is separate from that of the capture, as it is on the host and
//! not in a pod. It is read, compared and committed as a whole, but for its values, which come and go singly.

use super::bytecode::{self, BaseChain, Element, EncodedChain, EncodedRule, EncodedSet, EncodedTable};
use super::expression::{Expression, Register};
use super::{Nftables, Refusal, batch::BatchOperation, lower, same};
use crate::sys::message::{Messages, ip, octets};
use crate::sys::{header::*, netfilter::nfproto};
use rules::nft::{self, Condition, DataType, Field, Interval, Intervals, SetKind, Test};
use rules::{Family, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{collections::BTreeSet, io};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snat {
    /// The pods to which calls get another source.
    pub pods: BTreeSet<IpAddr>,
    /// The source of calls over IPv4.
    pub v4: Ipv4Addr,
    /// The source of calls over IPv6.
    pub v6: Ipv6Addr,
}

/// The live content. Whatever others have removed from the table is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSnat {
    pub pods: BTreeSet<IpAddr>,
    pub v4: Option<Ipv4Addr>,
    pub v6: Option<Ipv6Addr>,
}

/// One less than the priority at which iptables and others change sources (`NF_IP_PRI_NAT_SRC`), so that our rules come
/// before the masquerading of others.
const PRIORITY: i32 = 99;

const CHAIN: &str = "nat_POSTROUTING";

const fn set_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "pods_v4",
        Family::V6 => "pods_v6",
    }
}

impl Snat {
    /// Each rule carries the comment.
    pub fn table(&self, name: &str, comment: &str) -> EncodedTable {
        let rule = |family| EncodedRule {
            expressions: expressions(family, self.source(family)),
            userdata: bytecode::comment(comment),
        };
        let base = BaseChain {
            kind: "nat".to_owned(),
            hook: NF_INET_POST_ROUTING,
            priority: PRIORITY,
            policy: NF_ACCEPT,
            devices: Vec::new(),
        };
        EncodedTable {
            name: name.to_owned(),
            sets: Family::BOTH.map(|family| set(family, &self.pods)).to_vec(),
            chains: vec![EncodedChain {
                name: CHAIN.to_owned(),
                base: Some(base),
                rules: Family::BOTH.map(rule).to_vec(),
            }],
            ..EncodedTable::default()
        }
    }

    fn source(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.v4.into(),
            Family::V6 => self.v6.into(),
        }
    }
}

impl LiveSnat {
    pub fn of(table: &EncodedTable) -> Self {
        let mut found = Self::default();
        for family in Family::BOTH {
            let set = table.sets.iter().find(|set| set.name == set_name(family));
            let is_such = |set: &&EncodedSet| set.data_type() == Some(DataType::Address(family));
            let elements = set.filter(is_such).into_iter().flat_map(|set| &set.elements);
            let width = DataType::Address(family).width();
            found.pods.extend(elements.filter_map(|element| ip(&element.key[..width])));
        }
        let rules = table.chains.iter().filter(|chain| chain.name == CHAIN).flat_map(|chain| &chain.rules);
        for expression in rules.flat_map(|rule| &rule.expressions) {
            let Expression::Immediate(Register::First, bytes) = expression else { continue };
            match ip(bytes) {
                Some(IpAddr::V4(address)) => found.v4 = Some(address),
                Some(IpAddr::V6(address)) => found.v6 = Some(address),
                None => {}
            }
        }
        found
    }
}

impl Nftables {
    /// Brings our table from what was read of it to this, in one step; values alone, where only they differ. That it is
    /// no longer what was read is a conflict.
    pub fn replace_snat(
        &mut self,
        live: Option<&EncodedTable>,
        desired: &EncodedTable,
    ) -> Result<(), Refusal> {
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
        let jobs: Vec<BatchOperation<'_>> = go
            .iter()
            .map(|set| BatchOperation::DeleteElements(name, set))
            .chain(come.iter().map(|set| BatchOperation::AddElements(name, set)))
            .collect();
        if jobs.is_empty() { Ok(()) } else { self.commit(&jobs, Some(generation)) }
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

/// `meta l4proto tcp meta skuid != 4294967295 ip daddr @pods_v4 counter snat ip to SOURCE`. No user has that id, so the
/// question is whether the packet has a socket of a process (`nft_meta_get_eval_skugid` ends the rule where it has none).
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
        Expression::Other { name: "nat".to_owned(), data: nat(nfproto(family)) },
    ]);
    expressions
}

/// The data of an expression that changes the source to the address in the first register, attribute by attribute as the
/// kernel dumps them (`nft_nat_dump`), so that what is read equals what was written.
fn nat(nfproto: u8) -> Vec<u8> {
    Messages::alone(|data| {
        data.number(NFTA_NAT_TYPE, NFT_NAT_SNAT)
            .number(NFTA_NAT_FAMILY, nfproto.into())
            .number(NFTA_NAT_REG_ADDR_MIN, NFT_REG_1)
            .number(NFTA_NAT_REG_ADDR_MAX, NFT_REG_1)
            .number(NFTA_NAT_FLAGS, NF_NAT_RANGE_MAP_IPS);
    })
}
