//! Reports of `status` for real namespaces.

use crate::apply::stage::state;
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::setting::{Family, Variant, backends};
use crate::support::traffic::{Call, Identity, Listener, Protocol, Socket};
use crate::takeover::upstream;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::mpsc::channel;

const APPLICATION: Identity = Identity { uid: 1000, gid: 1000 };
const PROXY: Identity = Identity { uid: 1337, gid: 1337 };

const FLAGS: [&str; 13] = [
    "--pod-ips",
    "10.77.0.2",
    "-i",
    "*",
    "-b",
    "*",
    "-d",
    "15090",
    "-o",
    "22",
    "-x",
    "10.0.0.0/8",
    "--drop-invalid",
];

fn pod() -> Namespace {
    let pod = Namespace::new();
    pod.eth0("10.77.0.2/24");
    pod.ip("addr add fd77::2/64 dev eth0 nodad\nlink set far up\nroute add default dev eth0");
    pod
}

pub(crate) fn json(pod: &Namespace) -> Value {
    let text = run(pod, &["status", "--output", "json"]).stdout;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[track_caller]
pub(crate) fn with_finding(status: &Value, code: &str, text: &str) {
    let findings = status["findings"].as_array().expect("a list");
    let says = |finding: &&Value| {
        finding["code"] == code && finding["text"].as_str().is_some_and(|printed| printed.contains(text))
    };
    assert!(findings.iter().any(|finding| says(&finding)), "no {code} with {text:?}: {findings:#?}");
}

fn rows(status: &Value, reason: &str) -> Vec<String> {
    let rows = status["rows"].as_array().expect("a list").iter().filter(|row| row["rule"] == reason);
    let word = |value: &Value| value.as_str().expect("a string").to_owned();
    rows.map(|row| ["part", "verdict", "text"].map(|key| word(&row[key])).join(" ")).collect()
}

fn packets(status: &Value, reason: &str) -> u64 {
    let hits = status["hits"].as_array().expect("a list").iter().filter(|hit| hit["rule"] == reason);
    hits.map(|hit| hit["packets"].as_u64().expect("a number")).sum()
}

fn listen(pod: &Namespace, protocol: Protocol, address: &str, owner: Identity) -> Listener {
    let address = address.parse().expect("an address");
    Listener::start(pod, Socket { protocol, address, owner }, (), channel().0)
}

fn call(pod: &Namespace, to: &str) -> std::io::Result<()> {
    let to = to.parse().expect("an address");
    let call = Call { protocol: Protocol::Tcp, identity: APPLICATION, from: None, mark: None, to };
    call.place(pod).map(drop)
}

#[test]
fn captured_and_excluded_traffic_and_listeners_are_reported() {
    for backend in backends() {
        let pod = pod();
        succeed(&pod, &[&["apply", "--backend", backend], &FLAGS[..]].concat());
        let before = state(&pod);
        let status = json(&pod);
        assert_eq!(before, state(&pod), "reading changes nothing");
        assert_eq!(status["families"], Value::from(vec!["ipv4"]), "{backend}");
        assert_eq!(status["held_by"][0]["backend"], backend);
        for (reason, expected) in [
            ("excluded-outbound-port", "outbound not_captured TCP and UDP port 22"),
            ("excluded-network", "outbound not_captured everything to network 10.0.0.0/8"),
            ("excluded-inbound-port", "inbound not_captured TCP port 15090"),
            ("tunnel-port", "inbound not_captured HBONE, TCP port 15008"),
            ("proxy-outbound", "outbound not_captured calls from Envoy, user or group 1337"),
            ("drop-invalid", "inbound dropped packets of unknown connections"),
            ("outbound-network", "outbound captured all other TCP"),
            ("inbound-port", "inbound captured all other TCP"),
        ] {
            assert_eq!(rows(&status, reason), [expected], "{backend}");
        }
        let ports = status["rows"].as_array().expect("a list").iter().filter_map(|row| row["port"].as_u64());
        let ports: BTreeSet<u64> = ports.collect();
        assert_eq!(Vec::from_iter(ports), [15001, 15006], "{backend}");
        with_finding(&status, "SI005", "fd77::2");
        with_finding(&status, "SI056", "nothing listens");
        assert_eq!(
            call(&pod, "192.0.2.1:80").expect_err("nothing listens").kind(),
            std::io::ErrorKind::ConnectionRefused
        );

        let _outbound = listen(&pod, Protocol::Tcp, "127.0.0.1:15001", PROXY);
        let _inbound = listen(&pod, Protocol::Tcp, "[::]:15006", APPLICATION);
        let counted = packets(&json(&pod), "outbound-network");
        for _ in 0..3 {
            call(&pod, "192.0.2.1:80").expect("the listener answers");
        }
        let status = json(&pod);
        assert_eq!(packets(&status, "outbound-network"), counted + 3, "{backend}");
        assert_eq!(packets(&status, "excluded-network"), 0, "{backend}");
        let listeners = status["listeners"].as_array().expect("a list");
        let at = |port: u16| listeners.iter().find(|one| one["port"] == port).expect("the port");
        assert_eq!(at(15001)["by"][0]["uid"], 1337, "{backend}");
        assert_eq!(at(15001)["by"][0]["pid"], std::process::id(), "{backend}");
        assert_eq!(at(15001)["missing"], Value::Array(Vec::new()), "{backend}");
        assert_eq!(at(15006)["missing"], Value::Array(Vec::new()), "{backend}");
        let text = succeed(&pod, &["status", "--verbose"]).stdout;
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("as user 1000, not the proxy (group 1337, user 1337)"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let record = if backend == "nftables" { "unchanged since" } else { "later changes unknown" };
        assert!(text.contains(record), "{backend}: {text}");
        succeed(&pod, &["clean"]);
        assert_eq!(json(&pod)["capturing"], false, "{backend}");
    }
}

#[test]
fn all_features_and_missing_parts_are_reported() {
    for backend in backends() {
        let pod = pod();
        let flags = [
            "--pod-ips",
            "10.77.0.2,fd77::2",
            "--dual-stack",
            "-m",
            "TPROXY",
            "-i",
            "*",
            "-b",
            "*",
            "--redirect-dns",
            "--capture-all-dns",
        ];
        succeed(&pod, &[&["apply", "--backend", backend], &flags[..]].concat());
        let status = json(&pod);
        assert_eq!(status["families"], Value::from(vec!["ipv4", "ipv6"]), "{backend}");
        assert_eq!(status["rows"][0]["text"], "all TCP; TPROXY keeps the source address", "{backend}");
        assert!(status["directions"].as_array().is_some_and(|all| all.contains(&"dns".into())), "{backend}");
        let codes = |status: &Value| -> Vec<String> {
            let findings = status["findings"].as_array().expect("a list").iter();
            findings.map(|finding| finding["code"].as_str().expect("a word").to_owned()).collect()
        };
        assert!(codes(&status).iter().all(|code| code == "SI056"), "{backend}: {status:#}");
        // A listener without IP_TRANSPARENT gets no TPROXY packets.
        let inbound = listen(&pod, Protocol::Tcp, "[::]:15006", PROXY);
        with_finding(&json(&pod), "SI057", "without IP_TRANSPARENT");
        inbound.make_transparent();
        let findings = json(&pod)["findings"].to_string();
        assert!(!findings.contains("IP_TRANSPARENT"), "{backend}: {findings}");
        pod.ip("rule del fwmark 1337\naddr del ::6/128 dev lo");
        let status = json(&pod);
        with_finding(&status, "SI052", "no policy rule routes that mark");
        with_finding(&status, "SI052", "::6 is not on lo");
    }
}

/// Other programs' rules before or after the mesh's, and incomplete rules.
#[test]
fn rules_of_others_and_lost_jumps_are_seen() {
    for variant in [Variant::Nft, Variant::Legacy] {
        let pod = pod();
        succeed(
            &pod,
            &[&["apply", "--backend", &format!("iptables-{}", variant.name())], &FLAGS[..]].concat(),
        );
        let iptables = variant.program(Family::V4, "");
        pod.stdout(&iptables, &["-t", "nat", "-I", "OUTPUT", "-p", "tcp", "-j", "ACCEPT"]);
        pod.stdout(&iptables, &["-A", "INPUT", "-p", "tcp", "--dport", "9999", "-j", "DROP"]);
        let status = json(&pod);
        with_finding(&status, "SI047", "sees packets before sidecar-init's rules");
        with_finding(&status, "SI048", "new should be captured (-i) and is not captured");
        with_finding(&status, "SI049", "may drop packets");
        pod.stdout(&iptables, &["-t", "nat", "-D", "PREROUTING", "-p", "tcp", "-j", "ISTIO_INBOUND"]);
        let status = json(&pod);
        with_finding(&status, "SI051", "no rule jumps to ISTIO_INBOUND");
        assert_eq!(rows(&status, "inbound-port"), [""; 0], "{status:#}");
    }
    let pod = pod();
    succeed(&pod, &[&["apply", "--backend", "nftables"], &FLAGS[..]].concat());
    let foreign = "table ip other {
  chain out { type nat hook output priority -150; tcp dport 80 dnat to 10.9.9.9; }
  chain drops { type filter hook input priority 0; tcp dport 9999 drop; }
}
";
    pod.load(foreign);
    let status = json(&pod);
    with_finding(&status, "SI047", "may send packets elsewhere before our rules see them");
    with_finding(&status, "SI049", "may drop packets");
}

#[test]
fn upstream_rules_are_reported() {
    for variant in [Variant::Nft, Variant::Legacy] {
        let pod = pod();
        let flags = ["--pod-ips", "10.77.0.2", "-i", "*", "-b", "*", "-d", "15090", "-c", "net1", "-o", "22"];
        upstream::set(&pod, variant, &flags);
        let status = json(&pod);
        assert_eq!(status["held_by"][0]["program"], "istio-iptables", "{status:#}");
        for (reason, expected) in [
            ("excluded-interface", "inbound not_captured everything that arrives by interface net1"),
            ("excluded-interface", "outbound not_captured everything that leaves by interface net1"),
            ("excluded-inbound-port", "inbound not_captured TCP port 15090"),
            ("excluded-outbound-port", "outbound not_captured TCP and UDP port 22"),
        ] {
            assert!(rows(&status, reason).iter().any(|row| row == expected), "{expected}: {status:#}");
        }
        assert_eq!(status["capturing"], true);
    }
    let pod = pod();
    upstream::set_native(&pod);
    let status = json(&pod);
    assert_eq!(status["families"], Value::from(vec!["ipv4", "ipv6"]), "{status:#}");
    assert_eq!(status["held_by"][0]["program"], "istio-iptables");
    assert_eq!(rows(&status, "tunnel-port"), ["inbound not_captured HBONE, TCP port 15008"]);
    assert_eq!(
        rows(&status, "proxy-outbound"),
        ["outbound not_captured calls from Envoy, user or group 1337"]
    );
    let _outbound = listen(&pod, Protocol::Tcp, "127.0.0.1:15001", PROXY);
    call(&pod, "192.0.2.1:80").expect("the listener answers");
    assert_eq!(packets(&json(&pod), "outbound-network"), 1);
}
