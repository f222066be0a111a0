//! Arrows of what processes of the pod send: to others, and to the pod itself.

use super::arriving::inbound_ports;
use super::writer::Writer;
use crate::Setting;
use crate::istio::defaults::{AGENT_PORT, DNS_PORT, PASSTHROUGH_V4, PASSTHROUGH_V6};
use crate::istio::{CaptureConfig, DnsCapture, Interception, OutboundCidrs, OwnerGroups, Reason};
use crate::picture::{Fate, Is, Label, Panel, Part, Place, TCP_AND_UDP_PORTS, TCP_PORTS};
use crate::sources::Dialect;
use rules::simulate::{Direction, Packet};
use rules::{Cidr, ConnState, Gid, InterfaceName, Protocol, Uid};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What leaves the pod.
pub(super) fn outbound(config: &CaptureConfig, dialect: &Dialect) -> Panel {
    let mut writer = Writer::new(config, dialect, Part::Outbound);
    if config.interception == Interception::None {
        writer.rest("everything", Some(Setting::InterceptionMode));
        return writer.finish();
    }
    if !config.excluded_interfaces.is_empty() {
        let label = Label::list("what leaves by ", ("interface", "interfaces"), &config.excluded_interfaces);
        writer.pass(Reason::ExcludedInterface, label, [Is::Over(config.excluded_interfaces.clone())]);
    }
    excluded_ports(&mut writer);
    let (users, groups) = (&config.proxy_uids, &config.proxy_gids);
    let label = Label::plain(format!("the proxy's own calls ({})", owners(users, groups)));
    let own = writer.pass(Reason::ProxyOutbound, label, [Is::of(users, groups)]);
    own.from = Place::Proxy;
    others(&mut writer);
    writer.finish()
}

/// What the pod sends to itself.
pub(super) fn within(config: &CaptureConfig, dialect: &Dialect) -> Option<Panel> {
    if config.interception == Interception::None {
        return None;
    }
    let mut writer = Writer::new(config, dialect, Part::Within);
    let is_excluded =
        config.excluded_interfaces.iter().any(|name| name.covers(InterfaceName::loopback().as_str()));
    if is_excluded {
        writer.pass(Reason::ExcludedInterface, Label::plain("everything over lo"), []);
        return Some(writer.finish());
    }
    let passthrough = Is::from_hosts([PASSTHROUGH_V4.into(), PASSTHROUGH_V6.into()]);
    let loopback = writer.loopback();
    if let (true, Some(ports)) = (writer.is_tproxy(), inbound_ports(config)) {
        // Marks in OUTPUT, met again where the packet arrives over lo; nothing of nat stands in between.
        let (users, groups) = (config.proxy_uids.clone(), config.proxy_gids.clone());
        let label =
            Label::plain(format!("the proxy's calls to the pod's own address ({})", owners(&users, &groups)));
        let all = Is::of(&users, &groups);
        let needs =
            [Is::Tcp, all, loopback.clone().not(), passthrough.clone().not()].into_iter().chain(ports);
        writer.capture_inbound(Reason::ProxyCallsOwnPod, label, needs).from = Place::Proxy;
    }
    excluded_ports(&mut writer);
    let or_ipv6 = if config.ipv6 { format!(" or {PASSTHROUGH_V6}") } else { String::new() };
    let handed_on = Label::plain(format!("calls that the proxy hands on, from {PASSTHROUGH_V4}{or_ipv6}"));
    writer.pass(Reason::ProxyToApplication, handed_on, [passthrough]).from = Place::Proxy;
    each_owner(&mut writer, &loopback);
    others(&mut writer);
    let mut panel = writer.finish();
    panel.keep_what_matters(&packets(config));
    Some(panel)
}

/// Three arrows for each owner of the proxy's traffic, as there are three rules.
fn each_owner(writer: &mut Writer<'_>, loopback: &Is) {
    let config = writer.config;
    let captures_dns = config.dns != DnsCapture::Off;
    let captures_loopback = match &config.outbound_cidrs {
        OutboundCidrs::All => false,
        OutboundCidrs::Only(networks) => networks.iter().any(|network| network.address().is_loopback()),
    };
    let dns = Is::ports(&[DNS_PORT.into()]);
    let tunnel = Is::ports(&[config.tunnel_port.into()]);
    let users = config.proxy_uids.iter().map(|uid| (vec![*uid], Vec::new()));
    let groups = config.proxy_gids.iter().map(|gid| (Vec::new(), vec![*gid]));
    for (users, groups) in users.chain(groups) {
        let is_user = !users.is_empty();
        let who = owners(&users, &groups);
        let owner = Is::of(&users, &groups);
        let mut needs = vec![Is::Tcp, loopback.clone().not(), tunnel.clone().not(), owner.clone()];
        needs.extend((captures_dns && is_user).then(|| dns.clone().not()));
        let label = Label::plain(format!("the proxy's calls to the pod's own address ({who})"));
        let option = writer.option(&[if is_user { Setting::ProxyUid } else { Setting::ProxyGid }]);
        let flow = writer.capture_inbound(Reason::ProxyCallsOwnPod, label, needs);
        (flow.from, flow.option) = (Place::Proxy, option.clone());
        if !captures_loopback {
            let mut needs = vec![owner.clone().not()];
            needs.extend(captures_dns.then_some([Is::Tcp, dns.clone().not()]).into_iter().flatten());
            let label = Label::plain("calls of the application to itself");
            let flow = writer.pass(Reason::ApplicationLoopback, label, needs);
            // It is there whoever the proxy is.
            (flow.option, flow.shown) = (None, true);
        }
        let label = Label::plain(format!("the proxy's other calls within the pod ({who})"));
        let flow = writer.pass(Reason::ProxyOutbound, label, [owner]);
        (flow.from, flow.option) = (Place::Proxy, option);
    }
}

fn excluded_ports(writer: &mut Writer<'_>) {
    let ports = &writer.config.excluded_outbound_ports;
    if !ports.is_empty() {
        let label = Label::ports("", TCP_AND_UDP_PORTS, ports);
        writer.pass(Reason::ExcludedOutboundPort, label, [Is::ports(ports)]);
    }
}

/// What is captured of everybody but the proxy.
fn others(writer: &mut Writer<'_>) {
    let config = writer.config;
    owner_groups(writer);
    if config.owner_groups == OwnerGroups::Only(Vec::new()) {
        return;
    }
    let agents = Fate::Captured(AGENT_PORT.into());
    let dns = Is::ports(&[DNS_PORT.into()]);
    match &config.dns {
        DnsCapture::Off => {}
        DnsCapture::All => {
            let label = Label::plain("all DNS queries, TCP and UDP");
            writer.put(agents, Some(Reason::Dns), label, [dns]).to = Place::Agent;
        }
        DnsCapture::Servers(servers) => {
            let servers: Vec<Cidr> = servers.iter().copied().map(Cidr::host).collect();
            let servers = writer.of_families(&servers);
            if !servers.is_empty() {
                let addresses = servers.iter().map(Cidr::address);
                let label = Label::list("DNS queries to ", ("server", "servers"), addresses);
                writer.put(agents, Some(Reason::Dns), label, [dns, Is::To(servers)]).to = Place::Agent;
            }
        }
    }
    writer.pass_loopback();
    let excluded = writer.of_families(&config.excluded_cidrs);
    if !excluded.is_empty() {
        let label = Label::networks("", &excluded);
        writer.pass(Reason::ExcludedNetwork, label, [Is::To(excluded)]);
    }
    if !config.outbound_ports.is_empty() {
        let label = Label::ports("", TCP_PORTS, &config.outbound_ports).with(", whatever the network");
        let needs = [Is::Tcp, Is::ports(&config.outbound_ports)];
        writer.capture_outbound(Reason::OutboundPort, label, needs);
    }
    match &config.outbound_cidrs {
        OutboundCidrs::All => {
            let label = Label::plain("all other TCP");
            writer.capture_outbound(Reason::OutboundNetwork, label, [Is::Tcp]);
            writer.rest("all else, such as UDP: only TCP is captured", None);
        }
        OutboundCidrs::Only(networks) if networks.is_empty() => {
            writer.rest("all else: no network is listed", Some(Setting::ServiceCidr));
        }
        OutboundCidrs::Only(networks) => {
            let networks = writer.of_families(networks);
            if !networks.is_empty() {
                let label = Label::networks("TCP to ", &networks);
                writer.capture_outbound(Reason::OutboundNetwork, label, [Is::Tcp, Is::To(networks)]);
            }
            writer.rest("all other networks, and UDP", None);
        }
    }
}

fn owner_groups(writer: &mut Writer<'_>) {
    let nobodys = |groups: &[Gid]| Is::of(&[], groups);
    match &writer.config.owner_groups {
        OwnerGroups::AllBut(groups) if groups.is_empty() => {}
        OwnerGroups::AllBut(groups) => {
            let label = Label::list("calls of ", ("group", "groups"), groups);
            writer.pass(Reason::ExcludedGroup, label, [nobodys(groups)]);
        }
        OwnerGroups::Only(groups) if groups.is_empty() => {
            writer.pass(Reason::OtherGroups, Label::plain("calls of all groups: none is listed"), []);
        }
        OwnerGroups::Only(groups) => {
            let label = Label::list("calls of all but ", ("group", "groups"), groups);
            writer.pass(Reason::OtherGroups, label, [nobodys(groups).not()]);
        }
    }
}

/// The usual packets that a pod sends to itself: of the application by TCP to an address of the pod, to loopback and to
/// what lists name; of the proxy to an address of the pod; those that it hands on; and DNS to a resolver in the pod.
fn packets(config: &CaptureConfig) -> Vec<Packet> {
    const FEW: usize = 4;
    /// The port of an application.
    const PORT: u16 = 8080;
    let own: [IpAddr; 2] =
        [Ipv4Addr::new(198, 51, 100, 7).into(), Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7).into()];
    let (OwnerGroups::AllBut(groups) | OwnerGroups::Only(groups)) = &config.owner_groups;
    let is_named = |id: &u32| {
        let of_list = |list: &[Gid]| list.iter().any(|gid| gid.number() == *id);
        config.proxy_uids.iter().any(|uid| uid.number() == *id)
            || of_list(&config.proxy_gids)
            || of_list(groups)
    };
    let nobody =
        (1_000..).find(|id| !is_named(id)).and_then(Uid::new).expect("lists are shorter than numbers");
    let mut senders = vec![(nobody, Gid::from(nobody))];
    let group = config.proxy_gids.first().copied().unwrap_or(nobody.into());
    senders.extend(config.proxy_uids.iter().take(FEW).map(|uid| (*uid, group)));
    let mut addresses = own.to_vec();
    addresses.extend([IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()]);
    if let OutboundCidrs::Only(networks) = &config.outbound_cidrs {
        addresses.extend(networks.iter().take(FEW).map(Cidr::address));
    }
    addresses.extend(config.excluded_cidrs.iter().take(FEW).map(Cidr::address));
    let excluded = config.excluded_outbound_ports.first().map(|range| range.first().number());
    let resolver = |address: &IpAddr| match &config.dns {
        DnsCapture::Off => false,
        DnsCapture::All => address.is_loopback(),
        DnsCapture::Servers(servers) => address.is_loopback() && servers.contains(address),
    };
    let mut packets = Vec::new();
    for (address, (uid, gid)) in addresses.iter().flat_map(|a| senders.iter().map(move |sender| (a, *sender)))
    {
        let passthrough: IpAddr = match address {
            IpAddr::V4(_) => PASSTHROUGH_V4.into(),
            IpAddr::V6(_) => PASSTHROUGH_V6.into(),
        };
        let mut put = |protocol, source, port| {
            let direction =
                Direction::Outbound { interface: InterfaceName::loopback().to_string(), uid, gid };
            let (source, destination) = (SocketAddr::new(source, 40_000), SocketAddr::new(*address, port));
            let state = ConnState::New;
            packets.push(Packet { direction, protocol, source, destination, mark: 0, connmark: 0, state });
        };
        let is_proxys = uid != nobody;
        if is_proxys && !own.contains(address) {
            continue;
        }
        [Some(PORT), excluded].into_iter().flatten().for_each(|port| put(Protocol::Tcp, *address, port));
        if is_proxys {
            put(Protocol::Tcp, passthrough, PORT);
        } else if resolver(address) {
            put(Protocol::Udp, *address, DNS_PORT.number());
        }
    }
    packets
}

/// Users and groups in words.
fn owners(users: &[Uid], groups: &[Gid]) -> String {
    let users = (!users.is_empty()).then(|| Label::list("", ("user", "users"), users).text(|_| true));
    let groups = (!groups.is_empty()).then(|| Label::list("", ("group", "groups"), groups).text(|_| true));
    users.into_iter().chain(groups).collect::<Vec<_>>().join(", ")
}
