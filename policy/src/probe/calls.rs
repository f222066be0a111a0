//! The list of calls: who calls whom.

use super::{Call, Caller, Facts, expect, loopback, nobody, passthrough};
use crate::explain::Scene;
use crate::istio::defaults::DNS_PORT;
use crate::istio::{CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs, OwnerGroups};
use rules::{Cidr, Family, Gid, Port, PortRange, Protocol, Uid};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub(super) struct Calls<'a> {
    config: &'a CaptureConfig,
    facts: &'a Facts<'a>,
    scene: Scene,
    pub(super) made: Vec<Call>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(config: &'a CaptureConfig, facts: &'a Facts<'a>) -> Self {
        let scene = Scene::of_config(config, Family::V4, &facts.pod);
        Self { config, facts, scene, made: Vec::new() }
    }

    fn turn_to(&mut self, family: Family) {
        if self.scene.family != family {
            self.scene = Scene::of_config(self.config, family, &self.facts.pod);
        }
    }

    /// All calls of a family.
    pub(super) fn of(&mut self, family: Family) {
        self.turn_to(family);
        self.outbound(family);
        self.of_proxy(family);
        self.of_owners(family);
        self.of_application(family);
        self.inbound(family);
        self.dns(family);
    }

    fn add(&mut self, caller: Caller, protocol: Protocol, from: Option<IpAddr>, to: IpAddr, port: Port) {
        let owner = self.owner(caller);
        let to = SocketAddr::new(to, port.number());
        let same =
            |call: &Call| (call.owner, call.protocol, call.from, call.to) == (owner, protocol, from, to);
        if !self.made.iter().any(same) {
            self.made.push(expect(&self.scene, self.facts, caller, owner, protocol, from, to));
        }
    }

    /// Networks and ports that lists name, called by the application.
    fn outbound(&mut self, family: Family) {
        let Self { config, facts, .. } = *self;
        let mut call = |to, port| self.add(Caller::Application, Protocol::Tcp, None, to, port);
        call(nobody(family), facts.port);
        let listed: &[Cidr] = match &config.outbound_cidrs {
            OutboundCidrs::All => &[],
            OutboundCidrs::Only(cidrs) => cidrs,
        };
        for list in [listed, &config.excluded_cidrs] {
            let of_family: Vec<Cidr> = list.iter().copied().filter(|cidr| cidr.family() == family).collect();
            for to in some_of(&of_family).filter_map(within) {
                call(to, facts.port);
            }
        }
        for list in [&config.outbound_ports, &config.excluded_outbound_ports] {
            for port in some_of(list).map(PortRange::first) {
                call(nobody(family), port);
            }
        }
    }

    /// The proxy, on its way to the application.
    pub(super) fn of_proxy(&mut self, family: Family) {
        self.turn_to(family);
        let (port, from) = (self.facts.port, Some(loopback(family)));
        self.add(Caller::Proxy, Protocol::Tcp, from, passthrough(family), port);
        if let Some(own) = self.own(family) {
            self.add(Caller::Proxy, Protocol::Tcp, None, own, port);
            self.add(Caller::Proxy, Protocol::Tcp, Some(passthrough(family)), own, port);
        }
    }

    /// Whose calls are left alone, one by one; and the proxy's to its own pod.
    fn of_owners(&mut self, family: Family) {
        let Self { config, facts, .. } = *self;
        // Where the application's calls are captured, theirs pass for no other reason.
        let captured = self.made.iter().find(|call| {
            call.caller == Caller::Application && Family::of(call.to.ip()) == family && call.is_captured()
        });
        let away = captured.map_or(SocketAddr::new(nobody(family), facts.port.number()), |call| call.to);
        let (away, port) = (away.ip(), Port::new(away.port()).unwrap_or(facts.port));
        let users = some_of(&config.proxy_uids).map(Caller::ProxyUser);
        let groups = some_of(&config.proxy_gids).map(Caller::ProxyGroup);
        for caller in users.chain(groups) {
            self.add(caller, Protocol::Tcp, None, away, port);
            if let Some(own) = self.own(family) {
                self.add(caller, Protocol::Tcp, None, own, facts.port);
                self.add(caller, Protocol::Tcp, None, own, config.tunnel_port);
                for port in some_of(&config.excluded_outbound_ports).map(PortRange::first) {
                    self.add(caller, Protocol::Tcp, None, own, port);
                }
            }
        }
        let (OwnerGroups::AllBut(groups) | OwnerGroups::Only(groups)) = &config.owner_groups;
        for group in some_of(groups).map(Caller::Group) {
            self.add(group, Protocol::Tcp, None, away, port);
        }
    }

    /// The application calls itself.
    fn of_application(&mut self, family: Family) {
        let port = self.facts.port;
        for to in self.own(family).into_iter().chain([loopback(family)]) {
            self.add(Caller::Application, Protocol::Tcp, None, to, port);
        }
        // Somebody may have asked for loopback to be captured.
        if let (OutboundCidrs::Only(cidrs), Family::V4) = (&self.config.outbound_cidrs, family)
            && cidrs.iter().any(|cidr| cidr.address().is_loopback())
        {
            let other = Ipv4Addr::new(127, 0, 0, 2).into();
            self.add(Caller::Application, Protocol::Tcp, None, other, port);
        }
    }

    /// Inbound ports. Only a proxy that hands connections over unchanged calls its own pod by way of the rules for
    /// inbound ones; with REDIRECT, those are met by packets from outside alone.
    fn inbound(&mut self, family: Family) {
        let Self { config, .. } = *self;
        if !matches!(config.interception, Interception::Tproxy { .. }) {
            return;
        }
        let (InboundPorts::AllBut(ports) | InboundPorts::Only(ports)) = &config.inbound_ports;
        for caller in some_of(&config.proxy_gids).map(Caller::ProxyGroup) {
            if let Some(own) = self.own(family) {
                for port in some_of(ports).map(PortRange::first) {
                    self.add(caller, Protocol::Tcp, None, own, port);
                }
            }
        }
    }

    /// Questions of the application, and those of the agent, which are the proxy's.
    fn dns(&mut self, family: Family) {
        let Self { config, .. } = *self;
        let servers = match &config.dns {
            DnsCapture::Off => return,
            DnsCapture::All => vec![nobody(family)],
            DnsCapture::Servers(servers) => {
                let own: Vec<IpAddr> =
                    servers.iter().copied().filter(|server| Family::of(*server) == family).collect();
                some_of(&own).collect()
            }
        };
        let users = some_of(&config.proxy_uids).map(Caller::ProxyUser);
        let groups = some_of(&config.proxy_gids).map(Caller::ProxyGroup);
        let callers: Vec<Caller> = [Caller::Application].into_iter().chain(users).chain(groups).collect();
        for caller in callers {
            for &server in &servers {
                for protocol in [Protocol::Udp, Protocol::Tcp] {
                    self.add(caller, protocol, None, server, DNS_PORT);
                }
            }
        }
    }

    /// The first of the pod's addresses, by which others call it.
    fn own(&self, family: Family) -> Option<IpAddr> {
        self.facts.pod.addresses.iter().copied().find(|own| Family::of(*own) == family)
    }

    /// User and group of a caller. What makes it the proxy's is that alone.
    fn owner(&self, caller: Caller) -> (Uid, Gid) {
        let (uid, gid) = self.application();
        match caller {
            Caller::Application => (uid, gid),
            Caller::Proxy => self.facts.pod.proxy,
            Caller::ProxyUser(uid) => (uid, gid),
            Caller::ProxyGroup(gid) | Caller::Group(gid) => (uid, gid),
        }
    }

    /// Somebody that no list names: we, if that is so.
    fn application(&self) -> (Uid, Gid) {
        let Self { config, facts, .. } = *self;
        let is_named = |(uid, gid): (Uid, Gid)| {
            let (OwnerGroups::AllBut(groups) | OwnerGroups::Only(groups)) = &config.owner_groups;
            config.proxy_uids.contains(&uid) || config.proxy_gids.contains(&gid) || groups.contains(&gid)
        };
        let others = (1000..).filter_map(Uid::new).map(|uid| (uid, Gid::from(uid)));
        let free = [facts.own].into_iter().chain(others).find(|owner| !is_named(*owner));
        free.expect("lists are shorter than numbers")
    }
}

/// How much of a list is tried.
const MOST: usize = 4;

/// A short list, or some of a long one, from its start to its end.
fn some_of<T: Copy>(items: &[T]) -> impl Iterator<Item = T> + use<T> {
    let step = items.len().div_ceil(MOST - 1).max(1);
    let last = items.last().filter(|_| items.len() > MOST && !(items.len() - 1).is_multiple_of(step));
    let step = if items.len() > MOST { step } else { 1 };
    items.iter().step_by(step).chain(last).copied().collect::<Vec<_>>().into_iter()
}

/// An address of a network to call: one for documentation, if that lies in it, else the network's own, which is no
/// machine's by custom. `None` where there is no such.
fn within(cidr: Cidr) -> Option<IpAddr> {
    let documented = nobody(cidr.family());
    if cidr.contains(documented) {
        return Some(documented);
    }
    let address = cidr.address();
    let callable = match address {
        IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_multicast() && !v6.is_loopback(),
    };
    callable.then_some(address)
}
