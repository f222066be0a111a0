//! Validated configuration of capture in a pod of the ambient mesh, how settings become one, and how its rules are recognized.

use super::defaults::{CONNECTION_MARK, PREFERENCE, PROBE_V4, PROBE_V6, TABLE};
use super::settings::Ambient;
use crate::settings::Setting;
use crate::sources::{Host, SettingReader, Source};
use rules::{Chains, Family, InterfaceName, Ownership, PolicyRules, Predecessor};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Chains of upstream. `ISTIO_OUTPUT` is also a chain of the sidecar's: it is ambient's where its table has `ISTIO_PRERT` too.
pub(super) const INBOUND: &str = "ISTIO_PRERT";
pub(super) const OUTBOUND: &str = "ISTIO_OUTPUT";

/// 138 is not in `/etc/iproute2/rt_protos`.
pub const OWNERSHIP: Ownership = Ownership {
    name: "Istio's ambient mode",
    mesh: "ambient",
    chains: Chains::Named(INBOUND, &[OUTBOUND]),
    conflicting_chains: &[],
    comment: "sidecar-init-ambient",
    comment_prefix: None,
    table: "sidecar_init_ambient",
    protocol: 138,
    policy_rules: PolicyRules { mask: CONNECTION_MARK.mask, preference: Some(PREFERENCE) },
    address: None,
    predecessor: Some(&ISTIO_CNI),
    opt_out: "label the pod istio.io/dataplane-mode=none",
    joined: &[],
};

/// Istio's node agent (`cni/pkg/iptables`, `cni/pkg/nftables`), whose chains have the same names. Its policy rule and its route carry no
/// separate protocol; they are known by mark, mask, preference and table.
const ISTIO_CNI: Predecessor = Predecessor {
    name: "Istio's CNI agent",
    patterns: &[],
    log_group: None,
    policy_rule: Some((CONNECTION_MARK, TABLE)),
    tables: &["istio-ambient-nat", "istio-ambient-mangle", "istio-ambient-raw"],
};

/// Ports and marks are ztunnel's and can't be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// True if connections that arrive are excluded, as needed by a gateway of another vendor that takes them itself.
    pub ingress: bool,
    pub dns: bool,
    /// Interfaces of guests behind the pod, such as virtual machines: their TCP counts as outbound.
    pub interfaces: Vec<InterfaceName>,
    pub ipv6: bool,
    /// The address from which the host's own calls come, such as the kubelet's probes.
    pub probe_v4: Ipv4Addr,
    pub probe_v6: Ipv6Addr,
}

impl CaptureConfig {
    pub fn probe_address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.probe_v4.into(),
            Family::V6 => self.probe_v6.into(),
        }
    }
}

pub(crate) fn configure(reader: &mut SettingReader<'_>, _: &dyn Host, _numbers_only: bool) -> CaptureConfig {
    let (probe_v4, probe_v6) = probe_addresses(reader);
    CaptureConfig {
        ingress: reader.switch(Ambient::Ingress),
        dns: reader.switch_or(Ambient::DnsCapture, true),
        interfaces: reader.list(Ambient::RerouteInterfaces, SettingReader::interface_item),
        ipv6: reader.switch_or(Ambient::Ipv6, true),
        probe_v4: probe_v4.unwrap_or(PROBE_V4),
        probe_v6: probe_v6.unwrap_or(PROBE_V6),
    }
}

/// The source of the host's own calls by family, if it is given: by the flag's addresses, else by the variables'.
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
        let complaint = || format!("is of the other family; expected an address of {family}");
        reader.taken(source, item, of_family(address).ok_or_else(complaint))
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
