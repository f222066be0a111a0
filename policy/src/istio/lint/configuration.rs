//! Options that do nothing beside others, and settings that are known to surprise.

use crate::istio::defaults::DNS_PORT;
use crate::istio::{CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs, OwnerGroups};
use crate::lint::{Change, Code, Finding, Idle, Judge, LeftOut};
use crate::settings::Setting;
use crate::sources::Raw;
use rules::Uid;
use rules::simulate::Direction;

/// Looks at options one by one.
pub(super) fn check(config: &CaptureConfig, judge: &mut Judge<'_>, captures_outbound: bool) -> Vec<Finding> {
    let mut findings = proxies(config, judge, captures_outbound);
    findings.extend(limits(config));
    findings.extend(dns(config, judge));
    findings
}

/// Options that were given and change nothing.
pub(super) fn without_effect(raw: &Raw, config: &CaptureConfig) -> Vec<Idle> {
    let tproxy = matches!(config.interception, Interception::Tproxy { .. });
    let cases = [
        (
            Setting::InboundPortsExclude,
            matches!(config.inbound_ports, InboundPorts::Only(_)),
            "excludes ports from -b '*', which is not given",
            "drop the option, or give -b '*' to capture all other ports",
        ),
        (
            Setting::OutboundPorts,
            config.outbound_cidrs == OutboundCidrs::All,
            "lists ports that -i '*' captures anyway",
            "drop the option",
        ),
        (
            Setting::OwnerGroupsExclude,
            matches!(config.owner_groups, OwnerGroups::Only(_)),
            "excludes groups from all groups, but a list of groups is captured",
            "drop the variable",
        ),
        (
            Setting::TproxyMark,
            !tproxy,
            "marks packets in TPROXY mode, which is not on",
            "drop the option, or give -m TPROXY",
        ),
        (
            Setting::TproxyRouteTable,
            !tproxy,
            "routes packets in TPROXY mode, which is not on",
            "drop the option, or give -m TPROXY",
        ),
        (
            Setting::DnsServers,
            config.dns == DnsCapture::Off,
            "names servers, but DNS is not captured",
            "drop the option, or give --redirect-dns",
        ),
        (
            Setting::ServiceExcludeCidr,
            config.outbound_cidrs == OutboundCidrs::Only(Vec::new()) && config.outbound_ports.is_empty(),
            "leaves networks alone, but no outbound network is captured",
            "drop the option, or give -i",
        ),
    ];
    let given = |setting| raw.get(setting).filter(|given| !given.value.trim().is_empty());
    cases
        .into_iter()
        .filter(|(_, idle, ..)| *idle)
        .filter_map(|(setting, _, text, remedy)| {
            let source = given(setting)?.source.to_string();
            let finding =
                Finding::warning(Code::NoEffect, &source, format!("has no effect: it {text}"), remedy);
            Some(Idle { finding, change: Change::without(setting, LeftOut::Everything) })
        })
        .collect()
}

/// Queries that are left alone before they could be captured.
fn dns(config: &CaptureConfig, judge: &mut Judge<'_>) -> Option<Finding> {
    let spares = config.excluded_outbound_ports.iter().any(|range| range.contains(DNS_PORT.number()));
    if !spares || config.dns == DnsCapture::Off {
        return None;
    }
    let idle = judge.is_idle(&Change::without(Setting::RedirectDns, LeftOut::Everything));
    Some(Finding::warning(
        Code::DnsExcluded,
        "--istio-local-outbound-ports-exclude",
        "leaves port 53 alone, so that --redirect-dns captures nothing",
        match idle {
            true => "take port 53 out of the option, or drop --redirect-dns",
            false => "take port 53 out of the option",
        },
    ))
}

/// Who counts as the proxy.
fn proxies(config: &CaptureConfig, judge: &mut Judge<'_>, captures_outbound: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if captures_outbound && config.proxy_uids.iter().copied().map(Uid::number).any(|uid| uid == 0) {
        findings.push(Finding::warning(Code::RootIsProxy,
            "--proxy-uid",
            "root is the proxy's user, so no process that runs as root is captured",
            "run the proxy as a user of its own, or name it by its group (-g) and give -u a number nobody has",
        ));
    }
    let others = config.proxy_uids.get(1..).unwrap_or_default();
    let calls_own_pod = |packet: &rules::simulate::Packet| match &packet.direction {
        Direction::Outbound { interface, uid, .. } => interface == "lo" && others.contains(uid),
        Direction::Inbound { .. } => false,
    };
    if !others.is_empty() && !judge.captures(calls_own_pod) {
        findings.push(Finding::warning(Code::SeveralProxyUsers,
            "--proxy-uid",
            "with several users, calls of all but the first to their own pod are not captured: the first one's \
             rule takes everybody else for the application",
            "run the proxy as one user",
        ));
    }
    findings
}

/// What captured connections have to live with.
fn limits(config: &CaptureConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    let inbound = config.captures_inbound();
    if inbound && !config.drop_invalid {
        findings.push(Finding::note(
            Code::InvalidPackets,
            "--drop-invalid",
            "is off: one packet outside its connection's window resets a captured connection",
            "give --drop-invalid",
        ));
    }
    if inbound
        && !config.vm_interfaces.is_empty()
        && matches!(config.interception, Interception::Tproxy { .. })
    {
        findings.push(Finding::warning(Code::VmWithTproxy,
            "--kube-virt-interfaces",
            "with TPROXY, what virtual machines send is captured as inbound, and the answers to what is left alone \
             are taken for the proxy's own, so that those connections never come about",
            "use -m REDIRECT",
        ));
    }
    let several = match &config.inbound_ports {
        InboundPorts::AllBut(_) => true,
        InboundPorts::Only(ports) => ports.len() > 1 || ports.iter().any(|range| !range.is_single()),
    };
    if several && config.interception == Interception::Redirect && config.inbound_listener.is_single() {
        findings.push(Finding::note(
            Code::PortsCollide,
            "--inbound-capture-port",
            "several ports are redirected to one, so a client that calls two of them from one port collides",
            "give a range of ports, if the proxy can listen on one, or use TPROXY",
        ));
    }
    findings
}
