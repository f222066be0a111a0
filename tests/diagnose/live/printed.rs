//! What the programs of iptables print is believed as far as the kernel has the same.

use super::{bare, explained_live, namespace::Namespace, pod_with};
use crate::support::program::{Run, binary};

const REDIRECT: [&str; 4] = ["-i", "*", "-b", "*"];

fn code(pod: &Namespace, verb: &str, backend: &str) -> (i32, String) {
    let inside = pod.path();
    let call = match verb {
        "clean" => vec![verb, "--network-namespace", &inside],
        "diff" => {
            [&[verb, "--rules", "--backend", backend, "--network-namespace", &inside][..], &REDIRECT].concat()
        }
        _ => [&[verb, "--backend", backend, "--network-namespace", &inside][..], &REDIRECT].concat(),
    };
    let output = binary(&call).outcome();
    (output.code.expect("a code"), output.text())
}

/// Of `tcp dport { 80, 81 } return`, iptables-nft-save prints `-j RETURN`, with success.
#[test]
fn a_rule_of_nft_in_a_chain_of_ours_is_drift() {
    for (rule, words) in [
        ("insert rule ip nat ISTIO_OUTPUT tcp dport { 80, 81 } return", "tcp dport"),
        ("insert rule ip nat ISTIO_OUTPUT ip daddr != { 10.0.0.0/8, 192.168.0.0/16 } return", "ip daddr"),
        ("insert rule ip nat ISTIO_OUTPUT meta mark { 7, 8 } return", ""),
        // In the place of one of ours, which is printed alike.
        (
            "flush chain ip nat ISTIO_INBOUND; add rule ip nat ISTIO_INBOUND tcp dport 15008 return; add rule ip nat ISTIO_INBOUND meta l4proto tcp ip saddr { 10.0.0.1, 10.0.0.2 } jump ISTIO_IN_REDIRECT",
            "",
        ),
    ] {
        let pod = pod_with("iptables-nft", &REDIRECT);
        assert_eq!(code(&pod, "diff", "iptables-nft").0, 0, "before {rule}");
        pod.load(&rule.replace("; ", "\n"));
        let (ended, printed) = code(&pod, "diff", "iptables-nft");
        assert!(ended == 3 && printed.contains(words), "{rule}: {ended} {printed}");
        let (ended, printed) = code(&pod, "apply", "iptables-nft");
        assert_eq!(ended, 0, "{rule}: {printed}");
        assert_eq!(code(&pod, "diff", "iptables-nft").0, 0, "{rule}");
    }
}

#[test]
fn rules_of_iptables_keep_its_words() {
    let rules = [
        "-d 10.0.0.0/9 -o eth+ -p tcp -m tcp --dport 443 --tcp-flags FIN,SYN,RST,ACK SYN -j LOG --log-prefix \"a b\"",
        "-s 10.77.0.2/32 ! -d 10.1.0.0/16 -p tcp -m multiport --dports 80,443 -m owner ! --uid-owner 7 -j MARK --set-xmark 0x5/0xf",
        "! -o lo -p tcp -m tcp --dport 400:500 -m mark --mark 0x5/0xf -m comment --comment \"it \\\"is\\\"\" -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff",
        "-d 10.0.0.0/8 -m limit --limit 7/sec -j TOS --set-tos 0x10/0x3f",
        "-p tcp -m conntrack --ctstate NEW -m connmark ! --mark 0x7 -g OTHER",
    ];
    let pod = pod_with("nftables", &REDIRECT);
    let text = format!("*mangle\n:OTHER - [0:0]\n-A OUTPUT {}\nCOMMIT\n", rules.join("\n-A OUTPUT "));
    pod.fed("iptables-nft-restore", &["--noflush"], &text);
    let printed = explained_live(&pod, &["--format", "json", "--uid", "1000", "10.0.0.5:443"]);
    let report: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let texts: Vec<&str> = report["trace"]
        .as_array()
        .expect("a trace")
        .iter()
        .filter_map(|step| step["text"].as_str())
        .collect();
    for rule in rules {
        assert!(texts.contains(&rule), "{rule}: {texts:?}");
    }
    assert_eq!(report["verdict"], "captured", "{printed}");
}

/// The program refuses to print some rules that nft makes, or ends by a signal.
#[test]
fn tables_that_the_program_can_not_print_are_read_without_it() {
    for (rule, of_diff) in [
        ("th dport 80 drop", 3),
        ("meta skuid 7 drop", 3),
        ("tcp flags == syn tcp dport 80 drop", 0),
        ("fib daddr type broadcast drop", 0),
    ] {
        let pod = bare();
        pod.load(&format!(
            "table ip nat {{ chain OUTPUT {{ type nat hook output priority -100; {rule}; }}; }}"
        ));
        for (verb, expected) in [("apply", 0), ("diff", of_diff)] {
            let (ended, printed) = code(&pod, verb, "nftables");
            assert_eq!(ended, expected, "{rule}, {verb}: {printed}");
        }
        let text = explained_live(&pod, &["--uid", "1000", "10.0.0.5:443"]);
        assert!(text.starts_with("captured: "), "{rule}: {text}");
        assert_eq!(code(&pod, "clean", "nftables").0, 0, "{rule}");
    }
}
