//! Existing proxies, missing routes, disabled IPv6; and a probe's visibility to other programs.

use crate::diagnose::verify::pod::{DEFAULT, DNS, Found, Pod, Scenario, TPROXY, flags};
use crate::support::namespace::Namespace;
use crate::support::program::BINARY;
use crate::support::rows::rows;
use crate::support::setting::backends;
use mesh::Setting;
use nix::sys::socket::{setsockopt, sockopt};
use std::{
    fs,
    net::{TcpListener, UdpSocket},
};

fn proxy(pod: &Pod) -> (Vec<TcpListener>, UdpSocket) {
    let open = |port: u16| {
        let listener = TcpListener::bind(("::", port)).expect("a free port");
        setsockopt(&listener, sockopt::IpTransparent, &true).expect("CAP_NET_ADMIN");
        listener
    };
    pod.inside.run(|| {
        let agent = UdpSocket::bind(("::", 15053)).expect("a free port");
        ([15001, 15006, 15053].map(open).into(), agent)
    })
}

fn with_a_proxy(scenario: Scenario) {
    for backend in backends() {
        let pod = Pod::with(scenario, backend);
        let listening = proxy(&pod);
        let found = pod.probe(&[]);
        found.all_right(backend);
        for call in found.with_outcome("right").iter().filter(|call| call["expected"]["port"].is_number()) {
            let proof = if call["expected"]["transparent"] == true { "answer" } else { "conntrack" };
            assert_eq!(call["seen"]["proof"], proof, "{backend}: {call:#}");
        }
        pod.run("clean", &[]).with(2, "clean takes no such flags");
        pod.inside.stdout(BINARY, &["clean"]);
        assert_eq!(pod.probe(&[]).code, Some(3), "{backend}: a proxy without rules proves nothing");
        drop(listening);
    }
}

rows! {
    a_proxy_that_listens_is_no_obstacle: with_a_proxy(DEFAULT);
    nor_is_one_with_an_agent: with_a_proxy(DNS);
    nor_is_a_transparent_one: with_a_proxy(TPROXY);
}

/// NAT captures the packet, and a later rule drops it, with a proxy or the probe as listener.
#[test]
fn packet_that_does_not_arrive_is_not_captured() {
    for listens in [false, true] {
        let pod = Pod::with(DEFAULT, "nftables");
        let listening = listens.then(|| proxy(&pod));
        pod.inside.load(
            "table inet other {\n chain in { type filter hook input priority 0; tcp dport 15001 drop; }\n}\n",
        );
        let found = pod.probe(&["--probe-timeout", "2s"]);
        let wrong = found.with_outcome("wrong");
        assert!(!wrong.is_empty() && found.code == Some(3), "{}", found.stderr);
        for call in wrong {
            assert_eq!((&call["expected"]["port"], &call["seen"]["end"]), (&15001.into(), &"nowhere".into()));
        }
        drop(listening);
    }
}

/// The proxy's listener has an excluded port.
const LISTENER_EXCLUDED: Scenario = &[
    (Setting::DualStack, "true"),
    (Setting::InterceptionMode, "TPROXY"),
    (Setting::ServiceCidr, "10.6.0.0/16,fd06::/32"),
    (Setting::InboundPorts, "*"),
    (Setting::InboundPortsExclude, "15006,15021"),
    (Setting::ProxyUid, "1337"),
    (Setting::PodIps, "10.77.0.2,fd77::2"),
];

#[test]
fn a_call_to_the_port_of_a_transparent_listener_may_pass() {
    for backend in backends() {
        let found = Pod::with(LISTENER_EXCLUDED, backend).probe(&[]);
        found.all_right(backend);
        let right = found.with_outcome("right");
        assert!(right.iter().any(|call| call["destination_port"] == 15006), "{backend}: a call");
    }
}

#[test]
fn missing_routes_are_reported_and_the_rest_is_verified() {
    for backend in backends() {
        let alone = Namespace::new();
        let call = |command: &str, more: &[&str]| {
            let flags = flags(DEFAULT);
            let words = [command].into_iter().chain(flags.iter().map(String::as_str));
            alone.output(BINARY, &words.chain(more.iter().copied()).collect::<Vec<_>>(), "")
        };
        call("apply", &["--backend", backend]).success();
        let found = Found::of(&call("verify", &["--output", "json"]));
        assert_eq!((found.code, found.wrong()), (Some(0), String::new()), "{}", found.stderr);
        for call in found.with_outcome("untried") {
            let why = call["untried"].as_str().unwrap_or_default();
            assert!(why.starts_with("no route leads there from this namespace: "), "{call:#}");
            let to = call["destination"].as_str().unwrap_or_default();
            assert!(["192.0.2.1", "2001:db8::1"].contains(&to), "{call:#}");
        }
        for to in ["127.0.0.6", "::6"] {
            let right = found.with_outcome("right");
            assert!(right.iter().any(|call| call["destination"] == to), "{backend}: {to} is verified");
        }
        alone.stdout(BINARY, &["clean"]);
        assert_eq!(Found::of(&call("verify", &["--output", "json"])).code, Some(3), "{backend}");
    }
}

#[test]
fn ipv4_is_verified_with_ipv6_off() {
    for backend in backends() {
        let pod = Pod::new(DEFAULT);
        pod.inside.set("ipv6/conf/all/disable_ipv6", "1");
        pod.apply(backend);
        let found = pod.probe(&[]);
        assert_eq!((found.code, found.wrong()), (Some(0), String::new()), "{}", found.stderr);
        let untried = found.with_outcome("untried");
        assert!(!untried.is_empty() && untried.iter().all(|call| call["family"] == "ipv6"), "{untried:#?}");
        assert!(found.with_outcome("right").iter().all(|call| call["family"] == "ipv4"));
    }
}

/// Correct rules never fail, even if earlier probes' ports are reused or other probes run.
#[test]
fn repeated_and_parallel_probes_succeed() {
    for backend in backends() {
        let pod = Pod::with(DNS, backend);
        for _ in 0..5 {
            let found = std::thread::scope(|scope| {
                let probes: Vec<_> =
                    (0..2).map(|_| scope.spawn(|| pod.probe(&["--probe-timeout", "30s"]))).collect();
                probes.into_iter().map(|probe| probe.join().expect("a probe ends")).collect::<Vec<_>>()
            });
            for found in found {
                found.all_right(backend);
            }
        }
    }
}

/// Packets stop at the first router and have no payload, and conntrack forgets them.
#[test]
fn probes_stop_at_the_first_router() {
    for is_captured in [false, true] {
        let pod = Pod::new(DNS);
        if is_captured {
            pod.apply("nftables");
        }
        pod.outside.set("ipv4/ip_forward", "1");
        pod.outside.set("ipv6/conf/all/forwarding", "1");
        pod.outside.ip(
            "link add beyond type veth peer name nobody\naddr add 10.50.0.1/24 dev beyond\nlink set beyond up\n\
             addr add fd50::1/64 dev beyond nodad\nlink set nobody up\nroute add default via 10.50.0.2\n\
             route add default via fd50::2",
        );
        let counting = "table inet watch {\n\
             chain forward { type filter hook forward priority 0; counter; }\n\
             chain in { type filter hook prerouting priority 0; meta l4proto { tcp, udp } jump calls; }\n\
             chain calls {\n  tcp flags & (fin | psh | ack) != 0 counter comment \"says something\"\n  \
             udp length > 36 counter comment \"says more\"\n  counter comment \"calls\"\n }\n}\n";
        pod.outside.load(counting);
        assert_eq!(pod.probe(&[]).code, Some(if is_captured { 0 } else { 3 }));
        let counted = pod.outside.stdout("nft", &["list", "table", "inet", "watch"]);
        let packets = |of: &str| {
            let line = counted.lines().find(|line| line.contains(of)).expect("the rule");
            line.split("packets ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned)
        };
        assert_eq!(packets("says something").as_deref(), Some("0"), "{counted}");
        assert_eq!(packets("says more").as_deref(), Some("0"), "{counted}");
        assert_ne!(packets("\"calls\"").as_deref(), Some("0"), "calls were made: {counted}");
        let forwarded = counted.lines().skip_while(|line| !line.contains("hook forward")).nth(1);
        assert!(forwarded.is_some_and(|line| line.contains("packets 0 ")), "{counted}");
        if is_captured {
            let flows = pod.inside.run(|| fs::read_to_string("/proc/thread-self/net/nf_conntrack"));
            let flows = flows.expect("a kernel that shows conntrack in /proc");
            assert!(!flows.contains("192.0.2.1") && !flows.contains("10.9.0.10"), "{flows}");
        }
    }
}
