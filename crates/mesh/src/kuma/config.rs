//! Validated configuration behind the rules, and its construction from settings.

use super::settings::Kuma;
use crate::facts::{DnsCapture, PASSTHROUGH_V6, Selection, port};
use crate::sources::{Given, Host, Names, Raw, SettingReader, Source};
use crate::{policy::configuration, settings::Setting};
use rules::number::unsigned;
use rules::{Cidr, Family, InterfaceName, LogLevel, Port, PortRange, Protocol, Uid, UidRange};
use std::{collections::BTreeMap, io, net::IpAddr};

/// Default user of the proxy, as in upstream's images.
const PROXY: Uid = Uid::new(5678).expect("the default is valid");
/// Default if no user has that number.
const PROXY_USER: &str = "kuma-dp";

/// Docker's `nat` chain for DNS in user-defined networks.
pub(super) const DOCKER_CHAIN: &str = "DOCKER_OUTPUT";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub is_captured: bool,
    pub listener: Port,
    /// `Only` is never empty.
    pub ports: Selection<PortRange>,
    pub excluded: Vec<Cidr>,
    /// True if the jump into the mesh is inserted at the start of the base chain instead of appended.
    pub is_inserted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPorts {
    pub protocol: Protocol,
    pub ports: Vec<PortRange>,
    pub uids: UidRange,
}

/// Network behind an interface, such as Docker's bridge, whose machines call through the mesh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VirtualNetwork {
    pub interface: InterfaceName,
    pub network: Cidr,
}

configuration! {
    |reader, host, numbers_only|
    ipv6: bool = ipv6(reader, host);
    proxy_uid: Uid = proxy_user(reader, &Names { host, numbers_only });
    inbound: Flow = flow(reader, 15006, [Kuma::RedirectInbound, Kuma::InboundPort, Kuma::InboundPortsInclude,
        Kuma::InboundPortsExclude, Kuma::InboundIpsExclude, Kuma::InboundInsert]);
    outbound: Flow = flow(reader, 15001, [Kuma::RedirectOutbound, Kuma::OutboundPort, Kuma::OutboundPortsInclude,
        Kuma::OutboundPortsExclude, Kuma::OutboundIpsExclude, Kuma::OutboundInsert]);
    excluded_owners: Vec<OwnerPorts> = owner_ports(reader);
    dns_listener: Port = reader.port(Kuma::DnsPort, port(15053));
    dns: DnsCapture = dns(reader, host, ipv6);
    /// True if the proxy's DNS queries get a separate conntrack zone, unless Docker's rules prevent it.
    has_zones: bool = !reader.switch(Kuma::SkipZoneSplit);
    /// Sorted; at most one per interface and family.
    networks: Vec<VirtualNetwork> = networks(reader);
    drops_invalid: bool = reader.switch(Kuma::DropInvalid);
    log_level: Option<LogLevel> = log_level(reader);
    comments: bool = !reader.switch(Kuma::DisableComments);
    /// Families whose table `nat` holds Docker's DNS chain.
    docker: Vec<Family> = if dns == DnsCapture::Off { Vec::new() } else { docker(reader, host, ipv6) };
    => {
        if dns == DnsCapture::Off && !networks.is_empty() {
            reader.warn(format!(
                "{{--vnet}} sends DNS queries from its interfaces to port {dns_listener}, where no listener \
                 exists unless DNS is captured ({{--redirect-dns}})"
            ));
        }
        if !ipv6 {
            reader.warn_of_ipv6_networks(Kuma::Vnet, networks.iter().map(|network| network.network));
        }
    }
}

impl CaptureConfig {
    /// True if DNS queries get separate conntrack zones. If all did, Docker could not rewrite queries to its server.
    pub fn splits_zones(&self, family: Family) -> bool {
        let docker_has_all = self.docker.contains(&family) && self.dns == DnsCapture::All;
        !self.dns.servers(family).is_empty() && self.has_zones && !docker_has_all
    }
}

/// True, unless disabled, if an interface other than loopback has an IPv6 address.
fn ipv6(reader: &mut SettingReader<'_>, host: &dyn Host) -> bool {
    let mode = reader.choice(Kuma::IpFamilyMode, "an IP family mode");
    if mode == Some("ipv4") {
        return false;
    }
    let Some(addresses) = reader.addresses(host, ", or give {--ip-family-mode} ipv4") else { return false };
    let is_a_pods = |one: &IpAddr| one.is_ipv6() && !one.is_loopback() && *one != PASSTHROUGH_V6;
    let found = addresses.iter().any(is_a_pods);
    if !found && mode.is_some() {
        let text = "only loopback has an IPv6 address, so IPv6 is not captured";
        reader.warn(format!("{{--ip-family-mode}}: {text}"));
    }
    found
}

fn proxy_user(reader: &mut SettingReader<'_>, names: &Names<'_>) -> Uid {
    let found = match reader.raw.stated(Kuma::ProxyUser) {
        Some(Given { value, source }) => names.user(reader, source, value.trim_matches([' ', '\t'])),
        None if names.numbers_only => None,
        None => usual_user(names.host).ok().flatten(),
    };
    found.unwrap_or(PROXY)
}

fn usual_user(host: &dyn Host) -> io::Result<Option<Uid>> {
    if host.has_user(PROXY)? { Ok(Some(PROXY)) } else { host.user(PROXY_USER) }
}

/// Problem, as in upstream, if no user is given and the host lacks both defaults; `None` if users can't be looked up.
pub fn unknown_user(raw: &Raw, host: &dyn Host) -> Option<String> {
    let is_unknown = raw.stated(Kuma::ProxyUser).is_none() && matches!(usual_user(host), Ok(None));
    let text = format!("neither user {PROXY} nor {PROXY_USER} exists here; using {PROXY}");
    is_unknown.then(|| format!("{}: {text}", Kuma::ProxyUser.row().option()))
}

fn flow(reader: &mut SettingReader<'_>, usual: u16, settings: [Setting; 6]) -> Flow {
    let [captured, listener, included, excluded, networks, inserted] = settings;
    let is_captured = reader.switch_or(captured, true);
    let listener = reader.port(listener, port(usual));
    let included = reader.list(included, SettingReader::port_item);
    let excluded = reader.list(excluded, SettingReader::port_item);
    Flow {
        is_captured,
        listener,
        ports: Selection::of((!included.is_empty()).then_some(included), excluded),
        excluded: reader.list(networks, |reader, source, item| match item.parse() {
            Ok(address) => Some(Cidr::host(address)),
            Err(_) => reader.cidr_item(source, item),
        }),
        is_inserted: reader.switch(inserted),
    }
}

fn dns(reader: &mut SettingReader<'_>, host: &dyn Host, ipv6: bool) -> DnsCapture {
    let (enabled, all) = (reader.switch(Kuma::RedirectDns), reader.switch(Kuma::CaptureAllDns));
    let is_flag = |setting| reader.raw.get(setting).is_some_and(|given| given.source.is_flag());
    let all_by_flag = all && is_flag(Kuma::CaptureAllDns);
    if all_by_flag && enabled && is_flag(Kuma::RedirectDns) {
        let text = "contradicts {--redirect-dns}, which captures less; give one of them";
        reader.blame(Kuma::CaptureAllDns, text);
    }
    // The key only widens capture that is already on; the flag turns it on.
    let is_on = enabled || all_by_flag;
    if all && !is_on {
        let text = "captures nothing unless DNS is captured (redirect.dns.enabled)";
        reader.warn(format!("{{--redirect-all-dns-traffic}}: {text}"));
    }
    let path = reader.raw.stated(Kuma::ResolvConf);
    reader.dns(host, is_on, all, path, "{--redirect-all-dns-traffic}", ipv6)
}

fn log_level(reader: &mut SettingReader<'_>) -> Option<LogLevel> {
    let complaint = "is not a kernel log level; expected a number from 0 to 7";
    let parse = |text: &str| unsigned(text).and_then(LogLevel::new);
    let level = reader.scalar(Kuma::LogLevel, complaint, parse).unwrap_or(LogLevel::DEBUG);
    reader.switch(Kuma::Logs).then_some(level)
}

fn docker(reader: &mut SettingReader<'_>, host: &dyn Host, ipv6: bool) -> Vec<Family> {
    let held = |family| host.has_nat_chain(family, DOCKER_CHAIN).map(|is| is.then_some(family)).transpose();
    let found = Family::captured(ipv6).filter_map(held).collect::<io::Result<_>>();
    found.unwrap_or_else(|error| {
        // A preview works without privileges, and a change without them fails anyway.
        if error.kind() == io::ErrorKind::PermissionDenied {
            let text = "assuming that Docker does not answer DNS queries, because the rules can't be read";
            reader.warn(format!("{text}: {error}"));
        } else {
            let text = format!("cannot determine whether Docker answers DNS queries: {error}");
            reader.whole(&Source::Default(Kuma::RedirectDns), text);
        }
        Vec::new()
    })
}

fn owner_ports(reader: &mut SettingReader<'_>) -> Vec<OwnerPorts> {
    let owners = reader.list(Kuma::OutboundPortsForUids, |reader, source, item| {
        let complaint = "is not [[PROTO:]PORTS:]UID; expected tcp or udp, ports from 1 to 65535 and a user number or \
                         range, such as 106, 80,443:106-108 or tcp:1000-2000:106; separate several with ;";
        reader.taken(source, item, of_user(item).ok_or(complaint))
    });
    owners.into_iter().flatten().collect()
}

fn of_user(item: &str) -> Option<Vec<OwnerPorts>> {
    let mut parts = item.rsplit(':').map(str::trim);
    let uids: UidRange = parts.next()?.parse().ok()?;
    let mut or_all = |all| parts.next().filter(|part| !["", "*"].contains(part)).unwrap_or(all);
    let (ports, protocols) = (or_all("1-65535"), or_all("tcp,udp"));
    let ports: Vec<PortRange> =
        ports.split(',').map(|port| port.trim().parse().ok()).collect::<Option<_>>()?;
    let known = [("tcp", Protocol::Tcp), ("udp", Protocol::Udp)];
    let owned = |word: &str| {
        let (_, protocol) = known.into_iter().find(|(name, _)| word.trim().eq_ignore_ascii_case(name))?;
        Some(OwnerPorts { protocol, ports: ports.clone(), uids })
    };
    parts.next().is_none().then(|| protocols.split(',').map(owned).collect())?
}

/// For each interface and family, the last network wins.
fn networks(reader: &mut SettingReader<'_>) -> Vec<VirtualNetwork> {
    const FORM: &str =
        "expected an interface and its network, such as docker0:172.17.0.0/16 or br+:fd00::/64";
    let found = reader.list(Kuma::Vnet, |reader, source, item| {
        let parts = item.split_once(':').ok_or_else(|| format!("has no colon; {FORM}"));
        let (interface, network) = reader.taken(source, item, parts)?;
        let interface = interface.parse().map_err(|error| format!("{error}; {FORM}"));
        let interface: InterfaceName = reader.taken(source, item, interface)?;
        let network = reader.network(source, item, network, FORM)?;
        Some(((interface.clone(), network.family()), VirtualNetwork { interface, network }))
    });
    found.into_iter().collect::<BTreeMap<_, _>>().into_values().collect()
}
