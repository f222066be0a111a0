//! Packets without a process: a reset, an ICMP error, a forwarded packet. They have no owner, so a negated owner match holds for
//! them, in any backend.

use crate::support::engine::kernel;
use crate::support::wait::{TIMEOUT, until_ok};
use crate::support::{namespace, scope, traffic::receive};

use mesh::istio::OWNERSHIP;
use namespace::{Namespace, join};
use rules::{Family, check::check, desired::Desired, parse};
use sidecar_init::{
    backend::Variant,
    engine::{self, Choice, Options},
};
use std::{
    collections::BTreeSet,
    io::ErrorKind,
    net::{SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

const CHOICES: [Choice; 3] =
    [Choice::Nftables, Choice::Iptables(Some(Variant::Nft)), Choice::Iptables(Some(Variant::Legacy))];

fn choices() -> Vec<Choice> {
    CHOICES[..scope::runs(3, 2)].to_vec()
}

/// Timeout for a report: an unexpected one would arrive while the packet is sent.
fn limit(is_to_come: bool) -> Duration {
    if is_to_come { TIMEOUT } else { Duration::from_millis(500) }
}

fn apply(rules: &str, choice: Choice) {
    let text = format!("*mangle\n{rules}COMMIT\n");
    let checked = |family| check(parse::restore(&text, family).expect("rules"), &OWNERSHIP).expect("valid");
    let desired = Desired {
        owner: OWNERSHIP,
        v4: checked(Family::V4),
        v6: Some(checked(Family::V6)),
        routing: BTreeSet::new(),
        stale_flows: None,
        made: None,
    };
    let options = Options::replacing(choice, mesh::OWNERS);
    engine::apply(&mut kernel(OWNERSHIP), &desired, &options).expect("applied");
}

/// Binds an address; a process that another test is starting may briefly hold an earlier socket on it.
fn bound(address: &str) -> UdpSocket {
    until_ok(|| UdpSocket::bind(address).map_err(|error| format!("{address}: {error}")))
}

/// Returns true if a closed port refuses a connection with a reset, which has no owner.
fn is_reset(address: &str, expected: bool) -> bool {
    let address: SocketAddr = address.parse().expect("an address");
    let error = TcpStream::connect_timeout(&address, limit(expected)).expect_err("nothing listens");
    match error.kind() {
        ErrorKind::ConnectionRefused => true,
        ErrorKind::TimedOut => false,
        _ => panic!("{error}"),
    }
}

/// Returns true if a closed port refuses a datagram with an ICMP error, which has no owner.
fn is_unreachable(from: &str, to: &str, expected: bool) -> bool {
    let socket = bound(from);
    socket.connect(to).expect("connected");
    socket.set_read_timeout(Some(limit(expected))).expect("a timeout");
    socket.send(b"?").expect("sent");
    let error = receive(&socket, &mut [0]).expect_err("no answer");
    match error.kind() {
        ErrorKind::ConnectionRefused => true,
        ErrorKind::WouldBlock => false,
        _ => panic!("{error}"),
    }
}

/// Rules that drop some packets from port 9, and true if an ownerless packet passes: earlier rules, owner lists, users and
/// groups.
const ROWS: [(&str, bool); 6] = [
    ("-A ISTIO_A -m owner ! --uid-owner 5 -j DROP\n", false),
    ("-A ISTIO_A -m owner --uid-owner 5 -j DROP\n", true),
    ("-A ISTIO_A -m owner ! --uid-owner 5 -j RETURN\n-A ISTIO_A -j DROP\n", true),
    (
        "-A ISTIO_A -m owner ! --gid-owner 5 -j MARK --set-mark 1\n-A ISTIO_A -m mark --mark 1 -j DROP\n",
        false,
    ),
    (
        "-A ISTIO_A -m owner ! --gid-owner 5 -m owner ! --gid-owner 6 -m owner ! --uid-owner 7 -j RETURN\n\
         -A ISTIO_A -j DROP\n",
        true,
    ),
    (
        "-A ISTIO_A -m owner ! --uid-owner 5 -m owner ! --uid-owner 6 -j DROP\n\
         -A ISTIO_A -m owner --uid-owner 6 -j RETURN\n",
        false,
    ),
];

#[test]
fn reset_and_icmp_error_have_no_owner() {
    for choice in choices() {
        let pod = Namespace::new();
        pod.run(|| {
            assert!(is_reset("127.0.0.9:9", true) && is_unreachable("127.0.0.1:0", "127.0.0.9:9", true));
            assert!(is_reset("[::1]:9", true));
            for (rules, passes) in scope::of(ROWS.to_vec(), 3) {
                let jumps = "-A OUTPUT -p tcp -m tcp --sport 9 -j ISTIO_A\n";
                apply(&format!("{jumps}{rules}"), choice);
                assert_eq!(is_reset("127.0.0.9:9", passes), passes, "{choice:?}: {rules}");
                assert_eq!(is_reset("[::1]:9", passes), passes, "{choice:?}: {rules}");
            }
        });
        pod.run(|| {
            for (rules, passes) in scope::of(ROWS.to_vec(), 3) {
                // Passes the datagram sent there, which has an owner.
                let jumps = "-A OUTPUT -j ISTIO_A\n-A ISTIO_A -p udp -j RETURN\n";
                apply(&format!("{jumps}{rules}"), choice);
                let heard = is_unreachable("127.0.0.1:0", "127.0.0.9:9", passes);
                assert_eq!(heard, passes, "{choice:?}: {rules}");
            }
        });
    }
}

#[test]
fn forwarded_packet_has_no_owner() {
    for choice in choices() {
        let (near, router, far) = (Namespace::new(), Namespace::new(), Namespace::new());
        join((&near, "n0", ["10.0.1.1/24", "fd01::1/64"]), (&router, "n1", ["10.0.1.2/24", "fd01::2/64"]));
        join((&far, "f0", ["10.0.2.1/24", "fd02::1/64"]), (&router, "f1", ["10.0.2.2/24", "fd02::2/64"]));
        near.ip("route add default via 10.0.1.2\nroute add default via fd01::2");
        far.ip("route add default via 10.0.2.2\nroute add default via fd02::2");
        router.set("ipv4/ip_forward", "1");
        router.set("ipv6/conf/all/forwarding", "1");
        for address in ["10.0.2.1:9", "[fd02::1]:9"] {
            let listener = far.run(|| bound(address));
            let unspecified = if address.starts_with('[') { "[::]:9" } else { "0.0.0.0:9" };
            let sender = near.run(|| bound(unspecified));
            let mut sent = 0_u8;
            let mut arrives = |time: Duration| {
                listener.set_read_timeout(Some(time)).expect("a timeout");
                sent += 1;
                sender.send_to(&[sent], address).expect("sent");
                // A packet that waited for its neighbour's address may arrive late.
                let mut heard = [0];
                while receive(&listener, &mut heard).is_ok() {
                    if heard == [sent] {
                        return true;
                    }
                }
                false
            };
            router.run(|| apply("-A POSTROUTING -j ISTIO_A\n-A ISTIO_A -j RETURN\n", choice));
            // The first packets wait for neighbour discovery.
            assert!((0..120).any(|_| arrives(limit(false))), "{address} is not reached");
            for (rules, passes) in scope::of(ROWS.to_vec(), 3) {
                let jump = "-A POSTROUTING -p udp -m udp --sport 9 -j ISTIO_A\n";
                router.run(|| apply(&format!("{jump}{rules}"), choice));
                assert_eq!(arrives(limit(passes)), passes, "{choice:?}: {address}: {rules}");
            }
        }
    }
}
