//! The native batch and `nft -f` of the rendered script have the same result in the kernel.

use crate::apply::native::support::{in_namespace, list, native, networks, ports, ruleset, script};
use crate::support::catalogue;
use crate::support::program::{BINARY, stdout};
use crate::support::scope;
use serde_json::Value;

fn check(name: &str, flags: &[&str]) {
    let script = script(flags);
    let by_nft = in_namespace(|| {
        stdout("nft", &["-c", "-f", "-"], &script);
        stdout("nft", &["-f", "-"], &script);
        ruleset()
    });
    let by_batch = in_namespace(|| {
        native(flags);
        ruleset()
    });
    let parts = |ruleset: &Value| ruleset["nftables"].as_array().cloned().expect("a list");
    let (by_nft, by_batch) = (parts(&by_nft), parts(&by_batch));
    for (script, batch) in by_nft.iter().zip(&by_batch) {
        assert_eq!(script, batch, "{name}");
    }
    assert_eq!(by_nft.len(), by_batch.len(), "{name}");
}

#[test]
fn every_scenario_is_the_same_by_script_and_by_batch() {
    for case in scope::of(catalogue::scenarios(|mesh| mesh.is_none()), 8) {
        let script = case.text("table.nft").expect("table.nft");
        let by_nft = in_namespace(|| {
            stdout("nft", &["-f", "-"], &script);
            ruleset()
        });
        let variables = case.variables().into_iter().map(|(name, value)| format!("{name}={value}"));
        let call = [BINARY, "istio-iptables", "--native-nftables"].map(str::to_owned);
        let call: Vec<String> = variables.chain(call).chain(case.flags()).collect();
        let by_batch = in_namespace(|| {
            stdout("env", &call.iter().map(String::as_str).collect::<Vec<_>>(), "");
            ruleset()
        });
        assert_eq!(by_nft, by_batch, "{}", case.name());
    }
}

#[test]
fn long_lists_are_the_same_by_script_and_by_batch() {
    let (ports, networks) = (ports(5_000), networks(2_000));
    let ids = list(300, |n| (1_000 + n).to_string());
    let lists: [(&str, &[&str]); 6] = [
        ("outbound ports", &["-i", "*", "-b", "*", "-o", &ports]),
        ("inbound ports", &["-i", "*", "-b", &ports]),
        ("inbound ports, TPROXY", &["-i", "*", "-b", &ports, "-m", "TPROXY"]),
        ("excluded networks", &["-i", "*", "-x", &networks]),
        ("captured networks", &["-i", &networks, "-k", "vm0,vm+,br+"]),
        ("owners", &["-i", "*", "-u", &ids, "-g", &ids, "--redirect-dns", "--capture-all-dns"]),
    ];
    for (name, flags) in scope::of(lists.to_vec(), 2) {
        check(name, &[&["--dual-stack"], flags].concat());
    }
}

#[test]
fn rules_do_not_grow_with_lists() {
    let rules = |flags: &[&str]| script(flags).split_whitespace().filter(|word| *word == "counter").count();
    let sizes = [3, scope::runs(1_000, 300)].map(|size| {
        let (ports, networks, ids) = (ports(size), networks(size), list(size, |n| (500 + n).to_string()));
        let interfaces = list(size.min(40), |n| format!("eth{n}"));
        [
            rules(&["--dual-stack", "-i", "*", "-b", &ports, "-o", &ports, "-x", &networks, "-q", &ports]),
            rules(&["--dual-stack", "-i", &networks, "-b", "*", "-d", &ports, "-c", &interfaces]),
            rules(&["--dual-stack", "-i", &networks, "-k", &interfaces, "-m", "TPROXY", "-b", &ports]),
            rules(&[
                "--dual-stack",
                "-i",
                "*",
                "-u",
                &ids,
                "-g",
                &ids,
                "--redirect-dns",
                "--capture-all-dns",
            ]),
            rules(&["-i", "*", "-b", &ports, "-o", &ports, "--iptables-trace-logging"]),
        ]
    });
    assert_eq!(sizes[0], sizes[1]);
}
