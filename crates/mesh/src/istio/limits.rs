//! Cautions: valid settings whose effect may surprise their author, or that have none, for `lint`.

use crate::Setting;
use crate::limit::Caution;
use rules::finding::Code;

/// In the order in which they are reported.
pub(super) const CAUTIONS: &[Caution] = &[
    Caution {
        code: Code::InvalidPackets,
        is_warning: false,
        setting: Setting::DropInvalid,
        applies: |facts| facts.lets_invalid_in(),
        text: "is off: one packet outside its connection's window resets a captured connection",
        remedy: "give {--drop-invalid}",
    },
    Caution {
        code: Code::VmWithTproxy,
        is_warning: true,
        setting: Setting::VmInterfaces,
        applies: |facts| facts.captures_inbound && facts.is_transparent() && facts.has_machines(),
        text: "with TPROXY, what virtual machines send is captured as inbound, and the answers to what is excluded are \
               taken for the proxy's own, so that those connections never come about",
        remedy: "use {-m} REDIRECT",
    },
    Caution {
        code: Code::PortsCollide,
        is_warning: false,
        setting: Setting::InboundCapturePort,
        applies: |facts| facts.joins_ports() && !facts.is_transparent(),
        text: "several ports are redirected to one, so a client that calls two of them from one port collides",
        remedy: "give a range of ports, if the proxy can listen on one, or use TPROXY",
    },
    Caution::unused(
        Setting::InboundPortsExclude,
        |facts| !facts.is(Setting::InboundPorts, "*"),
        "it excludes ports from {-b} '*', which is not given",
        "drop the option, or give {-b} '*' to capture all other ports",
    ),
    Caution::unused(
        Setting::OutboundPorts,
        |facts| facts.is(Setting::ServiceCidr, "*"),
        "it lists ports that {-i} '*' captures anyway",
        "drop the option",
    ),
    Caution::unused(
        Setting::OwnerGroupsExclude,
        |facts| facts.raw.get(Setting::OwnerGroups).is_some() && !facts.is(Setting::OwnerGroups, "*"),
        "it excludes groups from all groups, but a list of groups is captured",
        "drop the variable",
    ),
    Caution::unused(
        Setting::TproxyMark,
        |facts| !facts.is(Setting::InterceptionMode, "TPROXY"),
        "it marks packets in TPROXY mode, which is not on",
        "drop the option, or give {-m} TPROXY",
    ),
    Caution::unused(
        Setting::TproxyRouteTable,
        |facts| !facts.is(Setting::InterceptionMode, "TPROXY"),
        "it routes packets in TPROXY mode, which is not on",
        "drop the option, or give {-m} TPROXY",
    ),
    Caution::unused(
        Setting::DnsServers,
        |facts| !facts.raw.is_on(Setting::RedirectDns),
        "it names servers, but DNS is not captured",
        "drop the option, or give {--redirect-dns}",
    ),
    Caution::unused(
        Setting::DnsServers,
        |facts| facts.raw.is_on(Setting::RedirectDns) && facts.raw.is_on(Setting::CaptureAllDns),
        "it names servers, but queries to any server are captured",
        "drop the option, or {--capture-all-dns}",
    ),
    Caution::unused(
        Setting::ServiceExcludeCidr,
        |facts| !facts.has(Setting::ServiceCidr) && !facts.has(Setting::OutboundPorts),
        "it leaves networks alone, but no outbound network is captured",
        "drop the option, or give {-i}",
    ),
];
