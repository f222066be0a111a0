//! The live rules of a network namespace or a listing, and the routes of its packets, as the kernel looks them up.

use super::run::Run;
use diagnose::compare::{self, Change, ComparedSide};
use diagnose::explain::{
    Arrival, IncomingPacket, LOCAL_PORTS, OutgoingPacket, PodContext, Route, Routes, RuleView, SOURCE_PORT,
};
use mesh::{Capture, recognition::named, visible};
use nix::libc::{EACCES, EHOSTUNREACH, EINVAL, ENETUNREACH};
use nix::net::if_::if_nametoindex;
use rules::saved::{Saved, saved};
use rules::{Family, Mark, nft::protocol_number, simulate::LOOPBACK};
use sidecar_init::sys::link::{self, unread};
use sidecar_init::sys::route_lookup::{self, ResolvedRoute, RouteQuery};
use sidecar_init::{backend, engine, observe::routing, sys::address, sys::namespace::lacks_ipv6};
use std::{error::Error, fs, io, net::IpAddr};

/// Rules from a listing; from standard input for `-`.
pub(super) fn from_save(file: &str, pod: &PodContext) -> Result<Vec<RuleView>, Box<dyn Error>> {
    let text = match file {
        "-" => io::read_to_string(io::stdin())?,
        path => fs::read_to_string(path).map_err(|error| format!("{path} can't be read: {error}"))?,
    };
    let saved = saved(&text).map_err(|error| format!("{file} can't be read: {error}"))?;
    let Saved { listings, gaps, remarks } = saved;
    for remark in remarks {
        tracing::warn!(target: "listing", "{file}: {}", visible(&remark));
    }
    let rule_view = |listing, gap| {
        let RuleView { family, view, routing } = RuleView::of_listing(listing, pod);
        RuleView { family, view: view.with_gap(gap), routing }
    };
    Ok(vec![rule_view(listings.v4, gaps.v4), rule_view(listings.v6, gaps.v6)])
}

pub(super) fn from_kernel(run: &Run, pod: &PodContext) -> Result<Vec<RuleView>, backend::Error> {
    let owner = run.every_owner();
    let mut kernel = run.open_for(owner)?;
    let routes = kernel.routing()?;
    for blocked in kernel.blocked_tables()? {
        tracing::warn!(target: "backend", "{blocked}");
    }
    for text in unread().unwrap_or_default() {
        tracing::warn!(target: "backend", "{text} may also decide, but can't be read: verdicts consider only the rules");
    }
    if link::is_down(LOOPBACK) {
        tracing::warn!(target: "backend", "lo is down, but traffic to the proxy uses it; run: ip link set lo up");
    }
    let rule_view = |family: Family| {
        let view = named(engine::live(&mut kernel, family)?);
        for text in engine::other_captures(&view, &owner) {
            tracing::info!(target: "listing", %family, "{text}");
        }
        Ok(RuleView { family, view, routing: routing(&routes, family, &pod.addresses) })
    };
    Family::BOTH.into_iter().map(rule_view).collect()
}

pub(super) fn changed_verdicts(
    run: &Run,
    capture: &Capture,
    desired: impl FnOnce(&PodContext) -> ComparedSide,
) -> Result<compare::Comparison, Box<dyn Error>> {
    let pod = compare::pod(&[PodContext::new(address::all()?, Some(&**capture))]);
    let live = ComparedSide::of_rules(from_kernel(run, &pod)?, &pod);
    let mut comparison = compare::compare(&live, &desired(&pod), &pod);
    if lacks_ipv6(LOOPBACK) {
        let is_ipv4 = |change: &Change| change.packets.families.iter().any(|one| one == Family::V4.word());
        comparison.changes.retain(is_ipv4);
    }
    Ok(comparison)
}

pub(super) struct KernelRoutes {
    addresses: Vec<(IpAddr, String)>,
    /// Marks of packets that are delivered locally, for the walk.
    local_marks: Vec<(Family, Mark)>,
}

impl KernelRoutes {
    pub(super) fn of(rule_views: &[RuleView]) -> Self {
        let marks = rule_views.iter().flat_map(|rule_view| {
            rule_view.routing.local_marks.iter().map(move |mark| (rule_view.family, *mark))
        });
        Self { addresses: address::by_interface().unwrap_or_default(), local_marks: marks.collect() }
    }

    fn holder(&self, address: IpAddr) -> Option<&str> {
        self.addresses.iter().find(|(own, _)| *own == address).map(|(_, name)| name.as_str())
    }

    /// Interfaces of a packet by its source port, if routing depends on that.
    fn by_source_ports(&self, flow: &RouteQuery<'_>) -> Vec<String> {
        let (first, last) = self.local_ports();
        let bounds = route_lookup::source_port_bounds().unwrap_or_default();
        let always = if bounds.is_empty() { Vec::new() } else { vec![SOURCE_PORT, first] };
        let within = bounds.into_iter().filter(|port| (first..=last).contains(port));
        let by_rules = always.into_iter().chain(within).filter_map(|port| {
            let route = route_lookup::of(&RouteQuery { source_port: Some(port), ..*flow }).ok()?;
            Some(route.interface)
        });
        let version = if flow.to.is_ipv4() { "ipv4" } else { "ipv6" };
        let policy = fs::read_to_string(format!("/proc/sys/net/{version}/fib_multipath_hash_policy"));
        // The hash covers ports, or fields that an administrator chooses (the kernel's `ip-sysctl`).
        let by_hash = match policy.as_deref().map(str::trim) {
            Ok("1" | "3") => route_lookup::next_hops(flow).unwrap_or_default(),
            _ => Vec::new(),
        };
        by_rules.chain(by_hash).collect()
    }

    /// The interface at which a packet arrives, if not given.
    fn entrance(&self, packet: &IncomingPacket<'_>) -> Option<String> {
        let outside = |name: &str| (name != LOOPBACK).then(|| name.to_owned());
        let back = packet.from.and_then(|from| outside(&route_lookup::to(from).ok()?.interface));
        back.or_else(|| outside(self.holder(packet.to)?))
            .or_else(|| self.addresses.iter().find_map(|(_, name)| outside(name)))
    }
}

impl Routes for KernelRoutes {
    fn leaving(&self, packet: &OutgoingPacket) -> Result<Route, String> {
        let OutgoingPacket { to, from, source_port, protocol, uid, mark } = packet;
        let family = Family::of(to.ip());
        let is_local = self.local_marks.iter().any(|(of, local)| *of == family && local.covers(*mark));
        let flow = RouteQuery {
            to: to.ip(),
            // Other sources are possible only for a transparent socket, which is routed the same way.
            from: from.filter(|from| from.is_loopback() || self.holder(*from).is_some()),
            service: Some((protocol_number(*protocol), to.port())),
            source_port: *source_port,
            uid: Some(uid.number()),
            mark: if is_local { 0 } else { *mark },
            at: None,
        };
        // An IPv4 connection is routed again with the source that the first route chose (`ip_route_connect` in the kernel).
        let again = |first: ResolvedRoute| match first.source.filter(|_| flow.from.is_none() && to.is_ipv4())
        {
            Some(source) => {
                let found = route_lookup::of(&RouteQuery { from: Some(source), ..flow })?;
                Ok(ResolvedRoute { source: Some(source), ..found })
            }
            None => Ok(first),
        };
        match route_lookup::of(&flow).and_then(again) {
            Ok(found) if link::is_down(&found.interface) => {
                let name = found.interface;
                Err(format!("no packet is sent: {name} is down; ip link set {name} up"))
            }
            Ok(found) => {
                let flow = RouteQuery { from: flow.from.or(found.source), ..flow };
                let mut others = if source_port.is_none() { self.by_source_ports(&flow) } else { Vec::new() };
                // The first interface belongs to the example's port.
                let interface = others.first().cloned().unwrap_or(found.interface);
                others.retain(|other| *other != interface);
                Ok(Route { interface, source: found.source, others, is_group: found.is_group })
            }
            Err(_) if is_local => Ok(Route::by(LOOPBACK.to_owned())),
            Err(error) => {
                let to = to.ip();
                let why = match error.raw_os_error() {
                    Some(ENETUNREACH) => format!("no route leads to {to}"),
                    Some(EHOSTUNREACH) => format!("the route to {to} is unreachable"),
                    Some(EACCES) => format!("{to} has a prohibit route"),
                    Some(EINVAL) => format!("{to} has a blackhole route"),
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
        is_up(&interface)?;
        let Some(from) = packet.from else {
            // Acceptance depends on the sender, which is not given.
            let local = self.holder(packet.to).is_some()
                || route_lookup::to(packet.to).is_ok_and(|route| route.is_local);
            return match local || forwards(packet.to, &interface) {
                true => Ok(Arrival { interface, local }),
                false => Err(format!(
                    "{interface} does not accept packets to {}: this namespace lacks the address and does not forward",
                    packet.to
                )),
            };
        };
        let (mark, at) = (packet.mark, Some(&*interface));
        let flow = RouteQuery { from: Some(from), mark, at, ..RouteQuery::to(packet.to) };
        match route_lookup::of(&flow) {
            Ok(found) => Ok(Arrival { local: found.is_local, interface }),
            Err(error) => {
                // Removes the number that the standard library appends.
                let why = error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase();
                Err(format!(
                    "{interface} does not accept packets from {from} to {}: {why}; check the return route, rp_filter and forwarding",
                    packet.to
                ))
            }
        }
    }

    fn local_ports(&self) -> (u16, u16) {
        let given = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut numbers = given.split_whitespace().filter_map(|number| number.parse().ok());
        numbers.next().zip(numbers.next()).unwrap_or(LOCAL_PORTS)
    }

    fn address_at(&self, interface: &str, family: Family) -> Result<IpAddr, String> {
        is_up(interface)?;
        let of = |(own, name): &&(IpAddr, String)| name == interface && Family::of(*own) == family;
        let own = self.addresses.iter().find(of).map(|(own, _)| *own);
        own.ok_or_else(|| format!("{interface} has no address to redirect to"))
    }
}

fn is_up(interface: &str) -> Result<(), String> {
    let refused = |why: &str| format!("nothing arrives at {interface}: {why}");
    if_nametoindex(interface).map_err(|_| refused("no interface has that name"))?;
    match link::is_down(interface) {
        true => Err(refused(&format!("it is down; ip link set {interface} up"))),
        false => Ok(()),
    }
}

/// True if packets to an address that arrive at an interface are forwarded, or if that is unknown.
fn forwards(to: IpAddr, interface: &str) -> bool {
    let (version, of) = if to.is_ipv4() { ("ipv4", interface) } else { ("ipv6", "all") };
    let given = fs::read_to_string(format!("/proc/sys/net/{version}/conf/{of}/forwarding"));
    given.map_or(true, |given| given.trim() != "0")
}
