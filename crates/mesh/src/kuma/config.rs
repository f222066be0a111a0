//! The validated configuration that the policy turns into rules, and how settings become one.

use super::settings::Kuma;
use crate::facts::{DnsCapture, PASSTHROUGH_V6, Selection, port};
use crate::sources::{Given, Host, Names, Raw, SettingReader, Source};
use rules::number::unsigned;
use rules::{Cidr, Family, InterfaceName, LogLevel, Port, PortRange, Protocol, Uid, UidRange};
use std::{collections::BTreeMap, io, net::IpAddr};

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
    pub dns: DnsCapture,
    pub dns_listener: Port,
    /// True if the proxy's DNS queries have their own zone of conntrack, where nothing forbids it.
    pub has_zones: bool,
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
        !self.dns.servers(family).is_empty()
    }

    /// Docker rewrites queries to its own server, which it could not do for all that are captured if they were split.
    pub fn splits_zones(&self, family: Family) -> bool {
        let docker_has_all = self.docker.contains(&family) && self.dns == DnsCapture::All;
        self.captures_dns(family) && self.has_zones && !docker_has_all
    }
}

pub(crate) fn configure(
    reader: &mut SettingReader<'_>,
    host: &dyn Host,
    numbers_only: bool,
) -> CaptureConfig {
    ebpf(reader);
    let ipv6 = ipv6(reader, host);
    let mut config = CaptureConfig {
        ipv6,
        proxy_uid: proxy_user(reader, host, numbers_only),
        inbound: flow(reader, true),
        outbound: flow(reader, false),
        excluded_owners: owner_ports(reader),
        dns_listener: reader.port(Kuma::DnsPort, port(15053)),
        dns: dns(reader, host, ipv6),
        has_zones: !reader.switch(Kuma::SkipZoneSplit),
        networks: networks(reader),
        drops_invalid: reader.switch(Kuma::DropInvalid),
        log_level: log_level(reader),
        comments: !reader.switch(Kuma::DisableComments),
        docker: Vec::new(),
    };
    match config.dns {
        DnsCapture::Off if !config.networks.is_empty() => reader.warn(format!(
            "{{--vnet}} sends DNS queries that come by its interfaces to port {}, where nothing answers unless DNS is captured \
             ({{--redirect-dns}})",
            config.dns_listener
        )),
        DnsCapture::Off => {}
        DnsCapture::Servers(_) | DnsCapture::All => config.docker = docker(reader, host, ipv6),
    }
    if !ipv6 {
        reader.warn_of_ipv6_networks(Kuma::Vnet, config.networks.iter().map(|network| network.network));
    }
    config
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
    let mode = reader.choice(Kuma::IpFamilyMode, "an IP family mode");
    if mode == Some("ipv4") {
        return false;
    }
    let addresses = reader.addresses(host, ", or give {--ip-family-mode} ipv4");
    let is_a_pods =
        |address: &IpAddr| address.is_ipv6() && !address.is_loopback() && *address != PASSTHROUGH_V6;
    let found = addresses.as_ref().is_some_and(|all| all.iter().any(is_a_pods));
    if addresses.is_some() && !found && mode.is_some() {
        reader.warn(
            "{--ip-family-mode}: no interface has an address of IPv6 but loopback's, so IPv4 alone is captured",
        );
    }
    found
}

fn proxy_user(reader: &mut SettingReader<'_>, host: &dyn Host, numbers_only: bool) -> Uid {
    let found = match reader.raw.stated(Kuma::ProxyUser) {
        Some(Given { value, source }) => {
            Names { host, numbers_only }.user(reader, source, value.trim_matches([' ', '\t']))
        }
        None if numbers_only => None,
        None => usual_user(host).ok().flatten(),
    };
    found.unwrap_or(Uid::new(PROXY_ID).expect("the default is valid"))
}

/// The user that counts as the proxy's where none is named; `None` if the host knows neither of the two.
fn usual_user(host: &dyn Host) -> io::Result<Option<Uid>> {
    match Uid::new(PROXY_ID) {
        Some(usual) if host.has_user(usual)? => Ok(Some(usual)),
        _ => host.user(PROXY_USER),
    }
}

/// The problem where no user is given and the host knows neither default, as upstream refuses; none where users can't be looked up.
pub fn unknown_user(raw: &Raw, host: &dyn Host) -> Option<String> {
    let is_unknown = raw.stated(Kuma::ProxyUser).is_none() && matches!(usual_user(host), Ok(None));
    let option = Kuma::ProxyUser.row().option();
    is_unknown.then(|| {
        format!(
            "{option}: neither a user {PROXY_ID} nor one called {PROXY_USER} is known here; {PROXY_ID} counts as the proxy's"
        )
    })
}

fn flow(reader: &mut SettingReader<'_>, is_inbound: bool) -> Flow {
    let of = |inbound, outbound| if is_inbound { inbound } else { outbound };
    let is_captured = reader.switch_or(of(Kuma::RedirectInbound, Kuma::RedirectOutbound), true);
    let usual = port(if is_inbound { 15006 } else { 15001 });
    let listener = reader.port(of(Kuma::InboundPort, Kuma::OutboundPort), usual);
    let included = of(Kuma::InboundPortsInclude, Kuma::OutboundPortsInclude);
    let included = reader.list(included, SettingReader::port_item);
    let excluded = of(Kuma::InboundPortsExclude, Kuma::OutboundPortsExclude);
    let excluded = reader.list(excluded, SettingReader::port_item);
    let networks = of(Kuma::InboundIpsExclude, Kuma::OutboundIpsExclude);
    Flow {
        is_captured,
        listener,
        ports: if included.is_empty() { Selection::AllBut(excluded) } else { Selection::Only(included) },
        excluded: reader.list(networks, |reader, source, item| match item.parse::<IpAddr>() {
            Ok(address) => Some(Cidr::host(address)),
            Err(_) => reader.cidr_item(source, item),
        }),
        is_inserted: reader.switch(of(Kuma::InboundInsert, Kuma::OutboundInsert)),
    }
}

fn dns(reader: &mut SettingReader<'_>, host: &dyn Host, ipv6: bool) -> DnsCapture {
    let (enabled, all) = (reader.switch(Kuma::RedirectDns), reader.switch(Kuma::CaptureAllDns));
    let by_flag = |setting| match reader.raw.get(setting).map(|given| &given.source) {
        // The injector's defaults are written as flags, too.
        Some(Source::Flag(_) | Source::Default(_)) => true,
        Some(Source::Container { word, .. }) => word.starts_with("--"),
        _ => false,
    };
    let all_by_flag = all && by_flag(Kuma::CaptureAllDns);
    if all_by_flag && enabled && by_flag(Kuma::RedirectDns) {
        let text = "contradicts {--redirect-dns}, which captures less; give one of them";
        reader.blame(Kuma::CaptureAllDns, text);
    }
    // The key limits what is captured where anything is; the flag also turns capture on.
    let is_on = enabled || all_by_flag;
    if all && !is_on {
        reader.warn(
            "{--redirect-all-dns-traffic}: captures nothing unless DNS is captured (redirect.dns.enabled)",
        );
    }
    let path = reader.raw.stated(Kuma::ResolvConf);
    reader.dns(host, is_on, all, path, "{--redirect-all-dns-traffic}", ipv6)
}

fn log_level(reader: &mut SettingReader<'_>) -> Option<LogLevel> {
    let complaint = "is not a level of the kernel's log; expected a number from 0 to 7";
    let parse = |text: &str| unsigned(text).and_then(LogLevel::new);
    let level = reader.scalar(Kuma::LogLevel, complaint, parse).unwrap_or(LogLevel::Debug);
    reader.switch(Kuma::Logs).then_some(level)
}

fn docker(reader: &mut SettingReader<'_>, host: &dyn Host, ipv6: bool) -> Vec<Family> {
    let held = |family| host.has_nat_chain(family, DOCKER_CHAIN).map(|is| is.then_some(family)).transpose();
    match Family::captured(ipv6).filter_map(held).collect::<io::Result<_>>() {
        Ok(families) => return families,
        // A preview needs no rights, and a change that lacks them fails by itself.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => reader.warn(format!(
            "assuming that Docker does not answer DNS queries here, because the rules can't be read: {error}"
        )),
        Err(error) => {
            let text = format!("can't find out whether Docker answers DNS queries here: {error}");
            reader.whole(&Source::Default(Kuma::RedirectDns), text);
        }
    }
    Vec::new()
}

const USERS_FORM: &str = "expected [[PROTO:]PORTS:]UID such as 106, 80,443:106-108 or tcp:1000-2000:106; several are \
                          separated by ;";
const NETWORK_FORM: &str =
    "expected an interface and its network, such as docker0:172.17.0.0/16 or br+:fd00::/64";

fn owner_ports(reader: &mut SettingReader<'_>) -> Vec<OwnerPorts> {
    let owners = reader.list(Kuma::OutboundPortsForUids, |reader, source, item| {
        reader.taken(source, item, of_user(item).map_err(|fault| format!("{fault}; {USERS_FORM}")))
    });
    if !reader.items(Kuma::InboundPortsForUids).0.is_empty() {
        let text = "is not possible: inbound packets have no user, so each of its ports would be excluded for all callers; \
                    use {--exclude-inbound-ports}";
        reader.blame(Kuma::InboundPortsForUids, text);
    }
    owners.into_iter().flatten().collect()
}

fn of_user(item: &str) -> Result<Vec<OwnerPorts>, String> {
    let mut parts = item.rsplit(':').map(str::trim);
    let uids = parts.next().unwrap_or_default();
    // All, where none are named.
    let mut or_all = |all| parts.next().filter(|part| !["", "*"].contains(part)).unwrap_or(all);
    let (ports, protocols) = (or_all("1-65535"), or_all("tcp,udp"));
    if parts.next().is_some() {
        return Err("has too many parts".to_owned());
    }
    if uids.is_empty() {
        return Err("names no user, which would mean all users".to_owned());
    }
    let uids: UidRange =
        uids.parse().map_err(|_| format!("ends in {uids:?}, which is not a user or a range of users"))?;
    let port = |port: &str| {
        let fault = |_| format!("has {port:?}, which is not a port from 1 to 65535 or range of ports");
        port.trim().parse().map_err(fault)
    };
    let ports: Vec<PortRange> = ports.split(',').map(port).collect::<Result<_, _>>()?;
    let owned = |protocol: &str| {
        let protocol = match protocol.trim().to_ascii_lowercase().as_str() {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            _ => return Err(format!("has {protocol:?}, which is neither tcp nor udp")),
        };
        Ok(OwnerPorts { protocol, ports: ports.clone(), uids })
    };
    protocols.split(',').map(owned).collect()
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
