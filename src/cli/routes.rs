//! The routes of packets in the current network namespace, as the kernel looks them up.

use diagnose::explain::{Arrival, IncomingPacket, LOCAL_PORTS, OutgoingPacket, Route, Routes, RuleView};
use nix::libc::{EACCES, EHOSTUNREACH, EINVAL, ENETUNREACH};
use nix::net::if_::if_nametoindex;
use rules::simulate::LOOPBACK;
use rules::{Family, Mark, nft::protocol_number};
use sidecar_init::sys::{
    address,
    route_lookup::{self, ResolvedRoute, RouteQuery},
};
use std::{fs, io, net::IpAddr};

/// Route lookups in one network namespace.
pub(super) struct KernelRoutes {
    /// Every address, with its interface.
    addresses: Vec<(IpAddr, String)>,
    /// Packets of these marks are delivered here, as the walk knows.
    local_marks: Vec<(Family, Mark)>,
}

impl KernelRoutes {
    /// Of the namespace whose rules and policy rules these are.
    pub(super) fn of(rule_views: &[RuleView]) -> Self {
        let marks = rule_views.iter().flat_map(|rule_view| {
            rule_view.routing.local_marks.iter().map(move |mark| (rule_view.family, *mark))
        });
        Self { addresses: address::by_interface().unwrap_or_default(), local_marks: marks.collect() }
    }

    /// The interface that has an address.
    fn holder(&self, address: IpAddr) -> Option<&str> {
        self.addresses.iter().find(|(own, _)| *own == address).map(|(_, name)| name.as_str())
    }

    /// The interface at which a packet arrives, where it is not given.
    fn entrance(&self, packet: &IncomingPacket<'_>) -> Option<String> {
        let outside = |name: &str| (name != LOOPBACK).then(|| name.to_owned());
        // Where an answer would leave.
        let back = packet.from.and_then(|from| outside(&route_lookup::to(from).ok()?.interface));
        back.or_else(|| outside(self.holder(packet.to)?))
            .or_else(|| self.addresses.iter().find_map(|(_, name)| outside(name)))
    }
}

impl Routes for KernelRoutes {
    fn leaving(&self, packet: &OutgoingPacket) -> Result<Route, String> {
        let OutgoingPacket { to, from, protocol, uid, mark } = packet;
        let family = Family::of(to.ip());
        // The walk needs their route without the mark.
        let is_local = self.local_marks.iter().any(|(of, local)| *of == family && local.covers(*mark));
        let flow = RouteQuery {
            to: to.ip(),
            // From any other, a transparent socket alone sends, which is routed all the same.
            from: from.filter(|from| from.is_loopback() || self.holder(*from).is_some()),
            service: Some((protocol_number(*protocol), to.port())),
            uid: Some(uid.number()),
            mark: if is_local { 0 } else { *mark },
            at: None,
        };
        // A connection over IPv4 is routed again with the source that the first route chose (`ip_route_connect` in
        // `net/route.h` of the kernel).
        let again = |first: ResolvedRoute| match first.source.filter(|_| flow.from.is_none() && to.is_ipv4())
        {
            Some(source) => {
                let found = route_lookup::of(&RouteQuery { from: Some(source), ..flow })?;
                Ok(ResolvedRoute { source: Some(source), ..found })
            }
            None => Ok(first),
        };
        match route_lookup::of(&flow).and_then(again) {
            Ok(found) => Ok(Route { interface: found.interface, source: found.source }),
            Err(_) if is_local => Ok(Route { interface: LOOPBACK.to_owned(), source: None }),
            Err(error) => {
                let to = to.ip();
                let why = match error.raw_os_error() {
                    Some(ENETUNREACH) => format!("no route leads to {to}"),
                    Some(EHOSTUNREACH) => format!("the route to {to} says unreachable"),
                    Some(EACCES) => format!("the route to {to} says prohibit"),
                    Some(EINVAL) => format!("the route to {to} says blackhole"),
                    _ => format!("the kernel has no route to {to} ({error})"),
                };
                Err(format!("no packet is sent: {why} for user {uid}"))
            }
        }
    }

    fn arriving(&self, packet: &IncomingPacket<'_>) -> Result<Arrival, String> {
        let at = packet.at.map(str::to_owned).or_else(|| self.entrance(packet));
        let Some(interface) = at else {
            return Err("nothing arrives: no interface but lo has an address here".to_owned());
        };
        is_here(&interface)?;
        let Some(from) = packet.from else {
            // Whether it is accepted depends on its sender, which is not given.
            let local = self.holder(packet.to).is_some()
                || route_lookup::to(packet.to).is_ok_and(|route| route.is_local);
            return Ok(Arrival { interface, local });
        };
        let flow = RouteQuery {
            from: Some(from),
            mark: packet.mark,
            at: Some(&interface),
            ..RouteQuery::to(packet.to)
        };
        match route_lookup::of(&flow) {
            Ok(found) => Ok(Arrival { local: found.is_local, interface }),
            Err(error) => Err(format!(
                "nothing from {from} to {} is taken in at {interface}: {}; see the route back, rp_filter and forwarding",
                packet.to,
                reason(&error)
            )),
        }
    }

    fn local_ports(&self) -> (u16, u16) {
        let given = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut numbers = given.split_whitespace().filter_map(|number| number.parse().ok());
        numbers.next().zip(numbers.next()).unwrap_or(LOCAL_PORTS)
    }

    fn address_at(&self, interface: &str, family: Family) -> Result<IpAddr, String> {
        is_here(interface)?;
        let of = |(own, name): &&(IpAddr, String)| name == interface && Family::of(*own) == family;
        let own = self.addresses.iter().find(of).map(|(own, _)| *own);
        own.ok_or_else(|| format!("nothing is redirected at {interface}: it has no address"))
    }
}

fn is_here(interface: &str) -> Result<(), String> {
    let refused = |_| format!("nothing arrives at {interface}: no interface here has that name");
    if_nametoindex(interface).map(drop).map_err(refused)
}

/// The kernel's reason without the number that the standard library adds.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}
