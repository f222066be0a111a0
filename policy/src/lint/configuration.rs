//! Options that do nothing beside others, and settings that are known to surprise.

use super::Finding;
use crate::istio::{CaptureConfig, DnsCapture, InboundPorts, Interception, OutboundCidrs, OwnerGroups};
use crate::settings::Setting;
use crate::sources::Raw;
use rules::Uid;

/// Looks at options one by one.
pub(super) fn check(raw: &Raw, config: &CaptureConfig) -> Vec<Finding> {
    let mut findings = without_effect(raw, config);
    findings.extend(proxies(config));
    findings.extend(limits(config));
    findings
}

/// Options that were given and change nothing.
fn without_effect(raw: &Raw, config: &CaptureConfig) -> Vec<Finding> {
    let tproxy = matches!(config.interception, Interception::Tproxy { .. });
    let cases = [
        (
            Setting::InboundPortsExclude,
            matches!(config.inbound_ports, InboundPorts::Only(_)),
            "excludes ports from -b '*', which is not given",
            "give -b '*', or leave the ports out of -b",
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
            "give -m TPROXY, or drop the option",
        ),
        (
            Setting::TproxyRouteTable,
            !tproxy,
            "routes packets in TPROXY mode, which is not on",
            "give -m TPROXY, or drop the option",
        ),
        (
            Setting::DnsServers,
            config.dns == DnsCapture::Off,
            "names servers, but DNS is not captured",
            "give --redirect-dns, or drop the option",
        ),
        (
            Setting::ServiceExcludeCidr,
            config.outbound_cidrs == OutboundCidrs::Only(Vec::new()) && config.outbound_ports.is_empty(),
            "leaves networks alone, but no outbound network is captured",
            "give -i, or drop the option",
        ),
    ];
    let given = |setting| raw.get(setting).filter(|given| !given.value.trim().is_empty());
    cases
        .into_iter()
        .filter(|(_, idle, ..)| *idle)
        .filter_map(|(setting, _, text, remedy)| {
            let source = given(setting)?.source.to_string();
            Some(Finding::warning(&source, format!("has no effect: it {text}"), remedy))
        })
        .collect()
}

/// Who counts as the proxy.
fn proxies(config: &CaptureConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    if config.proxy_uids.iter().copied().map(Uid::number).any(|uid| uid == 0) {
        findings.push(Finding::warning(
            "--proxy-uid",
            "root is the proxy's user, so no process that runs as root is captured",
            "run the proxy as a user of its own, or name it by its group (-g) and give -u a number nobody has",
        ));
    }
    if config.proxy_uids.len() > 1 {
        findings.push(Finding::warning(
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
    if config.interception == Interception::None {
        return findings;
    }
    let inbound = config.captures_inbound();
    if inbound && !config.drop_invalid {
        findings.push(Finding::note(
            "--drop-invalid",
            "is off: one packet outside its connection's window resets a captured connection",
            "give --drop-invalid",
        ));
    }
    if inbound
        && !config.vm_interfaces.is_empty()
        && matches!(config.interception, Interception::Tproxy { .. })
    {
        findings.push(Finding::warning(
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
            "--inbound-capture-port",
            "several ports are redirected to one, so a client that calls two of them from one port collides",
            "give a range of ports, if the proxy can listen on one, or use TPROXY",
        ));
    }
    findings
}
