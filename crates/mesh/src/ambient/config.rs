//! Validated capture configuration of a pod in ambient mode, its construction from settings, and its ownership.

use super::defaults::{CONNECTION_MARK, PREFERENCE, PROBE_V4, PROBE_V6, TABLE};
use super::settings::Ambient;
use crate::policy::configuration;
use crate::sources::{SettingReader, Source};
use rules::{ByFamily, Chains, Family, InterfaceName, Ownership, PolicyRules, Predecessor};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Upstream's chains. Sidecars have `ISTIO_OUTPUT` too; it belongs to ambient mode if its table has `ISTIO_PRERT`.
pub(super) const INBOUND: &str = "ISTIO_PRERT";
pub(super) const OUTBOUND: &str = "ISTIO_OUTPUT";

/// Protocol 138 is unassigned (`/etc/iproute2/rt_protos`).
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

/// Istio's node agent (`cni/pkg/iptables`, `cni/pkg/nftables`), whose chains have the same names. Its policy rule and its route
/// have no distinctive protocol; mark, mask, preference and table identify them.
const ISTIO_CNI: Predecessor = Predecessor {
    name: "Istio's CNI agent",
    patterns: &[],
    log_group: None,
    policy_rule: Some((CONNECTION_MARK, TABLE)),
    tables: &["istio-ambient-nat", "istio-ambient-mangle", "istio-ambient-raw"],
};

// ztunnel fixes the ports and marks.
configuration! {
    |reader, _host, _numbers_only|
    /// Source addresses of the host's own calls, such as the kubelet's probes.
    probes: ByFamily<IpAddr> = {
        let (v4, v6) = probe_addresses(reader);
        ByFamily { v4: v4.unwrap_or(PROBE_V4).into(), v6: v6.unwrap_or(PROBE_V6).into() }
    };
    /// True if inbound connections are excluded, for another vendor's gateway that accepts them itself.
    ingress: bool = reader.switch(Ambient::Ingress);
    dns: bool = reader.switch_or(Ambient::DnsCapture, true);
    /// Interfaces of guests, such as virtual machines, whose TCP traffic counts as outbound.
    interfaces: Vec<InterfaceName> = reader.list(Ambient::RerouteInterfaces, SettingReader::interface_item);
    ipv6: bool = reader.switch_or(Ambient::Ipv6, true);
}

/// Source addresses of the host's own calls: from the flag, else from the variables; `None` for a family without one.
pub fn probe_addresses(reader: &mut SettingReader<'_>) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    let mut found = ByFamily::<Option<IpAddr>>::default();
    reader.list(Ambient::ProbeAddress, |reader, source, item| {
        let address = probe_address(reader, source, item)?;
        let before = found.get_mut(Family::of(address)).replace(address);
        if let Some(other) = before.filter(|other| *other != address) {
            let text = format!("is of the same family as {other}; give one address per family");
            reader.problem(source, item, text);
        }
        Some(address)
    });
    for (setting, family) in [(Ambient::ProbeAddressV4, Family::V4), (Ambient::ProbeAddressV6, Family::V6)] {
        let named = reader.list(setting, |reader, source, item| {
            let address = probe_address(reader, source, item)?;
            let complaint = format!("is of the wrong family; expected an {family} address");
            let fitting = Some(address).filter(|one| Family::of(*one) == family);
            reader.taken(source, item, fitting.ok_or(complaint))
        });
        if named.len() > 1 {
            reader.blame(setting, "names several addresses; give one");
        }
        let found = found.get_mut(family);
        *found = found.or(named.first().copied());
    }
    let v4 = if let Some(IpAddr::V4(v4)) = found.v4 { Some(v4) } else { None };
    let v6 = if let Some(IpAddr::V6(v6)) = found.v6 { Some(v6) } else { None };
    (v4, v6)
}

fn probe_address(reader: &mut SettingReader<'_>, source: &Source, item: &str) -> Option<IpAddr> {
    let address = reader.address_item(source, item)?;
    if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
        let text = "can't be the source of the host's calls; expected an address of one host, such as \
                    169.254.7.127, neither loopback nor multicast";
        reader.problem(source, item, text);
        return None;
    }
    Some(address)
}
