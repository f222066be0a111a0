//! An owner's policy rules, routes and addresses, found by protocol number, over rtnetlink.

use super::header::*;
use super::link;
use super::message::{RtMsg, af, attribute, attributes, rtmsg, u32_at};
use super::netlink::NetlinkSocket;
use super::route_lookup;
use rules::routing::{Object, RoutingEntry};
use rules::simulate::LOOPBACK;
use rules::{Family, Mark, Ownership, PolicyRules};
use std::net::Ipv6Addr;
use std::{collections::BTreeSet, io, thread, time::Duration};

const NEW: [u16; 3] = [RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE];
const DELETE: [u16; 3] = [RTM_DELADDR, RTM_DELROUTE, RTM_DELRULE];

/// `lo` is the first interface of every namespace (`net/flow.h` in the kernel).
const LOOPBACK_IFINDEX: u32 = 1;

/// A namespace's addresses, routes and policy rules in an owner's form: the owner's, and other programs' equal entries. An entry
/// with another selector, type or prefix belongs to neither list, whatever its protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundRoutes {
    pub ours: Vec<RoutingEntry>,
    /// Equal entries with another protocol, or none.
    pub of_others: Vec<RoutingEntry>,
    /// Descriptions of entries with the owner's protocol that the owner would not make.
    pub unexpected: Vec<String>,
    pub lo_has_ipv6: bool,
}

pub struct NamespaceRouting {
    socket: NetlinkSocket,
    owner: Ownership,
}

impl NamespaceRouting {
    pub fn open(owner: Ownership) -> io::Result<Self> {
        Ok(Self { socket: NetlinkSocket::open(NETLINK_ROUTE)?, owner })
    }

    pub fn read(&mut self) -> io::Result<FoundRoutes> {
        let ours = self.owner.protocol;
        let forms: Vec<PolicyRules> = self.owner.each().map(|one| one.policy_rules).collect();
        let mut found = FoundRoutes::default();
        // A zeroed header requests all families.
        let rules = self.dump(RTM_GETRULE, &[0; size_of::<FibRuleHdr>()], |payload| rule(payload, &forms))?;
        let routes = self.dump(RTM_GETROUTE, &[0; size_of::<RtMsg>()], route)?;
        for one in rules.into_iter().chain(routes) {
            match one {
                ParsedEntry::Matching(entry) if entry.protocol == ours => found.ours.push(entry),
                ParsedEntry::Matching(entry) => found.of_others.push(entry),
                ParsedEntry::Unexpected { protocol, what } if protocol == ours => found.unexpected.push(what),
                ParsedEntry::Unexpected { .. } => {}
            }
        }
        let addresses = self.dump(RTM_GETADDR, &ifaddrmsg(), loopback_address)?;
        // Kernels before 5.18 forget addresses' protocols; newer kernels give `::1` a protocol.
        found.lo_has_ipv6 = addresses.iter().any(|(there, _)| there.is_loopback());
        let remembers = addresses.iter().any(|(_, protocol)| protocol.is_some());
        let desired: BTreeSet<Ipv6Addr> = self.owner.each().filter_map(|one| one.address).collect();
        for &(address, protocol) in addresses.iter().filter(|(there, _)| desired.contains(there)) {
            let is_ours = protocol.map_or(!remembers && Some(address) == self.owner.address, |of| of == ours);
            let entry = RoutingEntry { protocol: protocol.unwrap_or(0), ..Object::Address(address).into() };
            match is_ours {
                true => found.ours.push(self.own(entry.object)),
                false => found.of_others.push(entry),
            }
        }
        Ok(found)
    }

    /// Adds an object, if it is missing. Fails with [`io::ErrorKind::AlreadyExists`] if another object takes its place.
    pub fn add(&mut self, object: Object) -> io::Result<()> {
        match self.make(self.own(object), NLM_F_EXCL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let FoundRoutes { ours, of_others, .. } = self.read()?;
                let is_there = ours.iter().chain(&of_others).any(|entry| entry.object == object);
                let remedy = "another program's object is in its place; remove that, or choose another table";
                if is_there { Ok(()) } else { Err(io::Error::new(error.kind(), remedy)) }
            }
            other => other,
        }
    }

    fn make(&mut self, entry: RoutingEntry, flags: i32) -> io::Result<()> {
        self.send(entry, NEW, NLM_F_CREATE | flags)?;
        if let Object::Address(address) = entry.object {
            wait_for(address);
        }
        Ok(())
    }

    /// Gives another program's address or route the owner's protocol; for a policy rule, adds an equal owner's rule.
    pub fn adopt(&mut self, object: Object) -> io::Result<()> {
        match object {
            Object::Rule { .. } => self.add(object),
            Object::Address(_) | Object::Route { .. } => self.make(self.own(object), NLM_F_REPLACE),
        }
    }

    /// Restores another owner's entry with its protocol, replacing this owner's entry; a policy rule is added beside it.
    pub fn give_back(&mut self, entry: RoutingEntry) -> io::Result<()> {
        match entry.object {
            Object::Rule { .. } => self.make(entry, 0),
            Object::Address(_) | Object::Route { .. } => self.make(entry, NLM_F_REPLACE),
        }
    }

    /// Removes an object. One that is already gone is not an error.
    pub fn remove(&mut self, object: Object) -> io::Result<()> {
        match object {
            // The kernel deletes the first rule that matches the request, even one with further selectors: only the preference
            // reliably identifies a policy rule (`rule_find` in `net/core/fib_rules.c`).
            Object::Rule { .. } => match self.read()?.ours.into_iter().find(|own| own.object == object) {
                Some(own) => self.remove_entry(own),
                None => Ok(()),
            },
            Object::Address(_) | Object::Route { .. } => self.remove_entry(self.own(object)),
        }
    }

    /// Removes an entry of any program. One that is already gone is not an error.
    pub fn remove_entry(&mut self, entry: RoutingEntry) -> io::Result<()> {
        use nix::libc::{EADDRNOTAVAIL, ENOENT, ESRCH};
        match self.send(entry, DELETE, 0) {
            Err(error) if matches!(error.raw_os_error(), Some(ENOENT | ESRCH | EADDRNOTAVAIL)) => Ok(()),
            other => other,
        }
    }

    fn dump<T>(
        &mut self,
        kind: u16,
        head: &[u8],
        read: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        use nix::libc::{EAFNOSUPPORT, EOPNOTSUPP, EPFNOSUPPORT};
        match self.socket.dump(kind, head, read) {
            // A kernel without IPv6, or without IPv6 policy rules, has none of ours.
            Err(error) if matches!(error.raw_os_error(), Some(EAFNOSUPPORT | EOPNOTSUPP | EPFNOSUPPORT)) => {
                Ok(Vec::new())
            }
            other => other,
        }
    }

    /// An object with the owner's protocol. Preference 0: chosen by the kernel; on removal, any.
    fn own(&self, object: Object) -> RoutingEntry {
        RoutingEntry { protocol: self.owner.protocol, ..object.into() }
    }

    fn send(&mut self, entry: RoutingEntry, kinds: [u16; 3], flags: i32) -> io::Result<()> {
        let (RoutingEntry { object, protocol, preference }, [address, route, rule]) = (entry, kinds);
        match object {
            Object::Address(ip) => self.socket.request(address, flags, &ifaddrmsg(), |message| {
                message.address(IFA_LOCAL, ip.into()).address(IFA_ADDRESS, ip.into());
                message.attribute(IFA_PROTO, &[protocol]);
            }),
            Object::Route { family, table } => {
                let head = rtmsg(family, [0, protocol, RT_SCOPE_HOST, RTN_LOCAL]);
                self.socket.request(route, flags, &head, |message| {
                    message.attribute(RTA_TABLE, &table.to_ne_bytes());
                    message.attribute(RTA_OIF, &LOOPBACK_IFINDEX.to_ne_bytes());
                })
            }
            Object::Rule { family, mark, table, .. } => {
                // `struct fib_rule_hdr`: family, lengths, tos, table, two reserved, action, flags.
                let head: FibRuleHdr = [af(family), 0, 0, 0, 0, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
                self.socket.request(rule, flags, &head, |message| {
                    message.attribute(FRA_FWMARK, &mark.value.to_ne_bytes());
                    message.attribute(FRA_FWMASK, &mark.mask.to_ne_bytes());
                    message.attribute(FRA_TABLE, &table.to_ne_bytes());
                    message.attribute(FRA_PROTOCOL, &[protocol]);
                    if preference != 0 {
                        message.attribute(FRA_PRIORITY, &preference.to_ne_bytes());
                    }
                })
            }
        }
    }
}

/// Waits until an IPv6 address is in use. The kernel acknowledges it first and delivers to it a moment later, from a work queue
/// that a busy node may delay; the proxy may start in between. The prefix's route exists at once but delivers nothing. While `lo`
/// is down, no other route appears.
fn wait_for(address: Ipv6Addr) {
    const TRIES: u32 = 10_000;
    const RETRY_INTERVAL: Duration = Duration::from_micros(50);
    if link::is_down(LOOPBACK) {
        return;
    }
    for tries in 0..TRIES {
        if route_lookup::to(address.into()).is_ok_and(|route| route.is_local) {
            return;
        }
        // The queue needs the lock of all namespaces' links, which removals of namespaces hold for seconds: 25 at most in all.
        thread::sleep(RETRY_INTERVAL * (1 + tries / 100));
    }
    tracing::debug!(target: "route", "{address} is not local yet");
}

fn family(header: &[u8]) -> Option<Family> {
    let first = *header.first()?;
    Family::BOTH.into_iter().find(|family| af(*family) == first)
}

type FibRuleHdr = [u8; 12];
type IfAddrMsg = [u8; 8];

/// `struct ifaddrmsg`: family, prefix length, flags, scope, interface.
fn ifaddrmsg() -> IfAddrMsg {
    let [a, b, c, d] = LOOPBACK_IFINDEX.to_ne_bytes();
    [AF_INET6, 128, IFA_F_NODAD, 0, a, b, c, d]
}

enum ParsedEntry {
    /// Has the form that the owner makes.
    Matching(RoutingEntry),
    Unexpected {
        protocol: u8,
        what: String,
    },
}

/// Parses a policy rule. It matches if it has one of these forms and selects packets only by their mark.
fn rule(payload: &[u8], forms: &[PolicyRules]) -> Option<ParsedEntry> {
    let family = family(payload)?;
    let (head, selectors) = payload.split_first_chunk::<{ size_of::<FibRuleHdr>() }>()?;
    // The header contains the table too, if its number is small.
    let [_, dst_len, src_len, tos, _, _, _, action, flags @ ..] = *head;
    let mut is_ours_in_form = [dst_len, src_len, tos] == [0; 3] && action == FR_ACT_TO_TBL && flags == [0; 4];
    let (mut mark, mut mask, mut table, mut protocol, mut preference) = (None, None, None, 0, 0);
    for (kind, value) in attributes(selectors) {
        match kind {
            FRA_FWMARK => mark = u32_at(value, 0),
            FRA_FWMASK => mask = u32_at(value, 0),
            FRA_TABLE => table = u32_at(value, 0),
            FRA_PROTOCOL => protocol = value.first().copied().unwrap_or(0),
            FRA_PRIORITY => preference = u32_at(value, 0).unwrap_or(0),
            FRA_SUPPRESS_PREFIXLEN if u32_at(value, 0) == Some(u32::MAX) => {}
            _ => is_ours_in_form = false,
        }
    }
    let fits = |form: &&PolicyRules| {
        is_ours_in_form
            && mask == Some(form.mask)
            && form.preference.is_none_or(|expected| expected == preference)
    };
    Some(match (mark, table, forms.iter().find(fits)) {
        (Some(value), Some(table), Some(form)) => {
            let mark = Mark { value, mask: form.mask };
            let object = Object::Rule { family, mark, table, preference: form.preference };
            ParsedEntry::Matching(RoutingEntry { object, protocol, preference })
        }
        _ => ParsedEntry::Unexpected {
            protocol,
            what: format!("{family} policy rule with preference {preference}"),
        },
    })
}

/// Parses a route. It matches if it is `local default dev lo` in a table other than the kernel's.
fn route(payload: &[u8]) -> Option<ParsedEntry> {
    let family = family(payload)?;
    let (head, attributes) = payload.split_first_chunk::<{ size_of::<RtMsg>() }>()?;
    let [_, dst_len, src_len, tos, _, protocol, _, kind, ..] = *head;
    let number = |kind| attribute(attributes, kind).and_then(|payload| u32_at(payload, 0));
    let table = number(RTA_TABLE)?;
    let is_ours_in_form = [dst_len, src_len, tos] == [0; 3]
        && kind == RTN_LOCAL
        && number(RTA_OIF) == Some(LOOPBACK_IFINDEX)
        && !(RT_TABLE_DEFAULT..=RT_TABLE_LOCAL).contains(&table);
    Some(match is_ours_in_form {
        true => ParsedEntry::Matching(RoutingEntry { protocol, ..Object::Route { family, table }.into() }),
        false => ParsedEntry::Unexpected { protocol, what: format!("{family} route in table {table}") },
    })
}

fn loopback_address(payload: &[u8]) -> Option<(Ipv6Addr, Option<u8>)> {
    let (head, attributes) = payload.split_first_chunk::<{ size_of::<IfAddrMsg>() }>()?;
    let [ifa_family, _, _, _, ifa_index @ ..] = *head;
    if u32::from_ne_bytes(ifa_index) != LOOPBACK_IFINDEX || ifa_family != AF_INET6 {
        return None;
    }
    let address: [u8; 16] = attribute(attributes, IFA_ADDRESS)?.try_into().ok()?;
    let protocol = attribute(attributes, IFA_PROTO).and_then(|payload| payload.first().copied());
    Some((address.into(), protocol))
}
