//! Listings in the styles of other programs, against the kernel that holds the same text: foreign chains,
//! comments, LOG, MASQUERADE, DNAT, REJECT, a firewall's `filter`.
//!
//! Words such as `SERVICE`, `ELSEWHERE_443` and `LOOP` stand for addresses of the map, `REJECTED` for the family's answer.

use super::calls::{Packet, Sender};
use super::oracle::{Landed, family, land, plain, routing, saved};
use crate::support::address::Place;
use crate::support::pod::{Answerer, Pod};
use crate::support::random::Random;
use crate::support::rows::rows;
use crate::support::scope;
use crate::support::setting::{Family, Variant};
use crate::support::traffic::Protocol;
use diagnose::explain;
use rules::parse;
use rules::simulate::{Outcome, Routing, Verdict, View, walk};

/// Each with a name for the message.
const LISTINGS: [(&str, &str); 6] = [
    (
        "a proxy that names its rules by comments and skips ports by a chain of their own",
        r#"*nat
:MESH_INIT_REDIRECT - [0:0]
:MESH_INIT_OUTPUT - [0:0]
-A PREROUTING -m comment --comment "mesh/install-init/1718" -j MESH_INIT_REDIRECT
-A OUTPUT -m comment --comment "mesh/install-output/1718" -j MESH_INIT_OUTPUT
-A MESH_INIT_REDIRECT -p tcp -m multiport --dports 4190,15008,53 -m comment --comment "mesh/ignore-port-4190,15008" -j RETURN
-A MESH_INIT_REDIRECT -p tcp -m comment --comment "it's the rest" -j REDIRECT --to-ports 15006
-A MESH_INIT_OUTPUT -m owner --uid-owner 1337 -m comment --comment "mesh/ignore-proxy-user-id" -j RETURN
-A MESH_INIT_OUTPUT -o lo -m comment --comment "mesh/ignore-loopback" -j RETURN
-A MESH_INIT_OUTPUT -p tcp -m multiport --dports 443,9000:9100 -j RETURN
-A MESH_INIT_OUTPUT -p tcp -m comment --comment "mesh/redirect-all-outgoing" -j REDIRECT --to-ports 15001
COMMIT
"#,
    ),
    (
        "a mesh with gotos and a log line before its redirect",
        r#"*nat
:OUT - [0:0]
:OUT_REDIRECT - [0:0]
:IN - [0:0]
-A PREROUTING -p tcp -j IN
-A OUTPUT -p tcp -g OUT
-A OUTPUT -p tcp -j REDIRECT --to-ports 15006
-A OUT -d LOOP -j RETURN
-A OUT -s SIX -o lo -j RETURN
-A OUT -m owner --gid-owner 2000 -j ACCEPT
-A OUT -o lo -m owner ! --uid-owner 1337 -j RETURN
-A OUT -m owner --uid-owner 1337 -j RETURN
-A OUT -m limit --limit 1/sec -j LOG --log-prefix "out - new: " --log-level 7
-A OUT -j OUT_REDIRECT
-A OUT_REDIRECT -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j REDIRECT --to-ports 15001
-A IN ! -p udp -m conntrack --ctstate NEW -j REDIRECT --to-ports 15006
COMMIT
"#,
    ),
    (
        "a proxy of services: marks, DNAT and MASQUERADE",
        r#"*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
:KUBE-SEP-A - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE
-A KUBE-SERVICES -d SERVICE -p tcp -m comment --comment "default/a:http cluster IP" -m tcp --dport 8080 -j KUBE-SVC-A
-A KUBE-SERVICES -s PODHOST -m addrtype --dst-type LOCAL -p tcp -m tcp --dport 443 -j DNAT --to-destination ELSEWHERE_443
-A KUBE-SVC-A ! -s PODHOST -j KUBE-MARK-MASQ
-A KUBE-SVC-A -j KUBE-SEP-A
-A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination ELSEWHERE_9080
COMMIT
"#,
    ),
    (
        "a container engine's resolver",
        r#"*nat
:DOCKER_OUTPUT - [0:0]
:DOCKER_POSTROUTING - [0:0]
-A OUTPUT -d SERVICE -j DOCKER_OUTPUT
-A POSTROUTING -d SERVICE -j DOCKER_POSTROUTING
-A DOCKER_OUTPUT -d SERVICE -p tcp -m tcp --dport 53 -j DNAT --to-destination POD_8080
-A DOCKER_OUTPUT -d SERVICE -p udp -m udp --dport 53 -j DNAT --to-destination POD_8080
-A DOCKER_POSTROUTING -s SERVICE -p tcp -m tcp --sport 45337 -j SNAT --to-source :53
COMMIT
"#,
    ),
    (
        "a firewall that rejects, and a redirect that it sees in its old way",
        r#"*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:f2b-sshd - [0:0]
-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p tcp -m multiport --dports 9080 -j f2b-sshd
-A INPUT -i lo -j ACCEPT
-A INPUT -p udp -j REJECT --reject-with REJECTED
-A OUTPUT -o eth0 -p tcp -d LOOP -m owner --uid-owner 2000 -j REJECT --reject-with REJECTED
-A OUTPUT -o lo -p tcp -m tcp --dport 15001 -j REJECT --reject-with REJECTED
-A f2b-sshd -i eth0 -j REJECT --reject-with REJECTED
-A f2b-sshd -j RETURN
COMMIT
*nat
-A OUTPUT -d ELSEWHERE -p tcp -j REDIRECT --to-ports 15001
COMMIT
"#,
    ),
    (
        "untracked traffic, which nat never sees",
        r#"*raw
-A OUTPUT -p udp -m udp --dport 53 -j NOTRACK
-A PREROUTING -p udp -m udp --sport 53 -j CT --notrack
-A OUTPUT -d SERVICE -p tcp -m tcp --dport 9080 -j CT --notrack
COMMIT
*nat
-A OUTPUT -p udp -m udp --dport 53 -j REDIRECT --to-ports 15053
-A OUTPUT -d SERVICE -p tcp -j REDIRECT --to-ports 15001
COMMIT
*mangle
-A INPUT -p tcp -m conntrack ! --ctstate NEW,ESTABLISHED -m tcp --dport 443 -j DROP
COMMIT
"#,
    ),
];

/// The text for a family.
fn printed(text: &str, of: Family) -> String {
    let bits = if of == Family::V4 { 32 } else { 128 };
    let host = |place: Place| format!("{}/{bits}", place.ip(of));
    let rejected = if of == Family::V4 { "icmp-port-unreachable" } else { "icmp6-port-unreachable" };
    text.replace("ELSEWHERE_443", &Place::Elsewhere.at(of, 443).to_string())
        .replace("ELSEWHERE_9080", &Place::Elsewhere.at(of, 9080).to_string())
        .replace("POD_8080", &Place::Pod.at(of, 8080).to_string())
        .replace("PODHOST", &host(Place::Pod))
        .replace("SERVICE -", &format!("{} -", host(Place::Service)))
        .replace("ELSEWHERE -", &format!("{} -", host(Place::Elsewhere)))
        .replace("LOOP", &host(Place::Loopback))
        .replace("SIX", &host(Place::Six))
        .replace("REJECTED", rejected)
}

const PACKETS: usize = 60;

fn check(variant: Variant, of: Family) {
    let setting = plain(variant, of);
    let mut random = Random::new(5);
    for (name, text) in LISTINGS {
        let text = printed(text, of);
        let pod = Pod::new(setting);
        if of == Family::V6 {
            pod.inside.ip(&format!("addr add {}/128 dev lo", Place::Six.ip(of)));
        }
        pod.inside.wait_for_addresses();
        let program = variant.program(of, "-restore");
        pod.inside.output(&program, &[], &text).with(0, &format!("{name}\n{text}"));
        let view = |text: &str| View::of_listing(parse::listing(text, family(setting)).expect("a listing"));
        let views = [view(&text), view(&saved(&pod, setting))];
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            pod.listen(protocol, Place::Pod, 8080);
            pod.listen(protocol, Place::Elsewhere, 443);
            pod.listen(protocol, Place::Elsewhere, 9080);
        }
        let packets = (0..PACKETS).map(|_| Packet::random_without_vm(&mut random)).collect();
        for packet in scope::of(packets, 15) {
            compare(&pod, &views, &routing(of, None), &packet, name);
        }
    }
}

fn compare(pod: &Pod, views: &[View], routing: &Routing, packet: &Packet, name: &str) {
    let simulated = packet.simulated(pod.setting.family);
    let landed = land(pod, packet);
    for view in views {
        let outcome = walk(view, routing, &simulated, &mut ());
        assert!(
            agrees(&outcome, &landed, packet, pod.setting.family),
            "{name}, {}\n{packet:?}\nlanded: {landed:?}\nsimulated: {outcome:?}\n{}\n{}",
            pod.setting,
            explain::explain(view, routing, &simulated),
            pod.rules(),
        );
    }
}

fn agrees(outcome: &Outcome, landed: &Landed, packet: &Packet, of: Family) -> bool {
    let [arrival] = landed.arrivals.as_slice() else {
        return landed.arrivals.is_empty() && outcome.verdict == Verdict::Drop;
    };
    let port = match arrival.listener {
        Answerer::Outbound => Some(15001),
        Answerer::Inbound => Some(15006),
        Answerer::Agent => Some(15053),
        Answerer::Destination => None,
    };
    match outcome.verdict {
        Verdict::Pass => port.is_none() && arrival.local == outcome.translated.unwrap_or(packet.to(of)),
        Verdict::Redirect(ports) => port == Some(ports.first().number()),
        Verdict::Tproxy(_) | Verdict::Drop | Verdict::Unknown => false,
    }
}

impl Packet {
    fn random_without_vm(random: &mut Random) -> Packet {
        let nothing = crate::support::configurations::Configuration { parts: Vec::new() };
        let packet = Packet::random(random, &nothing);
        assert!(packet.from != Sender::Vm, "no VM is there");
        packet
    }
}

rows! {
    other_programs_legacy_v4: check(Variant::Legacy, Family::V4);
    other_programs_legacy_v6: check(Variant::Legacy, Family::V6);
    other_programs_nft_v4: check(Variant::Nft, Family::V4);
    other_programs_nft_v6: check(Variant::Nft, Family::V6);
}
