//! Exclusions that leave nothing to capture: of all outbound traffic, of DNS, or of a family.

use super::{Code, Finding, change::AdvisedChange, comparison::LintComparison};
use crate::pod_packets::without_owners;
use mesh::{DNS_PORT, ListItem, Proxy, Selector, Setting};
use rules::nft::{Field, Intervals, protocol_number};
use rules::simulate::{PacketSet, Way};
use rules::{PortRange, Protocol};

/// List that excludes all outbound connections of the application that would be captured, except DNS.
pub(super) fn all_outbound_excluded(
    comparison: &mut LintComparison<'_>,
    lists: &[ListItem],
    proxy: &Proxy,
) -> Option<(Setting, Finding)> {
    let mut settings: Vec<Setting> = Vec::new();
    for listed in lists.iter().filter(|listed| !listed.captured) {
        let is_exclusion = matches!(listed.selector, Selector::Destination(_) | Selector::OutboundPort(..));
        if is_exclusion && !settings.contains(&listed.setting) {
            settings.push(listed.setting);
        }
    }
    let dns = Intervals::one(DNS_PORT.number().into());
    let is_call = |set: PacketSet| Some(calls(set, proxy)?.without(Field::DestinationPort, &dns));
    if settings.is_empty() || comparison.captures(is_call) {
        return None;
    }
    let decides =
        |setting: &&Setting| comparison.captures_without(&AdvisedChange::without_option(**setting), is_call);
    let setting = *settings.iter().find(decides)?;
    let captures_dns = comparison.captures(|set| Some(calls(set, proxy)?.with(Field::DestinationPort, &dns)));
    let but_dns = if captures_dns { ", except DNS" } else { "" };
    let text = format!(
        "excludes every included destination: no outbound connection of the application is captured{but_dns}"
    );
    let option = setting.row().mention();
    let remedy = "remove the items that must be captured";
    Some((setting, Finding::warning(Code::AllExcluded, &option, text, remedy)))
}

/// DNS queries that a list of ports excludes although their capture is configured.
pub(super) fn dns_excluded(
    comparison: &mut LintComparison<'_>,
    lists: &[ListItem],
    proxy: &Proxy,
) -> Option<Finding> {
    proxy.listeners.dns?;
    let excludes = |listed: &&ListItem| {
        let has_port = |ports: &PortRange| ports.contains(DNS_PORT.number());
        !listed.captured && matches!(&listed.selector, Selector::OutboundPort(ports, _) if has_port(ports))
    };
    let listed = lists.iter().find(excludes)?;
    let dns = Intervals::one(DNS_PORT.number().into());
    let is_query = |set: PacketSet| Some(calls(set, proxy)?.with(Field::DestinationPort, &dns));
    (!comparison.captures(is_query)).then(|| Finding {
        edit: AdvisedChange::without(listed).edit(comparison.raw),
        ..Finding::warning(
            Code::DnsExcluded,
            &listed.setting.row().mention(),
            "excludes port 53, so no DNS query is captured",
            "remove port 53 from the option",
        )
    })
}

/// Items that exclude every address of a family, or every port, so no later rule captures such a connection.
pub(super) fn catch_all_exclusions(
    comparison: &mut LintComparison<'_>,
    lists: &[ListItem],
    proxy: &Proxy,
) -> Vec<Finding> {
    let every = |ports: &PortRange| ports.first().number() == 1 && ports.last().number() == u16::MAX;
    let mut findings = Vec::new();
    for listed in lists.iter().filter(|listed| !listed.captured) {
        let (arrives, family) = match &listed.selector {
            Selector::Source(cidr) if cidr.is_everything() => (true, Some(cidr.family())),
            Selector::Destination(cidr) if cidr.is_everything() => (false, Some(cidr.family())),
            Selector::InboundPort(ports) if every(ports) => (true, None),
            Selector::OutboundPort(ports, _) if every(ports) => (false, None),
            _ => continue,
        };
        let tcp = Intervals::one(protocol_number(Protocol::Tcp).into());
        let is_selected = |set: PacketSet| {
            let is_such =
                (set.way != Way::Outbound) == arrives && family.is_none_or(|family| set.family == family);
            Some(of_others(set, proxy)?.with(Field::Protocol, &tcp)).filter(|_| is_such)
        };
        if comparison.captures(is_selected) {
            continue;
        }
        let item = &listed.selector;
        let family = family.map(|family| format!("{family} ")).unwrap_or_default();
        let goes = if arrives { "inbound" } else { "outbound" };
        findings.push(Finding::warning(
            Code::Unreachable,
            &listed.setting.row().mention(),
            format!("lists {item}, so no later rule captures an {goes} {family}connection"),
            "remove the items that must be captured",
        ));
    }
    findings
}

pub(super) fn leaving(set: PacketSet) -> Option<PacketSet> {
    Some(set).filter(|set| set.way == Way::Outbound)
}

/// Outbound packets of a set, except the proxy's packets.
pub(super) fn calls(set: PacketSet, proxy: &Proxy) -> Option<PacketSet> {
    of_others(leaving(set)?, proxy)
}

/// Packets of a set, except the proxy's packets.
pub(super) fn of_others(mut set: PacketSet, proxy: &Proxy) -> Option<PacketSet> {
    if set.way == Way::Outbound {
        set = without_owners(set, &proxy.uids, &proxy.gids);
    }
    let set = proxy.mark.into_iter().fold(set, PacketSet::without_mark);
    (!set.is_empty()).then_some(set)
}
