//! A table that makes the kernel trace packets while a trace runs. The kernel deletes the table with its socket; before Linux
//! 5.12, this trace or the next one deletes it.

use super::bytecode::{EncodedChain, EncodedRule, EncodedTable};
use super::lift::{SYN, TCP_FLAGS};
use super::{
    BatchOperation, CmpOperator, Expression, Header, Meta, Nftables, Refusal, Register, Tables, lower,
};
use crate::sys::header::*;
use nix::libc;
use rules::nft::{Base, Condition, Field, Intervals, Kind};
use rules::{Cidr, Hook, Match, Negatable};
use std::io;

pub const TABLE: &str = "sidecar_init_trace";

/// Chains in which a packet's path begins, and chains in which it ends.
pub const FIRST: [&str; 2] = ["prerouting", "output"];
pub const LAST: [&str; 2] = ["input", "postrouting"];

/// TCP flag that a first segment lacks (RFC 9293).
const ACK: u8 = 0x10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// Protocol number; `None` for TCP and UDP.
    pub protocol: Option<u8>,
    pub network: Option<Cidr>,
    pub port: Option<u16>,
    /// True for all TCP packets; false for connection attempts only.
    pub every_packet: bool,
}

pub struct Tracing {
    nftables: Nftables,
    /// True if the kernel deletes the table with its socket.
    is_owned: bool,
}

impl Tracing {
    /// Starts to trace in the thread's network namespace; [`Refusal::Conflict`] if another trace is running. Packets are also
    /// reported to the NFLOG group, if given: a trace lacks the packet's owner.
    pub fn start(aim: &Aim, group: Option<u16>) -> Result<Self, Refusal> {
        let mut nftables =
            Nftables::open(TABLE).map_err(|source| Refusal::of("opening a netlink socket", source))?;
        nftables.remove_leftover_trace()?;
        if nftables.trace_flags()?.is_some() {
            return Err(Refusal::Conflict(io::ErrorKind::AlreadyExists.into()));
        }
        let table = table(aim, group, NFT_TABLE_F_OWNER);
        match nftables.commit(&[BatchOperation::Create(&table)], None) {
            Ok(()) => Ok(Self { nftables, is_owned: true }),
            Err(Refusal::Refused { source, .. })
                if matches!(source.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) =>
            {
                let table = EncodedTable { flags: 0, ..table };
                nftables.commit(&[BatchOperation::Create(&table)], None)?;
                Ok(Self { nftables, is_owned: false })
            }
            Err(refusal) => Err(refusal),
        }
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        if !self.is_owned {
            let _ = self.nftables.commit(&[BatchOperation::Delete(NFPROTO_INET, TABLE)], None);
        }
    }
}

impl Nftables {
    /// Removes an ended trace's leftover table; false if there was none, or a running trace owns it.
    pub fn remove_leftover_trace(&mut self) -> Result<bool, Refusal> {
        let is_left = self.trace_flags()?.is_some_and(|flags| flags & NFT_TABLE_F_OWNER == 0);
        if is_left {
            self.commit(&[BatchOperation::Delete(NFPROTO_INET, TABLE)], None)?;
        }
        Ok(is_left)
    }

    fn trace_flags(&mut self) -> Result<Option<u32>, Refusal> {
        let found = self.tables().map_err(|source| Refusal::of("listing nf_tables tables", source))?;
        let Tables(tables) = found.unwrap_or_default();
        let mut tables = tables.into_iter();
        let trace = tables.find(|table| table.family == NFPROTO_INET && table.name == TABLE);
        Ok(trace.map(|table| table.flags))
    }
}

fn table(aim: &Aim, group: Option<u16>, flags: u32) -> EncodedTable {
    let chain = |name: &str, hook, priority, rules| EncodedChain {
        name: name.to_owned(),
        base: Some(Base { kind: Kind::Filter, hook, priority }.into()),
        rules,
    };
    let rules = rules(aim, group);
    let chains = vec![
        chain(FIRST[0], Hook::Prerouting, i32::MIN, rules.clone()),
        chain(FIRST[1], Hook::Output, i32::MIN, rules),
        chain(LAST[0], Hook::Input, i32::MAX, Vec::new()),
        chain(LAST[1], Hook::Postrouting, i32::MAX, Vec::new()),
    ];
    EncodedTable { name: TABLE.to_owned(), flags, sets: Vec::new(), chains, record: None }
}

fn rules(aim: &Aim, group: Option<u16>) -> Vec<EncodedRule> {
    let is = |field, number: u128| Condition::is(field, Intervals::one(number));
    let begins = [
        Expression::Payload(Header::Transport, TCP_FLAGS, 1),
        Expression::Bitwise(vec![SYN | ACK], vec![0]),
        Expression::Cmp(CmpOperator::Eq, vec![SYN]),
    ];
    // ICMPv6 is traced only on request: neighbour discovery is frequent.
    let protocols = aim.protocol.map_or(vec![IPPROTO_TCP, IPPROTO_UDP], |number| vec![number]);
    let network = aim.network.map(|network| Match::Destination(Negatable::Is(network)));
    let family = aim.network.map(|network| Condition::family(network.family()));
    let rule = |protocol: u8| {
        let network = family.clone().into_iter().chain(network.as_ref().and_then(Match::condition));
        let protocol = is(Field::Protocol, protocol.into());
        let begins = begins.iter().filter(|_| protocol.holds(IPPROTO_TCP.into()) && !aim.every_packet);
        let port = aim.port.map(|port| is(Field::DestinationPort, port.into()));
        let mut expressions = lower::conditions(network.chain([protocol.clone()]));
        expressions.extend(begins.cloned());
        expressions.extend(lower::conditions(port));
        expressions.extend(group.map(|group| Expression::Log(group, "trace".to_owned())));
        expressions
            .extend([Expression::Immediate(Register::First, vec![1]), Expression::SetMeta(Meta::Nftrace)]);
        EncodedRule { expressions, userdata: Vec::new() }
    };
    protocols.into_iter().map(rule).collect()
}
