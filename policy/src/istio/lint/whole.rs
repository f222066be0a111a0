//! What a configuration as a whole leaves out, so that most else about it does not matter.

use crate::Setting;
use crate::istio::defaults::DNS_PORT;
use crate::istio::{CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs, OwnerGroups};
use crate::lint::{Code, Finding, Judge, addresses, ports};
use rules::nft::{Interval, Intervals};
use rules::simulate::{Direction, Packet};
use rules::{Family, PortRange};

/// Says that nothing is captured, if so. No other finding matters then.
pub(super) fn nothing(config: &CaptureConfig, judge: &mut Judge<'_>) -> Option<Finding> {
    if config.interception == Interception::None {
        return Some(Finding::note(
            Code::ModeNone,
            &Setting::InterceptionMode.row().option(),
            "is NONE: nothing is captured, whatever other options say",
            "give REDIRECT or TPROXY, or drop the options that say what to capture",
        ));
    }
    let inbound = match &config.inbound_ports {
        InboundPorts::AllBut(excluded) => !all_ports(excluded),
        InboundPorts::Only(included) => !included.is_empty(),
    };
    if inbound || config.dns != DnsCapture::Off || wants_outbound(config) && !excludes_all(config) {
        return None;
    }
    let of_proxy = |packet: &Packet| is_proxys(config, packet);
    if judge.captures(|packet| !of_proxy(packet)) {
        return None;
    }
    let excluded = if wants_outbound(config) { excluded(config) } else { None };
    Some(excluded.unwrap_or_else(|| {
        Finding::warning(
            Code::NothingCaptured,
            &Setting::ServiceCidr.row().option(),
            "nothing is captured: no outbound connection, no inbound port and no DNS query",
            "say what to capture, such as -i '*' and -b '*', or give -m NONE",
        )
    }))
}

/// Says that what is left alone outbound is all that there is, if so.
pub(super) fn everything_excluded(config: &CaptureConfig, judge: &mut Judge<'_>) -> Option<Finding> {
    if !wants_outbound(config) {
        return None;
    }
    let found = excluded(config)?;
    let is_applications = |packet: &Packet| {
        let outbound = matches!(packet.direction, Direction::Outbound { .. });
        outbound && !is_proxys(config, packet) && packet.destination.port() != DNS_PORT.number()
    };
    (!judge.captures(is_applications)).then_some(found)
}

/// Whether a setting only says what is included outbound.
pub(super) fn is_of_included(setting: Setting) -> bool {
    matches!(
        setting,
        Setting::ServiceCidr | Setting::OutboundPorts | Setting::OwnerGroups | Setting::OwnerGroupsExclude
    )
}

fn is_proxys(config: &CaptureConfig, packet: &Packet) -> bool {
    match packet.direction {
        Direction::Outbound { uid, gid, .. } => {
            config.proxy_uids.contains(&uid) || config.proxy_gids.contains(&gid)
        }
        Direction::Inbound { .. } => false,
    }
}

/// Whether anything outbound is included, before exclusions.
fn wants_outbound(config: &CaptureConfig) -> bool {
    let groups = config.owner_groups != OwnerGroups::Only(Vec::new());
    let networks = config.families().any(|family| !included(config, family).ranges().is_empty());
    groups && networks
}

fn excludes_all(config: &CaptureConfig) -> bool {
    excluded(config).is_some()
}

/// The option that leaves alone everything that is included outbound.
fn excluded(config: &CaptureConfig) -> Option<Finding> {
    let none = "no outbound connection of the application is captured";
    let but_dns = if config.dns == DnsCapture::Off { "" } else { " but for DNS" };
    if all_ports(&config.excluded_outbound_ports) {
        return Some(Finding::warning(
            Code::AllExcluded,
            &Setting::OutboundPortsExclude.row().option(),
            format!("covers every port, so that what is included is never reached: {none}"),
            "leave out of it what is to be captured",
        ));
    }
    let covers = |family| {
        let excluded: Intervals =
            config.excluded_cidrs.iter().filter(|c| c.family() == family).map(addresses).collect();
        included(config, family).joined().within(&excluded.joined())
    };
    config.families().all(covers).then(|| {
        Finding::warning(
            Code::AllExcluded,
            &Setting::ServiceExcludeCidr.row().option(),
            format!("covers all that is included, so that it is never reached: {none}{but_dns}"),
            "leave out of it what is to be captured",
        )
    })
}

/// The addresses of a family that are included for some port.
fn included(config: &CaptureConfig, family: Family) -> Intervals {
    let whole = Interval { first: 0, last: u128::MAX >> (128 - u32::from(family.bits())) };
    match &config.outbound_cidrs {
        OutboundCidrs::All => [whole].into_iter().collect(),
        OutboundCidrs::Only(_) if !config.outbound_ports.is_empty() => [whole].into_iter().collect(),
        OutboundCidrs::Only(cidrs) => cidrs.iter().filter(|c| c.family() == family).map(addresses).collect(),
    }
}

fn all_ports(ranges: &[PortRange]) -> bool {
    let all: Intervals = ranges.iter().map(ports).collect();
    Intervals::from_iter([Interval { first: 1, last: u16::MAX.into() }]).within(&all.joined())
}
