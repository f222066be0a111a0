//! `explain --live`: what becomes of packets in a namespace as it stands, whoever set its rules.

use crate::support::namespace;
use crate::support::program::{Run, binary};

mod asleep;
mod forms;
mod printed;

use namespace::Namespace;
use serde_json::Value;

fn bare() -> Namespace {
    let pod = Namespace::new();
    pod.eth0("10.77.0.2/24");
    pod.ip("route add default dev eth0");
    pod
}

fn pod_with(backend: &str, flags: &[&str]) -> Namespace {
    let pod = bare();
    let path = pod.path();
    let call = [&["apply", "--backend", backend, "--network-namespace", &path], flags].concat();
    binary(&call).outcome().success();
    pod
}

fn explained_live(pod: &Namespace, question: &[&str]) -> String {
    let inside = pod.path();
    let call = [&["explain", "--live", "--network-namespace", &inside], question].concat();
    let printed = binary(&call).outcome().success().stdout;
    behind_its_basis(&printed, pod)
}

/// An answer, without the line that says that it goes by the rules there.
fn behind_its_basis(text: &str, pod: &Namespace) -> String {
    let basis = format!("by the rules in namespace {}:\n", pod.path());
    if text.starts_with('{') {
        return text.to_owned();
    }
    text.strip_prefix(&basis).unwrap_or_else(|| panic!("{basis}{text}")).to_owned()
}

#[test]
fn all_traffic_is_the_same_by_flags_and_by_their_rules() {
    let istio =
        ["-i", "10.0.0.0/8", "-x", "10.96.0.0/16", "-b", "*", "-d", "15090,15021", "-o", "22", "-c", "net1"];
    let linkerd =
        ["--mesh", "linkerd", "--inbound-ports-to-ignore", "4190", "--outbound-ports-to-ignore", "443"];
    let ambient =
        ["--mesh", "ambient", "--ipv6=false", "--dns-capture", "--reroute-virtual-interfaces", "vm0"];
    for (flags, rows) in
        [(&istio[..], 15), (&["-i", "*", "-b", "*", "-m", "TPROXY"], 9), (&linkerd, 9), (&ambient, 12)]
    {
        let flags = [flags, &["--pod-ips", "10.77.0.2"]].concat();
        let described = binary(&[&["explain"], &flags[..]].concat()).outcome().success().stdout;
        for backend in ["nftables", "iptables-nft", "iptables-legacy"] {
            let live = explained_live(&pod_with(backend, &flags), &[]);
            let expected = rows_of(&described);
            assert_eq!(rows_of(&live), expected, "{backend} {flags:?}: {live}{described}");
            assert!(expected.len() >= rows, "{described}");
        }
    }
}

/// The rows of a picture, without the options that decide.
fn rows_of(text: &str) -> Vec<String> {
    let (_, rows) = text.split_once("\n\n").expect("a heading");
    let rows = rows.replace("\n                       ", "");
    let words = |row: &str| {
        let end = row.find(" (").filter(|_| row.ends_with(')')).unwrap_or(row.len());
        row[..end].split_whitespace().collect::<Vec<_>>().join(" ")
    };
    rows.lines().map(words).collect()
}

#[test]
fn the_native_table_answers_without_flags() {
    let pod =
        pod_with("nftables", &["-i", "10.0.0.0/8,192.0.2.0/24", "-b", "80,443", "-o", "22,25", "-u", "7"]);
    let outbound = "captured: goes to the proxy's outbound port 15001";
    for (question, expected) in [
        (&["10.0.0.5:443"][..], &*format!("{outbound}, because -i lists 10.0.0.0/8")),
        (&["192.0.2.9:443"], &*format!("{outbound}, because -i lists 192.0.2.0/24")),
        (
            &["10.0.0.5:25"],
            "not captured: goes to 10.0.0.5:25 as it was sent, because -o leaves port 25 alone",
        ),
        (
            &["198.51.100.1:80"],
            "not captured: goes to 198.51.100.1:80 as it was sent, because -i captures only 10.0.0.0/8,192.0.2.0/24",
        ),
        (
            &["--uid", "7", "10.0.0.5:443"],
            "not captured: goes to 10.0.0.5:443 as it was sent, because user 7 is the proxy's (--proxy-uid), whose own calls are never captured",
        ),
        (
            &["--as", "external", "443"],
            "captured: goes to the proxy's inbound port 15006, because -b lists port 443",
        ),
        (
            &["--as", "external", "8080"],
            "not captured: goes to 10.77.0.2:8080 as it was sent, because -b captures only 80,443",
        ),
    ] {
        let text = explained_live(&pod, question);
        assert_eq!(text.lines().next(), Some(expected), "{text}");
    }
    let all = explained_live(&pod, &[]);
    assert!(all.contains("captured     ==> Envoy 15001") && !all.contains("unknown"), "{all}");
    let report: Value =
        serde_json::from_str(&explained_live(&pod, &["--format", "json", "10.0.0.5:443"])).expect("JSON");
    assert_eq!(report["verdict"], "captured");
    assert_eq!(report["decided_by"]["table"], "inet sidecar_init");
}

/// A set holds ports in another form than a rule of iptables does.
#[test]
fn the_native_table_counts_the_ports_of_its_sets() {
    let ports: Vec<String> = (1000..1200).step_by(2).map(|port| port.to_string()).collect();
    let pod = pod_with("nftables", &["-i", "*", "-b", &format!("{},2000-2999", ports.join(","))]);
    let text = explained_live(&pod, &["8080"]);
    let reason = "because -b captures only 1192,1194,1196,1198,2000-2999 and 96 more";
    assert!(text.lines().next().is_some_and(|line| line.ends_with(reason)), "{text}");
}

/// What others have set is walked where it is understood. Where it is not, and could decide, nobody claims to know.
#[test]
fn rules_of_others_are_followed() {
    let chain = |table: &str, rest: &str| format!("table {table} {{ chain c {{ {rest}; }}; }}");
    let redirect = "tcp dport 443 redirect to :9999";
    let elsewhere = "captured: goes to port 9999, because rule 1 of c in table ip other says tcp dport 443";
    let ours = "captured: goes to the proxy's outbound port 15001";
    let dropped = "dropped: never arrives, because";
    // The start of the answer, and of that beside iptables where it is another.
    let cases: [(String, &str, Option<&str>); 16] = [
        (chain("ip other", &format!("type nat hook output priority -150; {redirect}")), elsewhere, None),
        (
            chain("inet nat", &format!("type nat hook output priority -150; {redirect}")),
            "captured: goes to port 9999",
            None,
        ),
        // Of equal ones nobody knows which comes first; ours come before.
        (
            chain("ip other", &format!("type nat hook output priority -100; {redirect}")),
            ours,
            Some("unknown: "),
        ),
        (chain("ip late", &format!("type nat hook output priority -90; {redirect}")), ours, None),
        (chain("ip6 other", &format!("type nat hook output priority -150; {redirect}")), ours, None),
        // The port is another by then.
        (chain("inet wall", "type filter hook output priority 0; tcp dport 443 drop"), ours, None),
        (chain("inet wall", "type filter hook output priority -180; tcp dport 443 drop"), dropped, None),
        (chain("inet wall", "type filter hook output priority 0; tcp dport 15001 drop"), dropped, None),
        (
            chain("inet wall", "type filter hook input priority 0; policy drop"),
            "dropped: never arrives, because that is the policy of c in table inet wall",
            None,
        ),
        (chain("inet wall", "type filter hook input priority 0; policy drop; iif lo accept"), ours, None),
        (chain("inet wall", "type filter hook output priority 0"), ours, None),
        (
            chain(
                "inet wall",
                "type filter hook output priority -180; tcp dport 443 limit rate 1/second drop",
            ),
            "unknown: ",
            None,
        ),
        (
            chain("inet wall", "type filter hook output priority -180; ct mark 9 limit rate 1/second drop"),
            ours,
            None,
        ),
        (chain("inet wall", "type filter hook output priority -301; notrack"), "not captured", None),
        (
            chain("netdev front", "type filter hook ingress device lo priority 0; tcp dport 15001 drop"),
            dropped,
            None,
        ),
        (
            chain("netdev front", "type filter hook ingress device far priority 0; tcp dport 15001 drop"),
            ours,
            None,
        ),
    ];
    for backend in crate::support::setting::backends() {
        for (script, beside_nftables, beside_iptables) in &cases {
            let pod = pod_with(backend, &["-i", "*", "-b", "*"]);
            pod.load(script);
            let expected = beside_iptables.filter(|_| backend != "nftables").unwrap_or(beside_nftables);
            let text = explained_live(&pod, &["10.0.0.5:443"]);
            assert!(text.starts_with(expected), "{backend} {script}: {text}");
        }
    }
}

/// The filter table of iptables, whichever variant holds it, and rules of two variants at once.
#[test]
fn every_table_of_iptables_counts() {
    for variant in ["legacy", "nft"] {
        let pod = pod_with("nftables", &["-i", "*", "-b", "*"]);
        let rules = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp --dport 1:9 -j ACCEPT\nCOMMIT\n";
        pod.fed(&format!("iptables-{variant}-restore"), &["--noflush"], rules);
        let text = explained_live(&pod, &["10.0.0.5:443"]);
        let expected = "dropped: never arrives, because that is the policy of INPUT in table filter";
        assert!(text.starts_with(expected), "{variant}: {text}");
    }
}
