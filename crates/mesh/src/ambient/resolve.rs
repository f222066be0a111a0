//! Turns words into a configuration, or into everything that is wrong with them.

use super::config::CaptureConfig;
use super::defaults;
use super::settings::Ambient;
use crate::settings::Setting;
use crate::sources::{Host, SettingReader, Source};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where the reader has a problem, the result must not be used. Nothing is asked of the host.
pub fn configure(reader: &mut SettingReader<'_>, _: &dyn Host, _numbers_only: bool) -> CaptureConfig {
    let (probe_v4, probe_v6) = probe_addresses(reader);
    CaptureConfig {
        ingress: reader.switch(Ambient::Ingress),
        dns: reader.switch_or(Ambient::DnsCapture, true),
        interfaces: reader.list(Ambient::RerouteInterfaces, SettingReader::interface_item),
        ipv6: reader.switch_or(Ambient::Ipv6, true),
        probe_v4: probe_v4.unwrap_or(defaults::PROBE_V4),
        probe_v6: probe_v6.unwrap_or(defaults::PROBE_V6),
    }
}

/// The source of the host's own calls over IPv4 and over IPv6, as far as it is given: by the flag's addresses, else by
/// the variables'.
pub fn probe_addresses(reader: &mut SettingReader<'_>) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    let (mut v4, mut v6) = (None, None);
    let given = reader.list(Ambient::ProbeAddress, |reader, source, item| {
        probe_address(reader, source, item).map(|address| (address, source.clone(), item.to_owned()))
    });
    for (address, source, item) in given {
        let already = match address {
            IpAddr::V4(address) => v4.replace(address).map(IpAddr::from),
            IpAddr::V6(address) => v6.replace(address).map(IpAddr::from),
        };
        if let Some(other) = already.filter(|other| *other != address) {
            let text = format!("is of the same family as {other}; give one address a family");
            reader.problem(&source, &item, text);
        }
    }
    let of_v4 = variable(reader, Ambient::ProbeAddressV4, "IPv4", |address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    let of_v6 = variable(reader, Ambient::ProbeAddressV6, "IPv6", |address| match address {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    });
    (v4.or(of_v4), v6.or(of_v6))
}

fn variable<T>(
    reader: &mut SettingReader<'_>,
    setting: Setting,
    family: &str,
    of_family: impl Fn(IpAddr) -> Option<T>,
) -> Option<T> {
    let named = reader.list(setting, |reader, source, item| {
        let address = probe_address(reader, source, item)?;
        let found = of_family(address);
        if found.is_none() {
            reader.problem(source, item, format!("is of the other family; expected an address of {family}"));
        }
        found
    });
    if named.len() > 1 {
        reader.blame(setting, "names several addresses; give one");
    }
    named.into_iter().next()
}

fn probe_address(reader: &mut SettingReader<'_>, source: &Source, item: &str) -> Option<IpAddr> {
    let address = reader.address_item(source, item)?;
    if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
        let text = "can't be where calls of the host come from; expected an address of one machine, such as \
                    169.254.7.127, that is neither loopback nor multicast";
        reader.problem(source, item, text);
        return None;
    }
    Some(address)
}
