//! Policy rules, routes and addresses of ours, over rtnetlink.
//!
//! All carry a protocol number of our own, by which they are found again without knowing the options that
//! made them.

use super::header::*;
use super::message::{Messages, attribute, u32_at};
use super::netlink::{Request, Socket};
use nix::sys::socket::SockProtocol;
use rules::Family;
use std::{
    fmt, io,
    net::{Ipv6Addr, UdpSocket},
    thread,
    time::Duration,
};

/// Our routing protocol number. 137 is in nobody's `/etc/iproute2/rt_protos`.
pub const PROTOCOL: u8 = 137;

/// How to add and how to remove an address, a route, a rule.
const NEW: [u16; 3] = [RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE];
const DELETE: [u16; 3] = [RTM_DELADDR, RTM_DELROUTE, RTM_DELRULE];

/// `lo` is the first interface of every namespace (`net/flow.h` inside of the kernel).
const LOOPBACK_IFINDEX: u32 = 1;

const fn af(family: Family) -> u8 {
    match family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    }
}

/// Something of ours that routes packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// `::6/128` on `lo`.
    Address,
    /// A local default route on `lo`, alone in its table.
    Route {
        /// Its family.
        family: Family,
        /// Its table.
        table: u32,
    },
    /// A rule that sends packets of this mark to this table.
    Rule {
        /// Its family.
        family: Family,
        /// The packets' mark, all bits.
        mark: u32,
        /// The table.
        table: u32,
    },
}

impl Object {
    /// The family that it belongs to.
    pub fn family(self) -> Family {
        match self {
            Self::Address => Family::V6,
            Self::Route { family, .. } | Self::Rule { family, .. } => family,
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = |family| if family == Family::V6 { "-6 " } else { "" };
        match *self {
            Self::Address => write!(f, "address {ADDRESS}/128 on lo"),
            Self::Route { family, table } => {
                write!(f, "route {}local default dev lo table {table}", option(family))
            }
            Self::Rule { family, mark, table } => {
                write!(f, "policy rule {}fwmark {mark} lookup {table}", option(family))
            }
        }
    }
}

/// The discard port (RFC 863); connecting a datagram socket sends nothing.
const DISCARD: u16 = 9;

/// The address that an [`Object::Address`] is.
const ADDRESS: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6);

/// What is there, of ours and in our place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// All that is ours, duplicates included.
    pub ours: Vec<Object>,
    /// Whether somebody else has put `::6` on `lo`.
    pub foreign_address: bool,
}

/// A connection to the kernel's routing.
pub struct Routes(Socket);

impl Routes {
    /// Opens a connection in the thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses the socket.
    pub fn open() -> io::Result<Self> {
        Socket::open(SockProtocol::NetlinkRoute).map(Self)
    }

    /// Reads what is ours. Creates nothing.
    ///
    /// # Errors
    /// When a dump fails.
    pub fn read(&mut self) -> io::Result<Found> {
        let mut found = Found::default();
        for family in Family::BOTH {
            found
                .ours
                .extend(self.dump(RTM_GETRULE, &rule_head(family, FR_ACT_UNSPEC), |p| rule(family, p))?);
            found
                .ours
                .extend(self.dump(RTM_GETROUTE, &route_head(family, RTN_UNSPEC), |p| route(family, p))?);
        }
        let addresses = self.dump(RTM_GETADDR, &address_head(), loopback_address)?;
        // A kernel before 5.18 forgets the protocol of addresses; newer ones give `::1` one of their own.
        let remembered = addresses.iter().any(|(_, protocol)| protocol.is_some());
        match addresses.iter().find(|(address, _)| *address == ADDRESS) {
            Some((_, Some(PROTOCOL))) => found.ours.push(Object::Address),
            Some((_, None)) if !remembered => found.ours.push(Object::Address),
            Some(_) => found.foreign_address = true,
            None => {}
        }
        Ok(found)
    }

    /// Adds an object. One that is there already is fine.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn add(&mut self, object: Object) -> io::Result<()> {
        match self.send(object, NEW, NLM_F_CREATE | NLM_F_EXCL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Ok(()) if object == Object::Address => {
                wait_for_address();
                Ok(())
            }
            other => other,
        }
    }

    /// Removes an object. One that is gone already is fine.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn remove(&mut self, object: Object) -> io::Result<()> {
        use nix::libc::{EADDRNOTAVAIL, ENOENT, ESRCH};
        match self.send(object, DELETE, 0) {
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
        match self.0.dump(&Request { kind, flags: 0, head }, read) {
            // A kernel without IPv6, or without policy rules for it, has none of ours.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(nix::libc::EAFNOSUPPORT | nix::libc::EOPNOTSUPP | nix::libc::EPFNOSUPPORT)
                ) =>
            {
                Ok(Vec::new())
            }
            other => other,
        }
    }

    fn send(&mut self, object: Object, [address, route, rule]: [u16; 3], flags: u16) -> io::Result<()> {
        match object {
            Object::Address => {
                let request = Request { kind: address, flags, head: &address_head() };
                self.0.request(&request, |message| {
                    message.attribute(IFA_LOCAL, &ADDRESS.octets());
                    message.attribute(IFA_ADDRESS, &ADDRESS.octets());
                    message.attribute(IFA_PROTO, &[PROTOCOL]);
                })
            }
            Object::Route { family, table } => {
                let request = Request { kind: route, flags, head: &route_head(family, RTN_LOCAL) };
                self.0.request(&request, |message| {
                    message.attribute(RTA_TABLE, &table.to_ne_bytes());
                    message.attribute(RTA_OIF, &LOOPBACK_IFINDEX.to_ne_bytes());
                })
            }
            Object::Rule { family, mark, table } => {
                let request = Request { kind: rule, flags, head: &rule_head(family, FR_ACT_TO_TBL) };
                self.0.request(&request, |message: &mut Messages| {
                    message.attribute(FRA_FWMARK, &mark.to_ne_bytes());
                    message.attribute(FRA_FWMASK, &u32::MAX.to_ne_bytes());
                    message.attribute(FRA_TABLE, &table.to_ne_bytes());
                    message.attribute(FRA_PROTOCOL, &[PROTOCOL]);
                })
            }
        }
    }
}

/// The kernel acknowledges an IPv6 address first and routes it a moment later, from a work queue; the proxy may
/// start in between. While `lo` is down it never does, so the wait is a short one.
fn wait_for_address() {
    const TRIES: u32 = 50;
    const PAUSE: Duration = Duration::from_millis(1);
    let is_routed = || {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        socket.connect((ADDRESS, DISCARD))?;
        // Over any other route, the kernel would choose another source.
        Ok::<bool, io::Error>(socket.local_addr()?.ip() == ADDRESS)
    };
    for _ in 0..TRIES {
        if is_routed().unwrap_or(false) {
            return;
        }
        thread::sleep(PAUSE);
    }
    tracing::debug!(target: "route", "{ADDRESS} is not routed yet; is lo down?");
}

/// `struct fib_rule_hdr`: family, lengths, tos, table, two reserved, action, flags.
fn rule_head(family: Family, action: u8) -> [u8; 12] {
    [af(family), 0, 0, 0, 0, 0, 0, action, 0, 0, 0, 0]
}

/// `struct rtmsg`: family, lengths, tos, table, protocol, scope, type, flags.
fn route_head(family: Family, kind: u8) -> [u8; 12] {
    [af(family), 0, 0, 0, 0, PROTOCOL, RT_SCOPE_HOST, kind, 0, 0, 0, 0]
}

/// `struct ifaddrmsg`: family, prefix length, flags, scope, interface.
fn address_head() -> [u8; 8] {
    let [a, b, c, d] = LOOPBACK_IFINDEX.to_ne_bytes();
    [AF_INET6, 128, IFA_F_NODAD, 0, a, b, c, d]
}

fn rule(family: Family, payload: &[u8]) -> Option<Object> {
    let attributes = payload.get(12..)?;
    if attribute(attributes, FRA_PROTOCOL) != Some(&[PROTOCOL]) {
        return None;
    }
    let number = |kind| attribute(attributes, kind).and_then(|payload| u32_at(payload, 0));
    Some(Object::Rule { family, mark: number(FRA_FWMARK)?, table: number(FRA_TABLE)? })
}

fn route(family: Family, payload: &[u8]) -> Option<Object> {
    let table = attribute(payload.get(12..)?, RTA_TABLE).and_then(|payload| u32_at(payload, 0))?;
    (payload.get(5) == Some(&PROTOCOL)).then_some(Object::Route { family, table })
}

/// An address of `lo` and its protocol.
fn loopback_address(payload: &[u8]) -> Option<(Ipv6Addr, Option<u8>)> {
    if u32_at(payload, 4)? != LOOPBACK_IFINDEX || payload.first() != Some(&AF_INET6) {
        return None;
    }
    let attributes = payload.get(8..)?;
    let address: [u8; 16] = attribute(attributes, IFA_ADDRESS)?.try_into().ok()?;
    let protocol = attribute(attributes, IFA_PROTO).and_then(|payload| payload.first().copied());
    Some((address.into(), protocol))
}
