//! The validated configuration that the policy turns into rules, and how settings become one.

use super::settings::Kuma;
use crate::facts::{DnsCapture, PASSTHROUGH_V6, Selection, port};
use crate::settings::Setting;
use crate::sources::{Given, Host, Names, Raw, SettingReader, Source};
use rules::number::unsigned;
use rules::{Cidr, Family, InterfaceName, LogLevel, Port, PortRange, Protocol, Uid, UidRange};
use std::{collections::BTreeMap, io, net::IpAddr};

const OUTBOUND_LISTENER: Port = port(15001);
const INBOUND_LISTENER: Port = port(15006);
const DNS_LISTENER: Port = port(15053);

/// The user of the proxy where none is given: that of upstream's images.
const PROXY_ID: u32 = 5678;
/// Counts where no user has the number.
const PROXY_USER: &str = "kuma-dp";

/// The chain of the table `nat` by which Docker answers DNS in networks that users have made.
pub(super) const DOCKER_CHAIN: &str = "DOCKER_OUTPUT";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub is_captured: bool,
    pub listener: Port,
    /// Where some are captured alone, at least one.
    pub ports: Selection<PortRange>,
    /// Addresses of the other end.
    pub excluded: Vec<Cidr>,
    /// True if the jump into the mesh is among the first rules of the base chain, and not after all others.
    pub is_inserted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPorts {
    pub protocol: Protocol,
    pub ports: Vec<PortRange>,
    pub uids: UidRange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    pub capture: DnsCapture,
    pub port: Port,
    pub splits_zones: bool,
}

/// A network behind an interface, such as Docker's bridge, whose machines call through the mesh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VirtualNetwork {
    pub interface: InterfaceName,
    /// Calls within it are excluded.
    pub network: Cidr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    pub ipv6: bool,
    pub proxy_uid: Uid,
    pub inbound: Flow,
    pub outbound: Flow,
    pub excluded_owners: Vec<OwnerPorts>,
    pub dns: Dns,
    /// Sorted by interface, at most one of a family each.
    pub networks: Vec<VirtualNetwork>,
    pub drops_invalid: bool,
    pub log_level: Option<LogLevel>,
    pub comments: bool,
    /// Families whose table `nat` holds Docker's chain for DNS.
    pub docker: Vec<Family>,
}

impl CaptureConfig {
    /// Where servers are listed, there has to be one of the family.
    pub fn captures_dns(&self, family: Family) -> bool {
        !self.dns.capture.servers(family).is_empty()
    }

    /// Docker rewrites queries to its own server, which it could not do for all that are captured if they were split.
    pub fn splits_zones(&self, family: Family) -> bool {
        let docker_has_all = self.docker.contains(&family) && self.dns.capture == DnsCapture::All;
        self.captures_dns(family) && self.dns.splits_zones && !docker_has_all
    }
}

pub(crate) fn configure(
    reader: &mut SettingReader<'_>,
    host: &dyn Host,
    numbers_only: bool,
) -> CaptureConfig {
    ebpf(reader);
    let ipv6 = ipv6(reader, host);
    let proxy_uid = proxy_user(reader, host, numbers_only);
    let inbound = flow(reader, INBOUND_LISTENER, INBOUND);
    let outbound = flow(reader, OUTBOUND_LISTENER, OUTBOUND);
    let excluded_owners = owner_ports(reader);
    if !reader.items(Kuma::InboundPortsForUids).0.is_empty() {
        let text = "is not possible: inbound packets have no user, so each of its ports would be excluded for all callers; \
                    use {--exclude-inbound-ports}";
        reader.blame(Kuma::InboundPortsForUids, text);
    }
    let dns = dns(reader, host, ipv6);
    let networks = networks(reader);
    if !networks.is_empty() && dns.capture == DnsCapture::Off {
        let text = format!(
            "{{--vnet}} sends DNS queries that come by its interfaces to port {}, where nothing answers unless DNS is captured \
             ({{--redirect-dns}})",
            dns.port
        );
        reader.warn(text);
    }
    let logs = reader.switch(Kuma::Logs);
    let level = reader.scalar(
        Kuma::LogLevel,
        "is not a level of the kernel's log; expected a number from 0 to 7",
        |text| unsigned(text).and_then(LogLevel::new),
    );
    let docker = match dns.capture {
        DnsCapture::Off => Vec::new(),
        DnsCapture::Servers(_) | DnsCapture::All => docker(reader, host, ipv6),
    };
    if !ipv6 {
        reader.warn_of_ipv6_networks(Kuma::Vnet, networks.iter().map(|network| network.network));
    }
    CaptureConfig {
        ipv6,
        proxy_uid,
        inbound,
        outbound,
        excluded_owners,
        dns,
        networks,
        drops_invalid: reader.switch(Kuma::DropInvalid),
        log_level: logs.then_some(level.unwrap_or(LogLevel::Debug)),
        comments: !reader.switch(Kuma::DisableComments),
        docker,
    }
}

/// Another engine of upstream. Its injector writes the annotation for an init container, and its plugin ignores it.
fn ebpf(reader: &mut SettingReader<'_>) {
    if !reader.switch(Kuma::Ebpf) {
        return;
    }
    let text =
        "asks for eBPF, which is not done here: rules of nf_tables or iptables capture the same traffic";
    match reader.raw.get(Kuma::Ebpf).map(|given| &given.source) {
        Some(Source::Annotation(name)) => reader.warn(format!("{name}: {text}")),
        _ => reader.blame(Kuma::Ebpf, &format!("{text}; leave it out")),
    }
}

/// IPv6 is captured, unless unwanted, wherever an interface has an address of it beside loopback's.
fn ipv6(reader: &mut SettingReader<'_>, host: &dyn Host) -> bool {
    let complaint = "is not an IP family mode; expected dualstack or ipv4";
    let mode =
        reader.optional(Kuma::IpFamilyMode, complaint, |text| match text.to_ascii_lowercase().as_str() {
            "dualstack" => Some(true),
            "ipv4" => Some(false),
            _ => None,
        });
    if mode == Some(false) {
        return false;
    }
    let otherwise = ", or give {--ip-family-mode} ipv4";
    let Some(addresses) = reader.addresses(host, otherwise) else { return false };
    let is_a_pods = |address: &IpAddr| {
        address.is_ipv6() && !address.is_loopback() && *address != IpAddr::from(PASSTHROUGH_V6)
    };
    let found = addresses.iter().any(is_a_pods);
    if !found && mode == Some(true) {
        reader.warn(
            "{--ip-family-mode}: no interface has an address of IPv6 but loopback's, so IPv4 alone is captured",
        );
    }
    found
}

fn proxy_user(reader: &mut SettingReader<'_>, host: &dyn Host, numbers_only: bool) -> Uid {
    let named = reader.raw.get(Kuma::ProxyUser).filter(|given| !given.value.trim().is_empty());
    let standard = Uid::new(PROXY_ID).expect("the default is valid");
    let found = match named {
        Some(Given { value, source }) => {
            Names { host, numbers_only }.user(reader, source, value.trim_matches([' ', '\t']))
        }
        None if numbers_only || host.has_user(standard).unwrap_or(true) => None,
        None => host.user(PROXY_USER).ok().flatten(),
    };
    found.unwrap_or(standard)
}

/// The problem where no user is given, and the host knows none of the defaults. Upstream refuses then.
pub fn unknown_user(raw: &Raw, host: &dyn Host) -> Option<String> {
    let is_named = raw.get(Kuma::ProxyUser).is_some_and(|given| !given.value.trim().is_empty());
    let standard = Uid::new(PROXY_ID)?;
    // Where users can't be looked up, as in an image without any, nothing is known.
    let is_unknown = || {
        let (number, name) = (host.has_user(standard).ok()?, host.user(PROXY_USER).ok()?);
        (!number && name.is_none()).then_some(())
    };
    (!is_named).then(is_unknown)??;
    let option = Kuma::ProxyUser.row().option();
    Some(format!(
        "{option}: neither a user {standard} nor one called {PROXY_USER} is known here; {standard} counts as the proxy's"
    ))
}

/// The settings of a direction: on or off, listener, ports, excluded ports, excluded networks, form.
type FlowSettings = [Setting; 6];

const INBOUND: FlowSettings = [
    Kuma::RedirectInbound,
    Kuma::InboundPort,
    Kuma::InboundPortsInclude,
    Kuma::InboundPortsExclude,
    Kuma::InboundIpsExclude,
    Kuma::InboundInsert,
];
const OUTBOUND: FlowSettings = [
    Kuma::RedirectOutbound,
    Kuma::OutboundPort,
    Kuma::OutboundPortsInclude,
    Kuma::OutboundPortsExclude,
    Kuma::OutboundIpsExclude,
    Kuma::OutboundInsert,
];

fn flow(reader: &mut SettingReader<'_>, default: Port, settings: FlowSettings) -> Flow {
    let [is_captured, listener, included, excluded, networks, is_inserted] = settings;
    let is_captured = reader.switch_or(is_captured, true);
    let listener = reader.port(listener, default);
    let included = reader.list(included, SettingReader::port_item);
    let excluded_ports = reader.list(excluded, SettingReader::port_item);
    Flow {
        is_captured,
        listener,
        ports: match included.is_empty() {
            true => Selection::AllBut(excluded_ports),
            false => Selection::Only(included),
        },
        excluded: reader.list(networks, |reader, source, item| match item.parse::<IpAddr>() {
            Ok(address) => Some(Cidr::host(address)),
            Err(_) => reader.cidr_item(source, item),
        }),
        is_inserted: reader.switch(is_inserted),
    }
}

fn dns(reader: &mut SettingReader<'_>, host: &dyn Host, ipv6: bool) -> Dns {
    let enabled = reader.switch(Kuma::RedirectDns);
    let all = reader.switch(Kuma::CaptureAllDns);
    let port: Port = reader.port(Kuma::DnsPort, DNS_LISTENER);
    let splits_zones = !reader.switch(Kuma::SkipZoneSplit);
    let by_flag = |setting| match reader.raw.get(setting).map(|given| &given.source) {
        // The injector's defaults are written as flags, too.
        Some(Source::Flag(_) | Source::Default(_)) => true,
        Some(Source::Container { word, .. }) => word.starts_with("--"),
        _ => false,
    };
    let all_by_flag = by_flag(Kuma::CaptureAllDns);
    let both = all_by_flag && by_flag(Kuma::RedirectDns);
    if both && enabled && all {
        reader.blame(
            Kuma::CaptureAllDns,
            "contradicts {--redirect-dns}, which captures less; give one of them",
        );
    }
    // The key limits what is captured where anything is; the flag also turns capture on.
    let is_on = enabled || (all && all_by_flag);
    if all && !is_on {
        reader.warn(
            "{--redirect-all-dns-traffic}: captures nothing unless DNS is captured (redirect.dns.enabled)",
        );
    }
    let path = reader.raw.get(Kuma::ResolvConf).filter(|given| !given.value.trim().is_empty());
    Dns {
        capture: reader.dns(host, is_on, all, path, "{--redirect-all-dns-traffic}", ipv6),
        port,
        splits_zones,
    }
}

fn docker(reader: &mut SettingReader<'_>, host: &dyn Host, ipv6: bool) -> Vec<Family> {
    let mut found = Vec::new();
    for family in Family::captured(ipv6) {
        match host.has_nat_chain(family, DOCKER_CHAIN) {
            Ok(true) => found.push(family),
            Ok(false) => {}
            // A preview needs no rights, and a change that lacks them fails by itself.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                reader.warn(format!(
                    "assuming that Docker does not answer DNS queries here, because the rules can't be read: {error}"
                ));
                break;
            }
            Err(error) => {
                let text = format!("can't find out whether Docker answers DNS queries here: {error}");
                reader.whole(&Source::Default(Kuma::RedirectDns), text);
            }
        }
    }
    found
}

const USERS_FORM: &str = "expected [[PROTO:]PORTS:]UID such as 106, 80,443:106-108 or tcp:1000-2000:106; several are \
                          separated by ;";
const NETWORK_FORM: &str =
    "expected an interface and its network, such as docker0:172.17.0.0/16 or br+:fd00::/64";

fn owner_ports(reader: &mut SettingReader<'_>) -> Vec<OwnerPorts> {
    let owners = reader.list(Kuma::OutboundPortsForUids, |reader, source, item| {
        reader.taken(source, item, of_user(item).map_err(|fault| format!("{fault}; {USERS_FORM}")))
    });
    owners.into_iter().flatten().collect()
}

fn of_user(item: &str) -> Result<Vec<OwnerPorts>, String> {
    let parts: Vec<&str> = item.split(':').map(str::trim).collect();
    let (protocols, ports, uids) = match parts[..] {
        [uids] => ("", "", uids),
        [ports, uids] => ("", ports, uids),
        [protocols, ports, uids] => (protocols, ports, uids),
        _ => return Err("has too many parts".to_owned()),
    };
    if uids.is_empty() {
        return Err("names no user, which would mean all users".to_owned());
    }
    let uids: UidRange =
        uids.parse().map_err(|_| format!("ends in {uids:?}, which is not a user or a range of users"))?;
    let ports = if ["", "*"].contains(&ports) { "1-65535" } else { ports };
    let port = |port: &str| {
        let fault = |_| format!("has {port:?}, which is not a port from 1 to 65535 or range of ports");
        port.trim().parse().map_err(fault)
    };
    let ports: Vec<PortRange> = ports.split(',').map(port).collect::<Result<_, _>>()?;
    let protocol = |protocol: &str| match protocol.trim().to_ascii_lowercase().as_str() {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        _ => Err(format!("has {protocol:?}, which is neither tcp nor udp")),
    };
    let protocols: Vec<Protocol> = match protocols {
        "" | "*" => vec![Protocol::Tcp, Protocol::Udp],
        protocols => protocols.split(',').map(protocol).collect::<Result<_, _>>()?,
    };
    Ok(protocols.into_iter().map(|protocol| OwnerPorts { protocol, ports: ports.clone(), uids }).collect())
}

/// Sorted by interface. Of two of one family behind one interface, the later counts.
fn networks(reader: &mut SettingReader<'_>) -> Vec<VirtualNetwork> {
    let read = |item: &str| {
        let (interface, network) = item.split_once(':').ok_or("has no colon")?;
        let interface = interface.parse().map_err(|error| format!("{error}"))?;
        let (network, host_bits) =
            Cidr::parse_noting_host_bits(network).map_err(|error| error.to_string())?;
        Ok((VirtualNetwork { interface, network }, host_bits))
    };
    let read = reader.list(Kuma::Vnet, |reader, source, item| {
        let found = read(item).map_err(|fault: String| format!("{fault}; {NETWORK_FORM}"));
        let (network, host_bits) = reader.taken(source, item, found)?;
        if host_bits {
            reader.warn_of_host_bits(source, item, network.network);
        }
        Some(network)
    });
    let keyed = read.into_iter().map(|one| ((one.interface.clone(), one.network.family()), one));
    keyed.collect::<BTreeMap<_, _>>().into_values().collect()
}
