//! Turns words into a configuration, or into everything that is wrong with them.

use super::config::{CaptureConfig, Dns, Flow, Ports};
use super::defaults;
use super::exclusions::{self, DirectionSettings};
use super::settings::Kuma;
use crate::facts::DnsCapture;
use crate::settings::Setting;
use crate::sources::{Given, Host, Names, Raw, SettingReader, Source};
use rules::{Family, LogLevel, Port, PortRange, Uid, number::unsigned};
use std::{io, net::IpAddr};

/// Where the reader has a problem, the result must not be used. `numbers_only` is true where the host's users are not
/// the pod's, so that names can't be looked up.
pub fn configure(reader: &mut SettingReader<'_>, host: &dyn Host, numbers_only: bool) -> CaptureConfig {
    ebpf(reader);
    let ipv6 = ipv6(reader, host);
    let proxy_uid = proxy_user(reader, host, numbers_only);
    let inbound = flow(reader, &DirectionSettings::INBOUND);
    let outbound = flow(reader, &DirectionSettings::OUTBOUND);
    let excluded_owners = exclusions::of_users(reader);
    if exclusions::is_given(reader, Kuma::InboundPortsForUids) {
        let text = "is not possible: inbound packets have no user, so each of its ports would be excluded for all callers; \
                    use {--exclude-inbound-ports}";
        reader.blame(Kuma::InboundPortsForUids, text);
    }
    let dns = dns(reader, host);
    if let DnsCapture::Servers(servers) = &dns.capture {
        reader.warn_of_dns_family(servers, ipv6);
    }
    let networks = exclusions::networks(reader);
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
        // Lint warns of other lists' networks.
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
        log_level: logs.then_some(level.unwrap_or(defaults::LOG_LEVEL)),
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
    let addresses = match reader.raw.get(Setting::PodIps) {
        Some(_) => reader.list(Setting::PodIps, SettingReader::address_item),
        None => match host.addresses() {
            Ok(addresses) => addresses,
            Err(error) => {
                let text = format!(
                    "the interfaces can't be listed: {error}; declare the addresses, or give {{--ip-family-mode}} ipv4"
                );
                reader.whole(&Source::Default(Setting::PodIps), text);
                return false;
            }
        },
    };
    let is_a_pods = |address: &IpAddr| {
        address.is_ipv6() && !address.is_loopback() && *address != IpAddr::from(defaults::PASSTHROUGH_V6)
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
    let found = match named {
        Some(Given { value, source }) => {
            Names { host, numbers_only }.user(reader, source, value.trim_matches([' ', '\t']))
        }
        None => default_user(host, numbers_only),
    };
    found.unwrap_or(Uid::new(defaults::PROXY_ID).expect("the default is valid"))
}

/// The problem where the proxy's user is not given, and the host knows none of its defaults. Upstream
/// refuses then.
pub fn unknown_user(raw: &Raw, host: &dyn Host) -> Option<String> {
    let is_named = raw.get(Kuma::ProxyUser).is_some_and(|given| !given.value.trim().is_empty());
    let standard = Uid::new(defaults::PROXY_ID)?;
    // Where users can't be looked up, as in an image without any, nothing is known.
    let is_unknown = || {
        let (number, name) = (host.has_user(standard).ok()?, host.user(defaults::PROXY_USER).ok()?);
        (!number && name.is_none()).then_some(())
    };
    (!is_named).then(is_unknown)??;
    let option = Kuma::ProxyUser.row().option();
    Some(format!(
        "{option}: neither a user {standard} nor one called {} is known here; {standard} counts as the proxy's",
        defaults::PROXY_USER
    ))
}

/// `None` where a user has the standard number.
fn default_user(host: &dyn Host, numbers_only: bool) -> Option<Uid> {
    let standard = Uid::new(defaults::PROXY_ID)?;
    if numbers_only || host.has_user(standard).unwrap_or(true) {
        return None;
    }
    host.user(defaults::PROXY_USER).ok().flatten()
}

fn flow(reader: &mut SettingReader<'_>, names: &DirectionSettings) -> Flow {
    let is_captured = reader.switch_or(names.is_captured, true);
    let listener = reader.port(names.listener, names.default);
    let included: Vec<PortRange> = reader.list(names.included, SettingReader::port_item);
    let excluded: Vec<PortRange> = reader.list(names.excluded, SettingReader::port_item);
    let ports = match included.is_empty() {
        true => Ports::AllBut(excluded),
        false => Ports::Only(included),
    };
    Flow {
        is_captured,
        listener,
        ports,
        excluded: reader.list(names.networks, exclusions::network),
        is_inserted: reader.switch(names.is_inserted),
    }
}

fn dns(reader: &mut SettingReader<'_>, host: &dyn Host) -> Dns {
    let enabled = reader.switch(Kuma::RedirectDns);
    let all = reader.switch(Kuma::CaptureAllDns);
    let port: Port = reader.port(Kuma::DnsPort, defaults::DNS_LISTENER);
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
    Dns { capture: reader.dns(host, is_on, all, path, "{--redirect-all-dns-traffic}"), port, splits_zones }
}

fn docker(reader: &mut SettingReader<'_>, host: &dyn Host, ipv6: bool) -> Vec<Family> {
    let mut found = Vec::new();
    for family in Family::captured(ipv6) {
        match host.has_nat_chain(family, defaults::DOCKER_CHAIN) {
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
