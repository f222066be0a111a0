//! What rules of ambient mode do though people expect otherwise. They equal those of Istio's agent, which recognizes ours.

use super::defaults::{DNS_PORT, PROXY_MARK};
use super::rules::Reason;
use crate::limit::Limit;
use rules::Protocol;
use rules::finding::Code;
use rules::simulate::{Direction, Packet};
use std::net::{Ipv4Addr, Ipv6Addr};

/// In the order of reports.
pub(super) const LIMITS: &[Limit] = &[
    Limit {
        code: Code::HostCallsPass,
        reason: Reason::Probe,
        concerns: arrives,
        text: "calls of every process of the host come from {} and pass ztunnel by, not those of the kubelet alone",
        remedy: "run nothing on the host, and no pod with hostNetwork, that must not call this pod",
    },
    Limit {
        code: Code::ProbesComeFromElsewhere,
        reason: Reason::Probe,
        concerns: arrives,
        text: "probes come from {}, not from the node's address: so whatever filters callers sees them, such as a \
               NetworkPolicy",
        remedy: "let calls from {} in, wherever those to this pod are filtered",
    },
    Limit {
        code: Code::MarkPasses,
        reason: Reason::Outbound,
        concerns: |packet, fulfils| {
            !fulfils && leaves(packet) && packet.protocol == Protocol::Tcp && PROXY_MARK.covers(packet.mark)
        },
        text: "a process that may set the mark of its sockets passes ztunnel by with 0x539, as ztunnel does itself",
        remedy: "take CAP_NET_ADMIN and, from Linux 5.17 on, CAP_NET_RAW from the containers of the pod",
    },
    Limit {
        code: Code::OwnDnsByTcp,
        reason: Reason::Dns,
        concerns: |packet, _| is_query_to_own_pod(packet),
        text: "queries to the pod itself, such as to 127.0.0.53, go to ztunnel by TCP and stay in the pod by UDP",
        remedy: "let a resolver within the pod listen at 127.0.0.1 or ::1, where neither is captured",
    },
    Limit {
        code: Code::VirtualMachineUdpPasses,
        reason: Reason::Machine,
        concerns: |_, fulfils| fulfils,
        text: "of what comes from {}, TCP alone goes to ztunnel: DNS queries by UDP pass it by",
        remedy: "let the machine ask by TCP, such as with `options use-vc` in its resolv.conf",
    },
    Limit {
        code: Code::DeadRule,
        reason: Reason::Machine,
        concerns: |_, fulfils| fulfils,
        text: "the rule with RETURN for {} is never reached: all that it could meet has gone to ztunnel by the rule before",
        remedy: "leave it: Istio's agent sets it too, and looks for it",
    },
];

fn arrives(packet: &Packet, fulfils: bool) -> bool {
    fulfils && !leaves(packet)
}

fn leaves(packet: &Packet) -> bool {
    matches!(packet.direction, Direction::Outbound { .. })
}

/// By TCP one address counts as loopback, by UDP all that goes over `lo`.
fn is_query_to_own_pod(packet: &Packet) -> bool {
    let to = packet.destination;
    let over_loopback =
        matches!(&packet.direction, Direction::Outbound { interface, .. } if interface == "lo");
    let is_the_one = to.ip() == Ipv4Addr::LOCALHOST || to.ip() == Ipv6Addr::LOCALHOST;
    over_loopback && !is_the_one && to.port() == DNS_PORT.number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mesh;

    #[test]
    fn limits_are_of_different_kinds() {
        for (at, limit) in LIMITS.iter().enumerate() {
            assert!(LIMITS[..at].iter().all(|other| other.code != limit.code), "{}", limit.code);
            assert_eq!(limit.reason.mesh(), Mesh::Ambient);
            assert!(!limit.text.ends_with('.') && !limit.remedy.ends_with('.'), "{}", limit.code);
        }
    }
}
