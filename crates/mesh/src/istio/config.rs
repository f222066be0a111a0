//! The validated configuration that the policy turns into rules, and how settings become one.

use super::defaults;
use crate::facts::{DnsCapture, Selection};
use crate::settings::{Setting, alternatives};
use crate::sources::{Host, Names, SettingReader, Source, Wildcard};
use rules::{Cidr, Family, Gid, InterfaceName, Mark, Port, PortRange, Uid, number::unsigned};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interception {
    /// NAT to the proxy's port. The proxy asks the kernel for the real destination (`SO_ORIGINAL_DST`).
    Redirect,
    /// Hand-over to a transparent socket: source and destination stay as they were.
    Tproxy {
        mark: Mark,
        /// The routing table that delivers marked packets locally.
        table: RouteTable,
    },
    None,
}

/// A routing table that is ours to use: any but 0 and the kernel's own (253 `default`, 254 `main`, 255 `local`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTable(NonZeroU32);

impl RouteTable {
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(table) if number < 253 || number > 255 => Some(Self(table)),
            Some(_) | None => None,
        }
    }

    pub const fn number(self) -> u32 {
        self.0.get()
    }
}

pub(super) const TPROXY_TABLE: RouteTable = RouteTable::new(133).expect("not the kernel's own");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// IPv4 is always captured.
    pub ipv6: bool,
    pub interception: Interception,
    pub outbound_listener: PortRange,
    pub inbound_listener: PortRange,
    pub tunnel_port: Port,
    pub proxy_uids: Vec<Uid>,
    pub proxy_gids: Vec<Gid>,
    pub inbound_ports: Selection<PortRange>,
    pub excluded_interfaces: Vec<InterfaceName>,
    /// Their inbound traffic counts as outbound.
    pub vm_interfaces: Vec<InterfaceName>,
    pub outbound_cidrs: Wildcard<Cidr>,
    pub excluded_cidrs: Vec<Cidr>,
    /// Captured whatever the destination.
    pub outbound_ports: Vec<PortRange>,
    pub excluded_outbound_ports: Vec<PortRange>,
    pub owner_groups: Selection<Gid>,
    /// IPv6 always has `::1/128`.
    pub loopback_v4: Cidr,
    pub dns: DnsCapture,
    pub drop_invalid: bool,
    pub log_hits: bool,
}

impl CaptureConfig {
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::captured(self.ipv6)
    }

    pub fn captures_inbound(&self) -> bool {
        self.inbound_ports != Selection::Only(Vec::new())
    }
}

pub(crate) fn configure(
    reader: &mut SettingReader<'_>,
    host: &dyn Host,
    numbers_only: bool,
) -> CaptureConfig {
    let interception = interception(reader);
    let inbound_listener = reader.listener(Setting::InboundCapturePort, defaults::INBOUND_LISTENER);
    if matches!(interception, Interception::Tproxy { .. }) && !inbound_listener.is_single() {
        reader.blame(Setting::InboundCapturePort, "is a range, which TPROXY can't use; give one port");
    }
    let vm_interfaces = reader.list(Setting::VmInterfaces, SettingReader::interface_item);
    let names = Names { host, numbers_only };
    let proxy_uids = proxy_users(reader, &names);
    let mut proxy_gids =
        reader.list(Setting::ProxyGid, |reader, source, item| names.group(reader, source, item));
    if proxy_gids.is_empty() {
        proxy_gids = proxy_uids.iter().copied().map(Gid::from).collect();
    }
    let ipv6 = ipv6(reader, host);
    let outbound_cidrs = reader.wildcard(Setting::ServiceCidr, SettingReader::cidr_item);
    let included: &[Cidr] = if let Wildcard::Items(cidrs) = &outbound_cidrs { cidrs } else { &[] };
    limit_pairs(reader, vm_interfaces.len(), included.len());
    let excluded_cidrs = reader.list(Setting::ServiceExcludeCidr, |reader, source, item| {
        if item == "*" {
            reader.problem(
                source,
                item,
                "would leave everything alone; to capture nothing, leave {-i} empty",
            );
            return None;
        }
        reader.cidr_item(source, item)
    });
    if ipv6 == Some(false) {
        // Including a loopback network has an effect in both families: see `captures_loopback`.
        let without = included.iter().copied().filter(|cidr| !cidr.address().is_loopback());
        reader.warn_of_ipv6_networks(Setting::ServiceCidr, without);
        reader.warn_of_ipv6_networks(Setting::ServiceExcludeCidr, excluded_cidrs.iter().copied());
    }
    let excluded_inbound = reader.list(Setting::InboundPortsExclude, SettingReader::port_item_or_zero);
    let config = CaptureConfig {
        ipv6: ipv6.unwrap_or(false),
        interception,
        outbound_listener: reader.listener(Setting::EnvoyPort, defaults::OUTBOUND_LISTENER),
        inbound_listener,
        tunnel_port: reader.port(Setting::InboundTunnelPort, defaults::TUNNEL_PORT),
        proxy_uids,
        proxy_gids,
        inbound_ports: reader
            .wildcard(Setting::InboundPorts, SettingReader::port_item_or_zero)
            .but(excluded_inbound),
        excluded_interfaces: reader.list(Setting::ExcludeInterfaces, SettingReader::interface_item),
        vm_interfaces,
        outbound_cidrs,
        excluded_cidrs,
        outbound_ports: reader.list(Setting::OutboundPorts, SettingReader::port_item_or_zero),
        excluded_outbound_ports: reader.list(Setting::OutboundPortsExclude, SettingReader::port_item_or_zero),
        owner_groups: owner_groups(reader, &names),
        loopback_v4: loopback(reader),
        dns: dns(reader, host, ipv6.unwrap_or(false)),
        drop_invalid: reader.switch(Setting::DropInvalid),
        log_hits: reader.switch(Setting::TraceLogging),
    };
    let is_transparent =
        matches!(config.interception, Interception::Tproxy { .. }) && config.captures_inbound();
    if is_transparent && !config.vm_interfaces.is_empty() {
        let text = "{--kube-virt-interfaces}: with TPROXY, connections of virtual machines reach the proxy's inbound \
                    port; use REDIRECT";
        reader.warn(text);
    }
    config
}

fn proxy_users(reader: &mut SettingReader<'_>, names: &Names<'_>) -> Vec<Uid> {
    let before = reader.problem_count();
    let uids = reader.list(Setting::ProxyUid, |reader, source, item| names.user(reader, source, item));
    if !uids.is_empty() || reader.problem_count() > before {
        return uids;
    }
    let given = reader.raw.get(Setting::EnvoyUser).map(|given| given.value.as_str());
    let name = given.filter(|name| !name.is_empty()).unwrap_or(defaults::PROXY_USER);
    let known = if names.numbers_only { None } else { names.host.user(name).ok().flatten() };
    vec![known.unwrap_or(Uid::new(defaults::PROXY_ID).expect("the default is valid"))]
}

fn owner_groups(reader: &mut SettingReader<'_>, names: &Names<'_>) -> Selection<Gid> {
    /// Upstream's `maxOwnerGroupsInclude`: the kernel has no limit, but each is a match in one rule.
    const MAX: usize = 64;
    let read =
        |reader: &mut SettingReader<'_>, source: &Source, item: &str| names.group(reader, source, item);
    let excluded = reader.list(Setting::OwnerGroupsExclude, read);
    if reader.raw.get(Setting::OwnerGroups).is_none() {
        return Selection::AllBut(excluded);
    }
    let groups = reader.wildcard(Setting::OwnerGroups, read).but(excluded);
    if let Selection::Only(included) = &groups
        && included.len() > MAX
    {
        let (_, source) = reader.items(Setting::OwnerGroups);
        reader.whole(&source, format!("names {} groups; at most {MAX} can be included", included.len()));
    }
    groups
}

/// Refuses interfaces of virtual machines and networks that make too many rules: one for each pair.
fn limit_pairs(reader: &mut SettingReader<'_>, interfaces: usize, networks: usize) {
    const MAX: usize = 100_000;
    if interfaces * networks > MAX {
        let (_, source) = reader.items(Setting::VmInterfaces);
        let text = format!(
            "its {interfaces} interfaces and the {networks} networks of {{-i}} make a rule for each pair; at most {MAX} are \
             made: give fewer of either, or {{-i}} '*'"
        );
        reader.whole(&source, text);
    }
}

fn interception(reader: &mut SettingReader<'_>) -> Interception {
    let table = reader
        .scalar(
            Setting::TproxyRouteTable,
            "is not a usable routing table; expected a number from 1 to 4294967295, except 253 (default), 254 (main) and 255 (local)",
            |text| unsigned(text).and_then(RouteTable::new),
        )
        .unwrap_or(TPROXY_TABLE);
    let mark = reader
        .scalar(Setting::TproxyMark, "is not a mark; expected a number from 1 to 4294967295", |text| {
            unsigned(text).filter(|&mark| mark != 0).map(Mark::whole)
        })
        .unwrap_or(defaults::TPROXY_MARK);
    let mode = match reader.choice(Setting::InterceptionMode, "an interception mode") {
        Some("TPROXY") => Interception::Tproxy { mark, table },
        Some("NONE") => Interception::None,
        _ => Interception::Redirect,
    };
    if matches!(mode, Interception::Tproxy { mark, .. } if mark == defaults::PROXY_MARK) {
        reader.blame(
            Setting::TproxyMark,
            "is the mark of the proxy's own packets in TPROXY mode; give another",
        );
    }
    mode
}

fn ipv6(reader: &mut SettingReader<'_>, host: &dyn Host) -> Option<bool> {
    let dual_stack = reader.switch(Setting::DualStack);
    let declared = reader.raw.get(Setting::PodIps).is_some();
    let addresses = reader.addresses(host, "")?;
    if declared && addresses.is_empty() && !reader.items(Setting::PodIps).0.is_empty() {
        // Each item is a problem already.
        return None;
    }
    if let Some(first) = addresses.iter().find(|address| unfit(**address).is_none()) {
        return Some(if dual_stack {
            addresses.iter().any(|one| one.is_ipv6() && unfit(*one).is_none())
        } else {
            first.is_ipv6()
        });
    }
    let found = found(&addresses);
    if !declared && host.may_lack_addresses() {
        let families = match dual_stack {
            true => "IPv4 and IPv6 are captured ({--dual-stack})",
            false => "IPv4 is captured, IPv6 is not",
        };
        reader.warn(format!(
            "the pod has no address yet ({found}): {families}; declare its addresses with --pod-ips, or run this again \
             once it has them"
        ));
        return Some(dual_stack);
    }
    let text = format!(
        "no valid local IP address found: {found}; wait for the network, or declare the pod's addresses with this flag"
    );
    reader.whole(&Source::Default(Setting::PodIps), text);
    None
}

/// `None` if others can reach a pod by this address.
fn unfit(address: IpAddr) -> Option<&'static str> {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    match address {
        address if address.is_loopback() => Some("loopback"),
        // An earlier run has put it on `lo`.
        address if address == IpAddr::from(defaults::PASSTHROUGH_V6) => Some("loopback"),
        _ if link_local => Some("link-local"),
        address if address.is_multicast() => Some("multicast"),
        address if address.is_unspecified() => Some("unspecified"),
        _ => None,
    }
}

fn found(addresses: &[IpAddr]) -> String {
    let mut kinds: Vec<&str> = addresses.iter().filter_map(|address| unfit(*address)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    match kinds.is_empty() {
        true => "there is no address at all".to_owned(),
        false => format!("every address is {}", alternatives(&kinds)),
    }
}

fn loopback(reader: &mut SettingReader<'_>) -> Cidr {
    let complaint = "is not an IPv4 loopback network; expected one within 127.0.0.0/8, such as 127.0.0.1/32";
    reader
        .optional(Setting::LoopbackCidr, complaint, |text| {
            let cidr: Cidr = text.parse().ok()?;
            // One that reaches beyond 127.0.0.0/8 begins before it.
            (cidr.address().is_ipv4() && cidr.address().is_loopback()).then_some(cidr)
        })
        .unwrap_or(Cidr::host(Ipv4Addr::LOCALHOST.into()))
}

fn dns(reader: &mut SettingReader<'_>, host: &dyn Host, ipv6: bool) -> DnsCapture {
    let redirect = reader.switch(Setting::RedirectDns);
    let all = reader.switch(Setting::CaptureAllDns);
    if all && !redirect {
        reader.warn("{--capture-all-dns} has no effect without {--redirect-dns}");
    }
    reader.dns(host, redirect, all, None, "{--capture-all-dns}", ipv6)
}
