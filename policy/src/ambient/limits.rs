//! What rules of ambient mode do though people expect otherwise. They are the agent's, and stay letter for letter what they
//! are, so that each finds its own where the other has been.

use super::Reason;
use super::defaults::{DNS_PORT, PROXY_MARK};
use super::reason::ROWS;
use crate::finding::Code;
use crate::limit::Limit;
use rules::Protocol;
use rules::simulate::{Direction, Packet};
use std::net::{Ipv4Addr, Ipv6Addr};

/// All limits, in the order in which they are told.
pub(super) const LIMITS: &[Limit] = &[
    Limit {
        code: Code::HostCallsPass,
        reason: of(Reason::Probe),
        concerns: arrives,
        text: "calls of every process of the host come from {} and pass ztunnel by, not those of the kubelet alone",
        remedy: "run nothing on the host, and no pod with hostNetwork, that must not call this pod",
    },
    Limit {
        code: Code::ProbesComeFromElsewhere,
        reason: of(Reason::Probe),
        concerns: arrives,
        text: "probes come from {}, not from the node's address: so whatever filters callers sees them, such as a \
               NetworkPolicy",
        remedy: "let calls from {} in, wherever those to this pod are filtered",
    },
    Limit {
        code: Code::MarkPasses,
        reason: of(Reason::Outbound),
        concerns: |packet, fulfils| !fulfils && is_marked_call(packet),
        text: "a process that may set the mark of its sockets passes ztunnel by with 0x539, as ztunnel does itself",
        remedy: "take CAP_NET_ADMIN and, from Linux 5.17 on, CAP_NET_RAW from the containers of the pod",
    },
    Limit {
        code: Code::OwnDnsByTcp,
        reason: of(Reason::Dns),
        concerns: |packet, _| is_query_to_own_pod(packet),
        text: "queries to the pod itself, such as to 127.0.0.53, go to ztunnel by TCP and stay in the pod by UDP",
        remedy: "let a resolver within the pod listen at 127.0.0.1 or ::1, where neither is captured",
    },
    Limit {
        code: Code::MachineUdpPasses,
        reason: of(Reason::Machine),
        concerns: |_, fulfils| fulfils,
        text: "of what comes from {}, TCP alone goes to ztunnel: DNS queries by UDP pass it by",
        remedy: "let the machine ask by TCP, such as with `options use-vc` in its resolv.conf",
    },
    Limit {
        code: Code::DeadRule,
        reason: of(Reason::Machine),
        concerns: |_, fulfils| fulfils,
        text: "the rule with RETURN for {} is never reached: all that it could meet has gone to ztunnel by the rule before",
        remedy: "leave it: Istio's agent sets it too, and looks for it",
    },
];

const fn of(reason: Reason) -> crate::Reason {
    crate::Reason::of(&ROWS[reason as usize])
}

fn arrives(packet: &Packet, fulfils: bool) -> bool {
    fulfils && !leaves(packet)
}

fn leaves(packet: &Packet) -> bool {
    matches!(packet.direction, Direction::Outbound { .. })
}

fn is_marked_call(packet: &Packet) -> bool {
    leaves(packet) && packet.protocol == Protocol::Tcp && PROXY_MARK.covers(packet.mark)
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
    use crate::ambient::defaults::{PROBE_V4, PROBE_V6};
    use crate::explain::{Pod, Scene, explain};
    use crate::mesh::{Mesh, random::said};
    use rules::simulate::Verdict;
    use rules::{ConnState, Gid, Uid};
    use std::net::SocketAddr;

    /// A packet in words: where it arrives or that it leaves, protocol, mark, ends.
    fn packet(way: &str, protocol: Protocol, mark: u32, source: &str, destination: &str) -> Packet {
        let [source, destination] = [source, destination].map(|text| {
            let address: SocketAddr = text.parse().expect("an address");
            address
        });
        let direction = match way.split_once(' ') {
            Some(("by", interface)) => Direction::Outbound {
                interface: interface.to_owned(),
                uid: Uid::new(1000).expect("a user"),
                gid: Gid::new(1000).expect("a group"),
            },
            Some(("at", interface)) => {
                Direction::Inbound { interface: interface.to_owned(), local: interface != "vm0" }
            }
            _ => panic!("{way}"),
        };
        Packet { direction, protocol, source, destination, mark, connmark: 0, state: ConnState::New }
    }

    /// Where the packet ends, and the limits that it runs into.
    fn check(flags: &[(&str, &str)], packet: &Packet, port: Option<u16>, expected: &[&str]) {
        let (_, capture) = said(Mesh::Ambient, flags).expect("good words");
        let own = ["10.1.0.9", "fd00:1::9"].map(|text| text.parse().expect("an address"));
        let scene = Scene::of_config(&*capture, packet.family(), &Pod::new(own, Some(&*capture)));
        let explained = explain(&scene.view, &scene.routing, packet);
        let ends = match explained.outcome().verdict {
            Verdict::Redirect(ports) => Some(ports.first().number()),
            Verdict::Pass => None,
            other => panic!("{other:?}"),
        };
        let limits = explained.limits();
        let codes: Vec<&str> = limits.iter().map(|limit| limit.code).collect();
        assert_eq!((ends, &codes[..]), (port, expected), "{flags:?}: {packet:?}\n{explained}");
        let text = explained.to_string();
        for limit in &limits {
            assert!(text.contains(&format!("note: {}\n      -> {}\n", limit.text, limit.remedy)), "{text}");
            assert!(!limit.text.contains("{}") && !limit.remedy.contains("{}"), "{limit:?}");
        }
        assert_eq!(explained.report().limits, limits);
        let is_proxys = port.is_none() && packet.mark & 0xfff == 0x539;
        assert_eq!(explained.reason().starts_with("packets with its mark, 0x"), is_proxys, "{explained}");
    }

    #[test]
    fn every_way_has_its_port_and_its_limits() {
        use Protocol::{Tcp, Udp};
        let ways = [
            // What leaves, of the application and of whoever has ztunnel's mark.
            (packet("by eth0", Tcp, 0, "10.1.0.9:4000", "192.0.2.1:80"), Some(15001), &[][..]),
            (packet("by eth0", Tcp, 0x539, "10.1.0.9:4000", "192.0.2.1:80"), None, &["SI023"]),
            (packet("by eth0", Tcp, 0xab539, "10.1.0.9:4000", "192.0.2.1:80"), None, &["SI023"]),
            (packet("by eth0", Udp, 0x539, "10.1.0.9:4000", "192.0.2.53:53"), None, &[]),
            (packet("by eth0", Tcp, 0x538, "10.1.0.9:4000", "192.0.2.1:80"), Some(15001), &[]),
            (packet("by lo", Tcp, 0, "10.1.0.9:4000", "10.1.0.9:80"), None, &[]),
            // Queries.
            (packet("by eth0", Udp, 0, "10.1.0.9:4000", "192.0.2.53:53"), Some(15053), &[]),
            (packet("by eth0", Tcp, 0, "10.1.0.9:4000", "192.0.2.53:53"), Some(15053), &[]),
            (packet("by lo", Udp, 0, "127.0.0.1:4000", "127.0.0.53:53"), None, &["SI024"]),
            (packet("by lo", Tcp, 0, "127.0.0.1:4000", "127.0.0.53:53"), Some(15053), &["SI024"]),
            (packet("by lo", Tcp, 0, "[fd00:1::9]:4000", "[fd00:1::9]:53"), Some(15053), &["SI024"]),
            (packet("by lo", Udp, 0, "127.0.0.1:4000", "127.0.0.1:53"), None, &[]),
            (packet("by lo", Tcp, 0, "[::1]:4000", "[::1]:53"), None, &[]),
            // What arrives: from others, by the tunnel, from the host.
            (packet("at eth0", Tcp, 0, "192.0.2.9:4000", "10.1.0.9:80"), Some(15006), &[]),
            (packet("at eth0", Tcp, 0, "192.0.2.9:4000", "10.1.0.9:15008"), None, &[]),
        ];
        for (packet, port, codes) in &ways {
            check(&[], packet, *port, codes);
        }
        for (address, own) in [(PROBE_V4.to_string(), "10.1.0.9"), (format!("[{PROBE_V6}]"), "[fd00:1::9]")] {
            let (host, own) = (format!("{address}:4000"), format!("{own}:80"));
            check(&[], &packet("at eth0", Tcp, 0, &host, &own), None, &["SI021", "SI022"]);
            let to_host = packet("by eth0", Tcp, 0, &own, &host);
            check(&[], &to_host, None, &[]);
        }
        let vm = [("reroute-virtual-interfaces", "vm+")];
        let call = |protocol| packet("at vm0", protocol, 0, "10.9.0.2:4000", "192.0.2.53:53");
        check(&vm, &call(Tcp), Some(15001), &["SI025", "SI026"]);
        check(&vm, &call(Udp), None, &[]);
    }

    #[test]
    fn limits_are_of_different_kinds() {
        for (at, limit) in LIMITS.iter().enumerate() {
            assert!(LIMITS[..at].iter().all(|other| other.code != limit.code), "{}", limit.code);
            assert_eq!(limit.reason.mesh(), Mesh::Ambient);
            assert!(!limit.text.ends_with('.') && !limit.remedy.ends_with('.'), "{}", limit.code);
        }
    }
}
