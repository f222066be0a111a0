//! The list of calls: who calls whom.

use super::{Call, Caller, ProbeContext, documentation_address, expect};
use crate::explain::RuleView;
use crate::unnamed::unnamed_user;
use mesh::settings::Setting;
use mesh::{CapturePolicy, DNS_PORT, ListItem, Proxy, Selector, loopback};
use rules::{Cidr, Family, Gid, Port, Protocol, Uid};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub(super) struct CallList<'a> {
    rule_view: &'a RuleView,
    proxy: Proxy,
    lists: Vec<ListItem>,
    facts: &'a ProbeContext<'a>,
    pub(super) made: Vec<Call>,
}

impl<'a> CallList<'a> {
    /// Calls of a family, by rules of a configuration.
    pub(super) fn new(
        rule_view: &'a RuleView,
        config: &dyn CapturePolicy,
        facts: &'a ProbeContext<'a>,
    ) -> Self {
        Self { rule_view, proxy: config.proxy(), lists: config.lists(), facts, made: Vec::new() }
    }

    /// The same by rules of which is known who the proxy is, and nothing else.
    pub(super) fn by_rules(rule_view: &'a RuleView, proxy: Proxy, facts: &'a ProbeContext<'a>) -> Self {
        Self { rule_view, proxy, lists: Vec::new(), facts, made: Vec::new() }
    }

    /// All calls of the family.
    pub(super) fn all(&mut self) {
        let family = self.rule_view.family;
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
            self.made.push(expect(self.rule_view, self.facts, caller, owner, protocol, from, to));
        }
    }

    /// What the lists name, in the order of the settings, as far as `item` takes it; some of each list.
    fn listed<T: Copy>(&self, item: impl Fn(&Selector) -> Option<T>) -> Vec<T> {
        let mut by_setting: BTreeMap<Setting, Vec<T>> = BTreeMap::new();
        for ListItem { setting, selector, .. } in &self.lists {
            by_setting.entry(*setting).or_default().extend(item(selector));
        }
        by_setting.values().flat_map(|items| some_of(items)).collect()
    }

    /// Networks and ports that lists name, called by the application.
    fn outbound(&mut self, family: Family) {
        let port = self.facts.port;
        let networks = self.listed(|selector| match selector {
            Selector::Destination(network) if network.family() == family => Some(*network),
            _ => None,
        });
        let ports = self.listed(outbound_port);
        let mut call = |to, port| self.add(Caller::Application, Protocol::Tcp, None, to, port);
        call(documentation_address(family), port);
        for to in networks.into_iter().filter_map(within) {
            call(to, port);
        }
        for port in ports {
            call(documentation_address(family), port);
        }
    }

    /// The proxy, on its way to the application.
    pub(super) fn of_proxy(&mut self, family: Family) {
        let (port, from) = (self.facts.port, Some(loopback(family)));
        let passthrough = self.proxy.passthrough(family);
        if let Some(passthrough) = passthrough {
            self.add(Caller::Proxy, Protocol::Tcp, from, passthrough, port);
        }
        if let Some(own) = self.own(family) {
            self.add(Caller::Proxy, Protocol::Tcp, None, own, port);
            if passthrough.is_some() {
                self.add(Caller::Proxy, Protocol::Tcp, passthrough, own, port);
            }
        }
    }

    /// Excluded owners, one by one; and the proxy's calls to its own pod.
    fn of_owners(&mut self, family: Family) {
        let facts = self.facts;
        // Where the application's calls are captured, theirs pass for no other reason.
        let captured = self.made.iter().find(|call| call.caller == Caller::Application && call.is_captured());
        let away = captured
            .map_or(SocketAddr::new(documentation_address(family), facts.port.number()), |call| call.to);
        let (away, port) = (away.ip(), Port::new(away.port()).unwrap_or(facts.port));
        let left_alone = |listed: &&ListItem| !listed.captured;
        let excluded: Vec<Port> = self
            .lists
            .iter()
            .filter(left_alone)
            .filter_map(|listed| outbound_port(&listed.selector))
            .collect();
        for caller in self.proxys() {
            self.add(caller, Protocol::Tcp, None, away, port);
            if let Some(own) = self.own(family) {
                self.add(caller, Protocol::Tcp, None, own, facts.port);
                if let Some(tunnel) = self.proxy.listeners.tunnel {
                    self.add(caller, Protocol::Tcp, None, own, tunnel);
                }
                for port in some_of(&excluded) {
                    self.add(caller, Protocol::Tcp, None, own, port);
                }
            }
        }
        let others = self.listed(|selector| match selector {
            Selector::Group(gid) => Some(Caller::Group(*gid)),
            Selector::User(users) => Some(Caller::User(users.first())),
            _ => None,
        });
        for caller in others {
            self.add(caller, Protocol::Tcp, None, away, port);
        }
    }

    /// The application calls itself.
    fn of_application(&mut self, family: Family) {
        let port = self.facts.port;
        for to in self.own(family).into_iter().chain([loopback(family)]) {
            self.add(Caller::Application, Protocol::Tcp, None, to, port);
        }
        // Loopback may be captured, too.
        let requested = self.lists.iter().any(|listed| {
            matches!(listed.selector, Selector::Destination(network) if listed.captured && network.address().is_loopback())
        });
        if requested && family == Family::V4 {
            let other = Ipv4Addr::new(127, 0, 0, 2).into();
            self.add(Caller::Application, Protocol::Tcp, None, other, port);
        }
    }

    /// Inbound ports. Only a proxy that hands connections over unchanged calls its own pod by way of the rules for
    /// inbound ones; with REDIRECT, only packets from outside meet those.
    fn inbound(&mut self, family: Family) {
        if self.proxy.listeners.transparent.is_none() {
            return;
        }
        let ports = self.listed(|selector| match selector {
            Selector::InboundPort(ports) => Some(ports.first()),
            _ => None,
        });
        for caller in some_of(&self.proxy.gids).map(Caller::ProxyGroup) {
            if let Some(own) = self.own(family) {
                for &port in &ports {
                    self.add(caller, Protocol::Tcp, None, own, port);
                }
            }
        }
    }

    /// Questions of the application, and those of the agent, which are the proxy's.
    fn dns(&mut self, family: Family) {
        if self.proxy.listeners.dns.is_none() {
            return;
        }
        let any = self.lists.iter().any(|listed| matches!(listed.selector, Selector::Server(_)));
        let servers = self.listed(|selector| match selector {
            Selector::Server(server) if Family::of(*server) == family => Some(*server),
            _ => None,
        });
        let servers = if any { servers } else { vec![documentation_address(family)] };
        let callers = [Caller::Application].into_iter().chain(self.proxys());
        for caller in callers.collect::<Vec<_>>() {
            for &server in &servers {
                for protocol in [Protocol::Udp, Protocol::Tcp] {
                    self.add(caller, protocol, None, server, DNS_PORT);
                }
            }
        }
    }

    /// Callers that count as the proxy by their user alone, and by their group alone.
    fn proxys(&self) -> Vec<Caller> {
        let users = some_of(&self.proxy.uids).map(Caller::ProxyUser);
        users.chain(some_of(&self.proxy.gids).map(Caller::ProxyGroup)).collect()
    }

    /// The first of the pod's addresses, by which others call it.
    fn own(&self, family: Family) -> Option<IpAddr> {
        self.facts.pod.addresses.iter().copied().find(|own| Family::of(*own) == family)
    }

    /// User and group of a caller. Where a list names one of them, the other is the application's.
    fn owner(&self, caller: Caller) -> (Uid, Gid) {
        let (uid, gid) = self.application();
        match caller {
            Caller::Application => (uid, gid),
            Caller::Proxy => self.facts.pod.proxy,
            Caller::ProxyUser(uid) | Caller::User(uid) => (uid, gid),
            Caller::ProxyGroup(gid) | Caller::Group(gid) => (uid, gid),
        }
    }

    /// An owner that no list names: ours, if that is so.
    fn application(&self) -> (Uid, Gid) {
        let Self { proxy, lists, facts, .. } = self;
        let is_named = |(uid, gid): (Uid, Gid)| {
            let is_listed = lists.iter().any(|listed| match listed.selector {
                Selector::Group(group) => group == gid,
                Selector::User(users) => users.contains(uid),
                _ => false,
            });
            proxy.uids.contains(&uid) || proxy.gids.contains(&gid) || is_listed
        };
        if !is_named(facts.own) {
            return facts.own;
        }
        let listed = lists.iter().filter_map(|listed| match listed.selector {
            Selector::Group(group) => Some(group.number()),
            Selector::User(users) => Some(users.last().number()),
            _ => None,
        });
        let proxys =
            proxy.uids.iter().map(|uid| uid.number()).chain(proxy.gids.iter().map(|gid| gid.number()));
        let uid = unnamed_user(listed.chain(proxys), |uid| is_named((uid, uid.into())));
        (uid, uid.into())
    }
}

/// The first of the outbound ports that an item names.
fn outbound_port(named: &Selector) -> Option<Port> {
    match named {
        Selector::OutboundPort(ports, _) => Some(ports.first()),
        _ => None,
    }
}

/// How much of a list is tried.
const MAX: usize = 4;

/// A short list, or some of a long one, from its start to its end.
fn some_of<T: Copy>(items: &[T]) -> impl Iterator<Item = T> + use<T> {
    let step = items.len().div_ceil(MAX - 1).max(1);
    let last = items.last().filter(|_| items.len() > MAX && !(items.len() - 1).is_multiple_of(step));
    let step = if items.len() > MAX { step } else { 1 };
    items.iter().step_by(step).chain(last).copied().collect::<Vec<_>>().into_iter()
}

/// An address of a network to call: one for documentation, if that lies in it, else the network's first, which no
/// host has by convention unless it is the only one. `None` where that can't be called.
fn within(cidr: Cidr) -> Option<IpAddr> {
    let documented = documentation_address(cidr.family());
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
