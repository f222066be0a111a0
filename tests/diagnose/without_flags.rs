//! Questions without flags: `explain`, `lint`, `diff` and `verify` answer by what is there, and say so. Names are resolved,
//! routes are asked of the kernel, and no address is made up.

use crate::support::folder::Folder;
use crate::support::namespace;
use crate::support::program::{BINARY, Outcome, Run};

use namespace::Namespace;
use serde_json::Value;
use std::process;

/// Every way by which rules come into a pod; the last two leave no note of their settings.
const MAKERS: [&str; 4] = ["nftables", "iptables-nft", "iptables-legacy", "istio-iptables"];

fn pod() -> Namespace {
    let pod = Namespace::new();
    for (name, far, network) in [("eth0", "far0", "10.77.0"), ("eth1", "far1", "10.88.0")] {
        pod.ip(&format!(
            "link add {name} type veth peer name {far}\nlink set {name} up\nlink set {far} up\naddr add {network}.2/24 dev {name}"
        ));
    }
    pod.ip("route add default via 10.77.0.1");
    pod
}

/// The same with rules by one of the [`MAKERS`].
fn pod_by(maker: &str, flags: &[&str]) -> Namespace {
    let pod = pod();
    match maker {
        // As istio-iptables sets them: its own words, fed to iptables-restore.
        "istio-iptables" => {
            let text = stdout(&pod, &[&["render", "--format", "iptables"], flags].concat(), 0);
            let v4 = text.split("# ip6tables-restore").next().expect("the part for IPv4");
            pod.fed("iptables-nft-restore", &["--noflush"], v4);
        }
        backend => {
            stdout(&pod, &[&["apply", "--backend", backend], flags].concat(), 0);
        }
    }
    pod
}

fn printed(output: Outcome, words: &[&str], code: i32) -> String {
    let output = output.with(code, &words.join(" "));
    if code == 2 { output.stderr } else { output.stdout }
}

/// What a call prints inside; of bad input, what it complains about.
fn stdout(pod: &Namespace, words: &[&str], code: i32) -> String {
    printed(pod.output(BINARY, words, ""), words, code)
}

fn lines(text: &str) -> [&str; 2] {
    let mut lines = text.lines();
    [(); 2].map(|()| lines.next().unwrap_or_default())
}

const HERE: &str = "by the rules in this network namespace:";
const ALL: [&str; 6] = ["-b", "*", "-i", "*", "-d", "15090"];

#[test]
fn explain_asks_the_rules_that_are_there() {
    for maker in MAKERS {
        let pod = pod_by(maker, &ALL);
        let path = pod.path();
        for (port, verdict) in
            [("8080", "captured: goes to the proxy's inbound port 15006"), ("15090", "not captured: ")]
        {
            let inside = stdout(&pod, &["explain", port], 0);
            let [basis, answer] = lines(&inside);
            assert!(basis == HERE && answer.starts_with(verdict), "{maker}: {inside}");
            // From elsewhere, by the name that was given.
            let words = ["explain", "--network-namespace", &path, port];
            let outside = process::Command::new(BINARY).args(words).outcome();
            let outside = printed(outside, &words, 0);
            let [basis, answer] = lines(&outside);
            assert_eq!(basis, format!("by the rules in namespace {path}:"), "{maker}");
            assert!(answer.starts_with(verdict), "{maker}: {outside}");
        }
    }
}

/// Variables of the pod, and flags about the packet, the host or the answer, describe no rules; flags of capture do.
#[test]
fn what_describes_rules_decides_which_are_asked() {
    let pod = pod_by("nftables", &ALL);
    let variables = ["ISTIO_META_DNS_CAPTURE=true", "ISTIO_INBOUND_PORTS=80", "PROXY_UID=7"];
    let kind = |words: &[&str]| {
        let call = [&variables[..], &[BINARY, "explain", "--format", "json"], words].concat();
        let answer = printed(pod.output("env", &call, ""), words, 0);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        (
            answer["basis"]["kind"].as_str().expect("a word").to_owned(),
            answer["verdict"].as_str().map(str::to_owned),
        )
    };
    for words in [
        &["8080"][..],
        &["--dns-servers", "10.0.0.10", "--iptables-version", "1.8.9", "--mesh", "istio", "8080"],
        &["--as", "app", "--uid", "1000", "--mark", "7", "10.0.0.5:443"],
        &["--live", "-b", "80", "8080"],
    ] {
        assert_eq!(kind(words), ("rules".to_owned(), Some("captured".to_owned())), "{words:?}");
    }
    for words in [
        &["-b", "80", "8080"][..],
        &["-b", "", "8080"],
        &["--mesh", "linkerd", "--ports-to-redirect", "80", "8080"],
    ] {
        assert_eq!(kind(words), ("flags".to_owned(), Some("not_captured".to_owned())), "{words:?}");
    }
}

#[test]
fn an_empty_namespace_is_told_as_it_is() {
    let bare = Namespace::new();
    let text = stdout(&bare, &["explain", "8080"], 0);
    let expected = "by the rules in this network namespace:\n\
                    nothing arrives: no interface but lo has an address here; by the rules alone:\n\
                    not captured: goes to the pod's address:8080 as it was sent, because there are no rules here\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(!text.contains("eth0"), "no interface is made up: {text}");
    let pod = pod();
    let text = stdout(&pod, &["explain", "8080"], 0);
    let expected = "not captured: goes to 10.77.0.2:8080 as it was sent, because there are no rules here";
    assert_eq!(lines(&text), [HERE, expected]);
    for command in ["lint", "diff"] {
        let text = stdout(&pod, &[command], 2);
        assert!(
            text.contains("no rules of a mesh are here; give the flags of apply, or -f FILE"),
            "{command}: {text}"
        );
    }
    let text = stdout(&pod, &["verify"], 1);
    assert_eq!(
        lines(&text),
        [HERE, "Nothing is captured: no rule here sends traffic to the proxy of a mesh."]
    );
}

#[test]
fn the_settings_that_are_noted_are_those_that_are_meant() {
    let noted = "by the settings noted in this network namespace (-b '*' -d 15090 -i '*'):";
    let pod = pod_by("nftables", &ALL);
    let from = "from the rules in this network namespace to ";
    let to_noted = noted.replace("by ", from);
    let text = stdout(&pod, &["diff"], 0);
    assert_eq!(lines(&text), [&to_noted, "Rules are in place (nftables)"]);
    assert_eq!(text, stdout(&pod, &["check"], 0), "the former name");
    let report: Value = serde_json::from_str(&stdout(&pod, &["diff", "--format", "json"], 0)).expect("JSON");
    assert_eq!((&report["equal"], &report["backend"]), (&true.into(), &"nftables".into()));
    let text = stdout(&pod, &["lint", "--notes"], 0);
    assert!(text.starts_with(noted) && text.contains("SI013 --drop-invalid"), "{text}");
    assert!(stdout(&pod, &["verify"], 0).starts_with(noted));
    // What somebody has changed since is no longer as noted.
    pod.stdout(
        "nft",
        &["insert", "rule", "inet", "sidecar_init", "nat_ISTIO_OUTPUT", "tcp", "dport", "443", "return"],
    );
    let text = stdout(&pod, &["diff"], 3);
    assert!(text.starts_with(&to_noted) && !text.contains("tcp dport 443"), "{text}");
    assert!(text.contains("outbound TCP to port 443: not captured -> captured\n"), "{text}");
    assert!(text.ends_with("Rules differ: 1 extra (--rules prints them)\n"), "{text}");
    let text = stdout(&pod, &["diff", "--rules"], 3);
    assert!(text.contains("\n-tcp dport 443 return  # extra\n"), "{text}");
}

#[test]
fn without_a_note_the_rules_speak_or_flags_are_asked_for() {
    for maker in &MAKERS[1..] {
        let pod = pod_by(maker, &ALL);
        let text = stdout(&pod, &["diff"], 2);
        let expected = "settings: no flag gives any, and none are noted beside the rules that are here (Istio's sidecar: ";
        assert!(
            text.contains(expected) && text.contains("give the flags of apply, or -f FILE"),
            "{maker}: {text}"
        );
        let text = stdout(&pod, &["lint", "--format", "json"], 0);
        let report: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["basis"]["kind"], "rules", "{maker}");
        // Nobody listens in this pod.
        let codes = report["findings"].as_array().expect("a list").iter().map(|finding| &finding["code"]);
        assert!(codes.clone().any(|code| code == "SI056"), "{maker}: {text}");
        stdout(&pod, &["lint", "--deny"], 1);
        let text = stdout(&pod, &["verify"], 0);
        assert!(text.starts_with(HERE) && text.contains("captured at 15001"), "{maker}: {text}");
    }
}

/// Which interface a packet leaves by is the kernel's word: by destination, by user, by mark.
#[test]
fn the_kernel_says_which_way_a_packet_takes() {
    for maker in ["nftables", "iptables-nft"] {
        let pod = pod_by(maker, &[&ALL[..], &["-c", "eth1"]].concat());
        // No local route: the kernel takes such packets nowhere but where the table says.
        pod.ip("rule add uidrange 7-7 lookup 100\nrule add fwmark 9 lookup 100\nroute add default via 10.88.0.1 table 100");
        pod.ip("route add unreachable 10.66.0.0/16");
        let ask = |words: &[&str]| stdout(&pod, &[&["explain"], words].concat(), 0);
        for (words, way, captured) in [
            (
                &["10.0.0.5:443"][..],
                "tcp 10.77.0.2:40000 -> 10.0.0.5:443, from user 1000, group 1000, leaving by eth0",
                true,
            ),
            (
                &["10.88.0.9:443"],
                "tcp 10.88.0.2:40000 -> 10.88.0.9:443, from user 1000, group 1000, leaving by eth1",
                false,
            ),
            (&["--uid", "7", "10.0.0.5:443"], "from user 7, group 7, leaving by eth1", false),
            (&["--mark", "9", "10.0.0.5:443"], "leaving by eth1, mark 0x9", false),
            (
                &["10.77.0.2:443"],
                "tcp 10.77.0.2:40000 -> 10.77.0.2:443, from user 1000, group 1000, leaving by lo",
                false,
            ),
            (&["8080"], "tcp an address outside:40000 -> 10.77.0.2:8080, arriving at eth0", true),
            (
                &["--source", "10.88.0.9", "10.88.0.2:8080", "--as", "external"],
                "tcp 10.88.0.9:40000 -> 10.88.0.2:8080, arriving at eth1",
                false,
            ),
            (&["--in-interface", "eth1", "8080"], "arriving at eth1", false),
        ] {
            let text = ask(words);
            let [basis, answer] = lines(&text);
            assert_eq!(
                (basis, answer.starts_with("captured: ")),
                (HERE, captured),
                "{maker} {words:?}: {text}"
            );
            assert!(text.contains(way), "{maker} {words:?}: {text}");
        }
        // A rule for the pod's source decides once the source is chosen.
        pod.ip("rule add from 10.77.0.2 to 10.55.0.0/16 lookup 100");
        let text = ask(&["10.55.0.1:443"]);
        assert!(text.contains("leaving by eth1") && lines(&text)[1].starts_with("not captured"), "{text}");
        let refused =
            "no packet is sent: the route to 10.66.0.1 says unreachable for user 1000; by the rules alone:";
        assert_eq!(lines(&ask(&["10.66.0.1:80"])), [HERE, refused]);
        let text = ask(&["--in-interface", "eth7", "8080"]);
        assert!(
            text.contains("nothing arrives at eth7: no interface here has that name; by the rules alone:"),
            "{text}"
        );
        let report: Value = serde_json::from_str(&ask(&["--format", "json", "10.66.0.1:80"])).expect("JSON");
        assert!(report["unsent"].as_str().is_some_and(|text| text.contains("unreachable")), "{report:#}");
        assert_eq!(report["out_interface"], Value::Null);
        // What is not sent is neither captured nor not.
        for expected in ["captured", "not-captured"] {
            stdout(&pod, &["explain", "--expect", expected, "10.66.0.1:80"], 3);
        }
    }
}

/// Where the kernel chooses the route by the source port, a question without one is about all of them.
#[test]
fn routes_by_source_ports_are_cases() {
    let pod = pod_by("nftables", &[&ALL[..], &["-c", "eth1"]].concat());
    let first = |words: &[&str]| {
        let text = stdout(&pod, &[&["explain"], words].concat(), 0);
        text.lines().skip(1).take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let check = |change: &str, expected: &[&str]| {
        pod.ip(change);
        let found = first(&["10.0.0.5:443"]);
        assert_eq!(found.len(), expected.len(), "{change}: {found:?}");
        let is_so = found.iter().zip(expected).all(|(line, expected)| line.trim().starts_with(expected));
        assert!(is_so, "{change}: {found:?}");
    };
    let cases = ["depends on the route:", "not leaving by eth1: captured", "leaving by eth1: not captured"];
    let by_port =
        "route add default via 10.88.0.1 table 100\nrule add ipproto tcp sport 35000-36000 lookup 100";
    check(by_port, &cases);
    for (source, expected) in [("10.77.0.2:35500", "not captured"), ("10.77.0.2:45500", "captured")] {
        let found = first(&["--source", source, "10.0.0.5:443"]);
        assert!(found[0].starts_with(expected), "{source}: {found:?}");
    }
    check("rule del ipproto tcp sport 35000-36000 lookup 100", &["captured"]);
    // Of several next hops, a hash of ports takes one.
    pod.set("ipv4/fib_multipath_hash_policy", "1");
    let several = "route replace default nexthop via 10.77.0.1 dev eth0 nexthop via 10.88.0.1 dev eth1";
    pod.ip(several);
    let mut found = first(&["10.0.0.5:443"]);
    found.sort();
    assert!(
        found[1].trim().starts_with(cases[1])
            && found[0].trim().starts_with(cases[2])
            && found[2] == cases[0],
        "{found:?}"
    );
}

/// What the kernel refuses is no packet, whatever the rules say.
#[test]
fn packets_that_are_not_sent_are_named() {
    let pod = pod_by("nftables", &ALL);
    let check = |change: &str, words: &str, expected: &str| {
        pod.ip(change);
        let text = stdout(&pod, &["explain", "--expect", "captured", words], 3);
        assert!(text.contains(expected), "{change} {words}: {text}");
    };
    let several = |to: &str| format!("no packet is sent: TCP connects to one host, and {to} is several; by");
    check("route replace default via 10.77.0.1", "224.0.0.5:443", &several("224.0.0.5"));
    check("link show", "10.77.0.255:443", &several("10.77.0.255"));
    check("link set eth0 down", "8080", "nothing arrives at eth0: it is down; ip link set eth0 up; by");
    check("link set lo down", "127.0.0.1:443", "no packet is sent: lo is down; ip link set lo up; by");
    let status = stdout(&pod, &["status"], 1);
    assert!(status.contains("lo is down: what is redirected to the proxy goes by it"), "{status}");
}

#[test]
fn names_are_resolved_and_told_with_their_address() {
    let folder = Folder::new("hosts");
    folder.write("hosts", "10.96.0.10 reviews\nfd00::10 reviews\n10.96.0.20 example.test\n");
    let pod = pod_by("nftables", &[&ALL[..], &["-x", "10.96.0.20/32"]].concat());
    let ask = |words: &str, code: i32| {
        let script =
            format!("mount --bind {} /etc/hosts && exec {BINARY} explain {words}", folder.file("hosts"));
        printed(pod.output("unshare", &["--mount", "sh", "-c", &script], ""), &[words], code)
    };
    let text = ask("reviews:9080", 0);
    assert!(lines(&text)[1].starts_with("captured: goes to the proxy's outbound port 15001"), "{text}");
    assert!(text.contains(" -> reviews (10.96.0.10, one of 2 addresses):9080, "), "{text}");
    let text = ask("https://example.test/a", 0);
    let expected =
        "not captured: goes to example.test (10.96.0.20):443 as it was sent, because -x leaves 10.96.0.20";
    assert!(lines(&text)[1].starts_with(expected), "{text}");
    // With flags, too.
    let text = ask("--pod-ips 10.77.0.2 -i '*' reviews:9080", 0);
    assert!(text.starts_with("by the flags given:\ncaptured: "), "{text}");
    for (words, expected) in [
        ("reviews", "names no port; give one, such as reviews:443"),
        ("no-such-name.invalid:80", "can't be resolved: "),
        ("'a b:80'", "is not ADDRESS:PORT"),
    ] {
        let text = ask(words, 2);
        assert!(text.contains(expected), "{words}: {text}");
    }
}

/// Programs beside the rules are named where an answer is by rules that can't be all.
#[test]
fn filters_that_are_not_read_are_named() {
    let pod = pod();
    let warnings = || {
        let text = pod.output(BINARY, &["explain", "10.0.0.5:443"], "").with(0, "explain").stderr;
        text.lines().filter(|line| line.contains("can't be read")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(warnings(), [""; 0]);
    pod.output("tc", &["qdisc", "add", "dev", "eth0", "clsact"], "").success();
    let named = "filters of tc at eth0 (clsact) may decide about packets, too, and can't be read";
    let found = warnings();
    assert!(found.len() == 1 && found[0].contains(named), "{found:?}");
    let policy = ["src", "10.9.9.0/24", "dst", "10.9.8.0/24", "dir", "out", "action", "block"];
    pod.output("ip", &[&["xfrm", "policy", "add"], &policy[..]].concat(), "").success();
    let found = warnings();
    assert!(found.len() == 2 && found[1].contains("policies of IPsec may decide"), "{found:?}");
}

/// Documentation addresses are in answers only where somebody has typed them.
#[test]
fn no_address_is_made_up() {
    let invented = ["192.0.2.", "198.51.100.", "203.0.113.", "2001:db8"];
    let check = |text: &str| {
        assert!(!invented.iter().any(|one| text.contains(one)), "{text}");
    };
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/pod-istio.yaml");
    let pod = pod();
    let text = stdout(&pod, &["explain", "-f", manifest, "8080"], 0);
    assert!(text.contains("tcp an address outside:40000 -> the pod's address:8080, "), "{text}");
    check(&text);
    for words in [
        &["explain", "-f", manifest, "15090"][..],
        &["explain", "-f", manifest, "10.0.0.5:443"],
        &["explain", "-f", manifest],
        &["explain", "-f", manifest, "--format", "picture", "8080"],
        &["explain", "[fd00::5]:443"],
        &["explain"],
    ] {
        check(&stdout(&pod, words, 0));
    }
    let report: Value =
        serde_json::from_str(&stdout(&pod, &["explain", "-f", manifest, "--format", "json", "8080"], 0))
            .expect("JSON");
    assert_eq!((&report["source"], &report["destination"]), (&Value::Null, &Value::Null));
    // A rule of others decides before ours: status shows it by a packet.
    let pod = pod_by("iptables-nft", &["-b", "*", "-i", "10.0.0.0/8", "-q", "8443"]);
    pod.stdout("iptables-nft", &["-t", "nat", "-I", "OUTPUT", "-p", "tcp", "-j", "ACCEPT"]);
    let text = stdout(&pod, &["status"], 1);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("tcp 10.77.0.2:40000 -> an address outside:8443"), "{text}");
    check(&text);
    assert!(stdout(&pod, &["explain", "192.0.2.7:80"], 0).contains("192.0.2.7:80"), "it is typed");
}
