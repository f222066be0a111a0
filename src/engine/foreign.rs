//! Base chains of nf_tables that others have made, as far as an explanation must know of them.

use crate::sys::{
    header::*,
    netfilter::{self, BaseChain},
};
use rules::{Family, Hook, Ownership, Table};
use std::io;

/// A base chain of which nobody here knows what it does with packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Whose packets it sees; `None` for those of both.
    pub family: Option<Family>,
    /// The table of iptables in whose place it stands.
    pub table: Table,
    pub hook: Hook,
    /// Whether it may see packets before that table does.
    pub first: bool,
    /// The chain, for people.
    pub what: String,
}

/// The base chains that hold a rule or drop by policy, but for the owner's and those of iptables, which its listing shows.
///
/// # Errors
/// When nf_tables can't be read.
pub fn strangers(owner: &Ownership) -> io::Result<Vec<Stranger>> {
    let mut foreign = netfilter::base_chains()?;
    foreign.retain(|chain| !chain.is_of(owner) && !chain.is_of_iptables());
    if foreign.is_empty() {
        // As nearly everywhere; rules can be many.
        return Ok(Vec::new());
    }
    let with_rules = netfilter::chains_with_rules()?;
    let decides = |chain: &&BaseChain| {
        chain.drops || with_rules.contains(&(chain.family, chain.table.clone(), chain.name.clone()))
    };
    Ok(foreign.iter().filter(decides).filter_map(stranger).collect())
}

fn stranger(chain: &BaseChain) -> Option<Stranger> {
    let (family, word) = match chain.family {
        NFPROTO_INET => (None, "inet"),
        NFPROTO_NETDEV => (None, "netdev"),
        NFPROTO_IPV4 => (Some(Family::V4), "ip"),
        NFPROTO_IPV6 => (Some(Family::V6), "ip6"),
        // Of bridges and of ARP: no packet of a pod's processes passes there.
        _ => return None,
    };
    let hook = match (chain.family, chain.hook) {
        (NFPROTO_NETDEV, NF_NETDEV_INGRESS) | (NFPROTO_INET, NF_INET_INGRESS) => Hook::Prerouting,
        (NFPROTO_NETDEV, _) => Hook::Postrouting,
        (_, NF_INET_PRE_ROUTING) => Hook::Prerouting,
        (_, NF_INET_LOCAL_IN) => Hook::Input,
        (_, NF_INET_FORWARD) => Hook::Forward,
        (_, NF_INET_LOCAL_OUT) => Hook::Output,
        _ => Hook::Postrouting,
    };
    let is_nat = chain.kind == "nat";
    let table = match hook {
        _ if is_nat => Table::Nat,
        Hook::Input | Hook::Forward => Table::Filter,
        Hook::Output if chain.kind == "filter" => Table::Filter,
        Hook::Output | Hook::Prerouting | Hook::Postrouting => Table::Mangle,
    };
    Some(Stranger {
        family,
        table,
        hook,
        // Where the first rule of NAT that decides is the only one. Elsewhere every chain is asked.
        first: !is_nat || chain.priority <= NF_IP_PRI_NAT_DST,
        what: format!("chain {} of table {word} {} of nf_tables", chain.name, chain.table),
    })
}
