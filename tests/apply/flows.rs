//! DNS flows older than a change: stale flows are captured afterwards, captured flows survive. `takeover::moves` covers
//! connections.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use crate::apply::stage::call;
use crate::support::address::{Place, RESOLVERS};
use crate::support::namespace::succeed;
use crate::support::pod::{APP, Answerer, Pod};
use crate::support::scope;
use crate::support::setting::{Family, Mode, Setting, Variant};
use crate::support::traffic::{Call, Protocol, receive};

const COMMON: [&str; 9] = ["--dual-stack", "-u", "1337", "-g", "1337", "-i", "*", "-b", "*"];
const DNS: [&str; 3] = ["--redirect-dns", "--dns-servers", RESOLVERS];
const MORE: [&str; 4] = ["--drop-invalid", "-d", "15090", "--iptables-trace-logging"];
/// Interval between queries without an answer.
const RETRY: Duration = Duration::from_secs(5);
const TRIES: u32 = 6;

#[test]
fn a_stale_dns_flow_is_captured() {
    let captures = [&DNS[..], &["--redirect-dns", "--capture-all-dns"]];
    let all = settings().flat_map(|(variant, family)| captures.map(|capture| (variant, family, capture)));
    for (variant, family, capture) in scope::of(all.collect(), 4) {
        stale(Setting { variant, family, mode: Mode::Redirect }, capture);
    }
}

fn settings() -> impl Iterator<Item = (Variant, Family)> {
    let variants = [Variant::Legacy, Variant::Nft, Variant::Native].into_iter();
    variants.flat_map(|variant| Family::BOTH.map(|family| (variant, family)))
}

fn stale(setting: Setting, capture: &[&str]) {
    let pod = Pod::new(setting);
    // Conntrack tracks a namespace only if a rule requires it.
    let watcher = if setting.variant == Variant::Native { Variant::Nft } else { setting.variant };
    let iptables = watcher.program(setting.family, "");
    let wait: &[&str] = if setting.variant == Variant::Legacy { &["-w", "60"] } else { &[] };
    let rule = ["-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT"];
    pod.inside.stdout(&iptables, &[wait, &rule].concat());
    pod.listen(Protocol::Udp, Place::Resolver, 53);
    pod.listen(Protocol::Udp, Place::Resolver, 5353);
    let (dns, other) = (udp(&pod, 53), udp(&pod, 5353));
    assert_eq!([query(&pod, &dns), query(&pod, &other)], [Answerer::Destination; 2], "{setting}: before");
    let known = flows(&pod);
    assert!(known.contains("dport=53 ") && known.contains("dport=5353 "), "{setting}: {known}");
    let arguments = call("apply", setting.variant, &[&COMMON[..], capture, &["--output", "json"]].concat());
    let printed = succeed(&pod.inside, &arguments).stdout;
    assert!(printed.contains("\"forgotten_flows\": 1"), "{setting}: {printed}");
    assert!(!flows(&pod).contains("dport=53 "), "{setting}: the flow is still known");
    assert_eq!(query(&pod, &dns), Answerer::Agent, "{setting}: the stale flow\n{}", pod.rules());
    assert_eq!(query(&pod, &other), Answerer::Destination, "{setting}: a flow to another port");
    // A second run keeps the flow, which is captured now.
    let printed = succeed(&pod.inside, &arguments).stdout;
    assert!(printed.contains("\"forgotten_flows\": 0"), "{setting}: {printed}");
    assert_eq!(query(&pod, &dns), Answerer::Agent, "{setting}: the same flow later");
}

const CHANGES: [[Mode; 2]; 4] = [
    [Mode::Redirect, Mode::Redirect],
    [Mode::Redirect, Mode::Tproxy],
    [Mode::Tproxy, Mode::Redirect],
    [Mode::Tproxy, Mode::Tproxy],
];

#[test]
fn captured_dns_flows_survive_a_change() {
    let all = settings().flat_map(|(variant, family)| CHANGES.map(|change| (variant, family, change)));
    for (variant, family, change) in scope::of(all.collect(), 5) {
        survive(variant, family, change);
    }
}

fn survive(variant: Variant, family: Family, [old, new]: [Mode; 2]) {
    let setting = Setting { variant, family, mode: Mode::Tproxy };
    let what = format!("{setting}: {} to {}", old.name(), new.name());
    let pod = Pod::new(setting);
    let apply = |mode: Mode, more: &[&str]| {
        let flags = [&COMMON[..], &DNS, &["-m", mode.name()], more].concat();
        succeed(&pod.inside, &call("apply", variant, &flags));
    };
    pod.listen(Protocol::Udp, Place::Resolver, 53);
    apply(old, &[]);
    let dns = udp(&pod, 53);
    assert_eq!(query(&pod, &dns), Answerer::Agent, "{what}: before");
    apply(new, &MORE);
    assert_eq!(query(&pod, &dns), Answerer::Agent, "{what}: the DNS flow\n{}", pod.rules());
    // New flows are captured as before.
    assert_eq!(query(&pod, &udp(&pod, 53)), Answerer::Agent, "{what}: a new DNS flow");
}

fn udp(pod: &Pod, port: u16) -> UdpSocket {
    let family = pod.setting.family;
    let (from, to) = (Some(Place::Pod.at(family, 0)), Place::Resolver.at(family, port));
    let call = Call { protocol: Protocol::Udp, identity: APP, from, mark: None, to };
    let socket = call.open(&pod.inside).map(UdpSocket::from);
    let socket = socket.unwrap_or_else(|error| panic!("{}: a socket: {error}", pod.setting));
    socket.set_read_timeout(Some(RETRY)).expect("a socket takes a time limit");
    socket
}

/// Sends a query on the same socket, again after a loss as resolvers do, and returns the answering endpoint.
fn query(pod: &Pod, socket: &UdpSocket) -> Answerer {
    let mut tries = 0..TRIES;
    let answered = loop {
        let answered = socket.send(b"?").and_then(|_| receive(socket, &mut [0; 1]));
        let is_lost = answered.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        if !is_lost || tries.next().is_none() {
            break answered;
        }
    };
    let arrivals = pod.arrivals();
    match (answered, arrivals.as_slice()) {
        (Ok(_), [first, more @ ..]) if more.iter().all(|again| again.listener == first.listener) => {
            first.listener
        }
        (answered, arrivals) => panic!("{}: {answered:?}, {arrivals:?}\n{}", pod.setting, pod.rules()),
    }
}

fn flows(pod: &Pod) -> String {
    pod.inside
        .run(|| std::fs::read_to_string("/proc/thread-self/net/nf_conntrack"))
        .expect("conntrack lists its flows")
}
