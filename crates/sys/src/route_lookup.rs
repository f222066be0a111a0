//! The route that the kernel would choose for a packet, over rtnetlink. Nothing is sent.

use super::header::*;
use super::message::{af, attribute, attributes, ip, u32_at};
use super::netlink::NetlinkSocket;
use nix::net::if_::{if_indextoname, if_nametoindex};
use rules::Family;
use std::{io, net::IpAddr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteQuery<'a> {
    pub to: IpAddr,
    /// Source address; for a locally generated packet only if the sender has chosen one.
    pub from: Option<IpAddr>,
    pub service: Option<(u8, u16)>,
    pub source_port: Option<u16>,
    /// Sending user; `None` for our own.
    pub uid: Option<u32>,
    pub mark: u32,
    /// Incoming interface; `None` for a locally generated packet.
    pub at: Option<&'a str>,
}

impl RouteQuery<'_> {
    pub fn to(to: IpAddr) -> Self {
        Self { to, from: None, service: None, source_port: None, uid: None, mark: 0, at: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRoute {
    /// Outgoing interface; `lo` for addresses of this namespace.
    pub interface: String,
    pub source: Option<IpAddr>,
    pub is_local: bool,
    pub is_group: bool,
}

/// Length of `struct rtmsg` and of `struct fib_rule_hdr`, and the offsets of a route's type and flags.
const HEAD: usize = 12;
const KIND: usize = 7;
const FLAGS: usize = 8;

/// Route to an address, for a packet without a mark. Fails with the kernel's error.
pub fn to(destination: IpAddr) -> io::Result<ResolvedRoute> {
    of(&RouteQuery::to(destination))
}

pub fn of(flow: &RouteQuery<'_>) -> io::Result<ResolvedRoute> {
    let answer = ask(flow, 0)?;
    let attributes = answer.get(HEAD..).unwrap_or_default();
    let index = attribute(attributes, RTA_OIF).and_then(|index| u32_at(index, 0));
    let index = index.ok_or(io::ErrorKind::NetworkUnreachable)?;
    let source = attribute(attributes, RTA_PREFSRC).and_then(ip);
    let kind = answer.get(KIND).copied().unwrap_or_default();
    let (is_local, is_group) = (kind == RTN_LOCAL, matches!(kind, RTN_BROADCAST | RTN_MULTICAST));
    Ok(ResolvedRoute { interface: name(index)?, source, is_local, is_group })
}

/// Interfaces of all next hops of a packet's route; empty for a single next hop.
pub fn next_hops(flow: &RouteQuery<'_>) -> io::Result<Vec<String>> {
    let answer = ask(flow, RTM_F_FIB_MATCH)?;
    let mut hops = attribute(answer.get(HEAD..).unwrap_or_default(), RTA_MULTIPATH).unwrap_or_default();
    let mut interfaces = Vec::new();
    // `struct rtnexthop`: length, flags, weight, interface; then attributes.
    while let (Some(&[a, b]), Some(index)) = (hops.first_chunk(), u32_at(hops, 4)) {
        interfaces.push(name(index)?);
        let length = usize::from(u16::from_ne_bytes([a, b])).next_multiple_of(4);
        hops = hops.get(length.max(1)..).unwrap_or_default();
    }
    Ok(interfaces)
}

/// Source ports at which a policy rule's range begins, and the ports just after its end.
pub fn source_port_bounds() -> io::Result<Vec<u16>> {
    let ranges = NetlinkSocket::open(NETLINK_ROUTE)?.dump(RTM_GETRULE, &[0; HEAD], |payload| {
        let mut of_rule = attributes(payload.get(HEAD..)?);
        let (_, range) = of_rule.find(|(kind, _)| *kind == FRA_SPORT_RANGE)?;
        let [a, b, c, d] = *range.first_chunk()?;
        Some([u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]).saturating_add(1)])
    })?;
    Ok(ranges.into_iter().flatten().collect())
}

fn ask(flow: &RouteQuery<'_>, flags: u32) -> io::Result<Vec<u8>> {
    let RouteQuery { to, from, service, source_port, uid, mark, at } = *flow;
    let index = at.map(if_nametoindex).transpose()?;
    let family = Family::of(to);
    let bits = family.bits();
    let from_bits = if from.is_some() { bits } else { 0 };
    let mut head: [u8; HEAD] = [af(family), bits, from_bits, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    head[FLAGS..].copy_from_slice(&flags.to_ne_bytes());
    NetlinkSocket::open(NETLINK_ROUTE)?.one(RTM_GETROUTE, &head, |message| {
        message.address(RTA_DST, to);
        if let Some(from) = from {
            message.address(RTA_SRC, from);
        }
        if let Some(index) = index {
            message.attribute(RTA_IIF, &index.to_ne_bytes());
        }
        if let Some(uid) = uid {
            message.attribute(RTA_UID, &uid.to_ne_bytes());
        }
        if mark != 0 {
            message.attribute(RTA_MARK, &mark.to_ne_bytes());
        }
        if let Some((protocol, port)) = service {
            message.attribute(RTA_IP_PROTO, &[protocol]);
            message.attribute(RTA_DPORT, &port.to_be_bytes());
        }
        if let Some(port) = source_port {
            message.attribute(RTA_SPORT, &port.to_be_bytes());
        }
    })
}

fn name(index: u32) -> io::Result<String> {
    Ok(if_indextoname(index)?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace;
    use std::{
        net::{Ipv4Addr, Ipv6Addr},
        process::Command,
    };

    #[test]
    fn new_namespace_has_no_routes() {
        let results = namespace::within_new(|| {
            [IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()]
                .map(|address| to(address).expect_err("no route").kind())
        });
        let results = results.expect("CAP_SYS_ADMIN");
        assert_eq!(results, [io::ErrorKind::NetworkUnreachable; 2]);
    }

    #[test]
    fn route_lookup_follows_policy_rules_like_a_packet() {
        let results = namespace::within_new(|| {
            for call in [
                "link set lo up",
                "link add eth0 type veth peer name far",
                "link set eth0 up",
                "link set far up",
                "address add 10.77.0.2/24 dev eth0",
                "route add default via 10.77.0.1",
                "rule add uidrange 7-7 lookup 100",
                "route add 10.9.0.0/16 dev far src 10.77.0.2 table 100",
                "route add blackhole 10.8.0.0/16",
                "route add unreachable 10.7.0.0/16",
                "route add prohibit 10.6.0.0/16",
            ] {
                let done = Command::new("ip").args(call.split(' ')).status().expect("ip starts");
                assert!(done.success(), "ip {call}: {done}");
            }
            let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
            let flow =
                RouteQuery { uid: Some(1000), service: Some((6, 80)), ..RouteQuery::to(address("10.9.0.1")) };
            let kind = |to: &str| of(&RouteQuery { to: address(to), ..flow }).expect_err(to).kind();
            (
                [
                    of(&flow),
                    of(&RouteQuery { uid: Some(7), ..flow }),
                    of(&RouteQuery { to: address("10.77.0.2"), ..flow }),
                ],
                ["10.8.0.1", "10.7.0.1", "10.6.0.1"].map(kind),
                of(&RouteQuery {
                    to: address("10.77.0.2"),
                    from: Some(address("10.77.0.9")),
                    at: Some("eth0"),
                    ..flow
                }),
                of(&RouteQuery { at: Some("eth7"), ..flow }).expect_err("no such interface").kind(),
            )
        });
        let (found, refused, arriving, nowhere) = results.expect("CAP_SYS_ADMIN");
        let found = found.map(|route| route.expect("a route"));
        let interfaces = found.each_ref().map(|route| (route.interface.as_str(), route.is_local));
        assert_eq!(interfaces, [("eth0", false), ("far", false), ("lo", true)]);
        assert_eq!(found[0].source, Some("10.77.0.2".parse().expect("an address")));
        let expected =
            [io::ErrorKind::InvalidInput, io::ErrorKind::HostUnreachable, io::ErrorKind::PermissionDenied];
        assert_eq!(refused, expected);
        assert!(arriving.expect("it is the namespace's own").is_local);
        assert_eq!(nowhere, io::Error::from_raw_os_error(nix::libc::ENODEV).kind());
    }
}
