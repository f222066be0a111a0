//! Validated configuration behind the rules, and its construction from settings.

use super::defaults;
use crate::facts::{DnsCapture, Selection};
use crate::policy::configuration;
use crate::settings::{Setting, alternatives};
use crate::sources::{Host, Names, SettingReader, Source};
use rules::{Cidr, Family, Gid, InterfaceName, Mark, Port, PortRange, Uid, number::unsigned};
use std::net::{IpAddr, Ipv4Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interception {
    /// NAT to the proxy's port. The proxy gets the original destination from the kernel (`SO_ORIGINAL_DST`).
    Redirect,
    /// Hand-over to a transparent socket: source and destination are unchanged.
    Tproxy {
        mark: Mark,
        /// Routing table that delivers marked packets locally; not in [`KERNEL_TABLES`].
        table: u32,
    },
    None,
}

/// Unspecified, `default`, `main` and `local`.
const KERNEL_TABLES: [u32; 4] = [0, 253, 254, 255];
pub(super) const TPROXY_TABLE: u32 = 133;

configuration! {
    |reader, host, numbers_only|
    interception: Interception = interception(reader);
    inbound_listener: PortRange = {
        let ports = reader.listener(Setting::InboundCapturePort, defaults::INBOUND_LISTENER);
        if matches!(interception, Interception::Tproxy { .. }) && !ports.is_single() {
            reader.blame(Setting::InboundCapturePort, "is a range, which TPROXY can't use; give one port");
        }
        ports
    };
    /// Inbound traffic here counts as outbound.
    vm_interfaces: Vec<InterfaceName> = reader.list(Setting::VmInterfaces, SettingReader::interface_item);
    proxy_uids: Vec<Uid> = proxy_users(reader, &Names { host, numbers_only });
    proxy_gids: Vec<Gid> = proxy_groups(reader, &Names { host, numbers_only }, &proxy_uids);
    /// IPv4 is always captured.
    ipv6: bool = ipv6(reader, host);
    outbound_cidrs: Option<Vec<Cidr>> = reader.wildcard(Setting::ServiceCidr, SettingReader::cidr_item);
    excluded_cidrs: Vec<Cidr> = {
        let included = outbound_cidrs.as_deref().unwrap_or_default();
        limit_pairs(reader, vm_interfaces.len(), included.len());
        let excluded = excluded_cidrs(reader);
        if !ipv6 {
            // Including a loopback network has an effect in both families: see `captures_loopback`.
            let without = included.iter().copied().filter(|cidr| !cidr.address().is_loopback());
            reader.warn_of_ipv6_networks(Setting::ServiceCidr, without);
            reader.warn_of_ipv6_networks(Setting::ServiceExcludeCidr, excluded.iter().copied());
        }
        excluded
    };
    outbound_listener: PortRange = reader.listener(Setting::EnvoyPort, defaults::OUTBOUND_LISTENER);
    tunnel_port: Port = reader.port(Setting::InboundTunnelPort, defaults::TUNNEL_PORT);
    inbound_ports: Selection<PortRange> = {
        let excluded = reader.list(Setting::InboundPortsExclude, SettingReader::port_item_or_zero);
        Selection::of(reader.wildcard(Setting::InboundPorts, SettingReader::port_item_or_zero), excluded)
    };
    excluded_interfaces: Vec<InterfaceName> = reader.list(Setting::ExcludeInterfaces, SettingReader::interface_item);
    outbound_ports: Vec<PortRange> = reader.list(Setting::OutboundPorts, SettingReader::port_item_or_zero);
    excluded_outbound_ports: Vec<PortRange> = reader.list(Setting::OutboundPortsExclude, SettingReader::port_item_or_zero);
    owner_groups: Selection<Gid> = owner_groups(reader, &Names { host, numbers_only });
    /// IPv6 always has `::1/128`.
    loopback_v4: Cidr = loopback(reader);
    dns: DnsCapture = dns(reader, host, ipv6);
    drop_invalid: bool = reader.switch(Setting::DropInvalid);
    log_hits: bool = reader.switch(Setting::TraceLogging);
    => {
        let is_transparent = matches!(interception, Interception::Tproxy { .. });
        if is_transparent && inbound_ports != Selection::Only(Vec::new()) && !vm_interfaces.is_empty() {
            reader.warn(
                "{--kube-virt-interfaces}: with TPROXY, virtual machines' connections reach the proxy's inbound port; use REDIRECT",
            );
        }
    }
}

impl CaptureConfig {
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::captured(self.ipv6)
    }

    pub fn captures_inbound(&self) -> bool {
        self.inbound_ports != Selection::Only(Vec::new())
    }
}

fn excluded_cidrs(reader: &mut SettingReader<'_>) -> Vec<Cidr> {
    reader.list(Setting::ServiceExcludeCidr, |reader, source, item| match item {
        "*" => {
            let text = "would exclude everything; to capture nothing, leave {-i} empty";
            reader.problem(source, item, text);
            None
        }
        network => reader.cidr_item(source, network),
    })
}

fn proxy_groups(reader: &mut SettingReader<'_>, names: &Names<'_>, users: &[Uid]) -> Vec<Gid> {
    let groups = reader.list(Setting::ProxyGid, |reader, source, item| names.group(reader, source, item));
    if groups.is_empty() { users.iter().copied().map(Gid::from).collect() } else { groups }
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
    /// Upstream's `maxOwnerGroupsInclude`: the kernel has no limit, but each group is a match in one rule.
    const MAX: usize = 64;
    let read =
        |reader: &mut SettingReader<'_>, source: &Source, item: &str| names.group(reader, source, item);
    let excluded = reader.list(Setting::OwnerGroupsExclude, read);
    let is_given = reader.raw.get(Setting::OwnerGroups).is_some();
    let included = if is_given { reader.wildcard(Setting::OwnerGroups, read) } else { None };
    let groups = Selection::of(included, excluded);
    let count = groups.only().len();
    if count > MAX {
        let (_, source) = reader.items(Setting::OwnerGroups);
        reader.whole(&source, format!("names {count} groups; at most {MAX} can be included"));
    }
    groups
}

/// Limits the product of virtual machine interfaces and networks: each pair makes a rule.
fn limit_pairs(reader: &mut SettingReader<'_>, interfaces: usize, networks: usize) {
    const MAX: usize = 100_000;
    if interfaces * networks > MAX {
        let (_, source) = reader.items(Setting::VmInterfaces);
        let text = format!(
            "its {interfaces} interfaces and the {networks} networks of {{-i}} need a rule per pair, but at \
             most {MAX} are allowed; give fewer, or {{-i}} '*'"
        );
        reader.whole(&source, text);
    }
}

fn interception(reader: &mut SettingReader<'_>) -> Interception {
    let table = reader
        .scalar(
            Setting::TproxyRouteTable,
            "is not a usable routing table; expected a number from 1 to 4294967295, except 253 (default), 254 (main) and 255 (local)",
            |text| unsigned(text).filter(|table| !KERNEL_TABLES.contains(table)),
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

fn ipv6(reader: &mut SettingReader<'_>, host: &dyn Host) -> bool {
    let dual_stack = reader.switch(Setting::DualStack);
    let declared = reader.raw.get(Setting::PodIps).is_some();
    let Some(addresses) = reader.addresses(host, "") else { return false };
    if declared && addresses.is_empty() && !reader.items(Setting::PodIps).0.is_empty() {
        return false;
    }
    if let Some(first) = addresses.iter().find(|address| unfit(**address).is_none()) {
        let is_fit_ipv6 = |one: &IpAddr| one.is_ipv6() && unfit(*one).is_none();
        return if dual_stack { addresses.iter().any(is_fit_ipv6) } else { first.is_ipv6() };
    }
    let found = found(&addresses);
    if !declared && host.may_lack_addresses() {
        let families = match dual_stack {
            true => "IPv4 and IPv6 are captured ({--dual-stack})",
            false => "IPv4 is captured, IPv6 is not",
        };
        reader.warn(format!(
            "the pod has no address yet ({found}): {families}; declare its addresses with --pod-ips, or run this again later"
        ));
        return dual_stack;
    }
    let text = format!(
        "no valid local IP address found: {found}; wait for the network, or declare the pod's addresses with this flag"
    );
    reader.whole(&Source::Default(Setting::PodIps), text);
    false
}

/// `None` if the address is reachable from outside the pod.
fn unfit(address: IpAddr) -> Option<&'static str> {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    match address {
        address if address.is_loopback() => Some("loopback"),
        // An earlier run put this address on `lo`.
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
        true => "no address".to_owned(),
        false => format!("every address is {}", alternatives(&kinds)),
    }
}

fn loopback(reader: &mut SettingReader<'_>) -> Cidr {
    let complaint = "is not an IPv4 loopback network; expected one within 127.0.0.0/8, such as 127.0.0.1/32";
    reader
        .optional(Setting::LoopbackCidr, complaint, |text| {
            let cidr: Cidr = text.parse().ok()?;
            // A larger network begins before 127.0.0.0.
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
