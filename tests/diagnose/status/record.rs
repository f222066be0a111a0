//! Provenance of the native table: written with it, kept across replacements, and evidence of changes by other programs.

use crate::diagnose::status::report::{json, with_finding};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::program::binary;
use crate::support::wait;
use serde_json::Value;
use std::time::SystemTime;

const FLAGS: [&str; 6] = ["--pod-ips", "10.77.0.2", "-i", "*", "-b", "*"];

fn apply(namespace: &Namespace, more: &[&str]) {
    succeed(namespace, &[&["apply", "--backend", "nftables"], &FLAGS[..], more].concat());
}

fn nft(namespace: &Namespace, words: &[&str]) -> String {
    namespace.stdout("nft", words)
}

fn listing(namespace: &Namespace) -> String {
    nft(namespace, &["-a", "-s", "list", "ruleset"])
}

fn next_second(record: &Value) {
    let second = record["time"].as_str().expect("a time").trim_end_matches('Z').to_owned();
    wait::until("another second", || !diagnose::trace::utc(SystemTime::now()).starts_with(&second));
}

#[test]
fn provenance_is_written_only_with_rules() {
    let pod = Namespace::new();
    apply(&pod, &["-d", "15090"]);
    let first = json(&pod)["made"].clone();
    assert_eq!(first["command"], "apply");
    assert_eq!(first["program_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(first["settings"], "-b '*' -d 15090 -i '*'");
    assert_eq!(first["changed_since"], false);
    let before = listing(&pod);
    assert!(before.contains("chain made_by {"), "listed by nft: {before}");
    next_second(&first);
    apply(&pod, &["-d", "15090"]);
    let call = [&["istio-iptables", "--native-nftables"], &FLAGS[..], &["-d", "15090"]].concat();
    succeed(&pod, &call);
    assert_eq!(listing(&pod), before);
    assert_eq!(json(&pod)["made"], first);
    // New rules, new record; the base chains stay.
    apply(&pod, &["-d", "15090,15021"]);
    let second = json(&pod)["made"].clone();
    assert_eq!(second["settings"], "-b '*' -d 15090,15021 -i '*'");
    for changed in ["time", "rules_digest", "settings_digest"] {
        assert_ne!(second[changed], first[changed], "{changed}");
    }
    let handle = |listing: &str| {
        let line = listing.lines().find(|line| line.contains("chain nat_OUTPUT {")).map(str::to_owned);
        line.expect("the chain")
    };
    assert_eq!(handle(&before), handle(&listing(&pod)));
    // Equal settings have equal digests, at any time and from any source.
    apply(&pod, &["-d", "15090"]);
    let third = json(&pod)["made"].clone();
    assert_eq!(third["settings_digest"], first["settings_digest"]);
    assert_eq!(third["rules_digest"], first["rules_digest"]);
    assert_ne!(third["time"], first["time"]);
    succeed(&pod, &["clean"]);
    assert_eq!(nft(&pod, &["list", "ruleset"]), "");
}

#[test]
fn manual_edit_is_drift_and_traffic_is_not() {
    let table = "inet sidecar_init";
    for edit in [
        format!("insert rule {table} nat_ISTIO_OUTPUT tcp dport 443 return"),
        format!("flush chain {table} nat_ISTIO_INBOUND"),
        format!("add chain {table} more"),
        format!("add rule {table} made_by accept"),
        format!("add element {table} excluded_outbound_port_ports {{ 23 }}"),
        format!("add chain {table} nat_OUTPUT {{ policy drop; }}"),
        format!("add rule {table} nat_OUTPUT tcp dport {{ 1, 2 }} limit rate 5/second jump {{ accept; }}"),
        format!("add rule {table} nat_OUTPUT tcp dport vmap {{ 1 : accept, 2 : jump nat_ISTIO_REDIRECT }}"),
        format!("delete element {table} excluded_outbound_port_ports {{ 22 }}"),
        format!(
            "delete element {table} excluded_outbound_port_ports {{ 22 }}\nadd element {table} excluded_outbound_port_ports {{ 23 }}"
        ),
        format!("add set {table} more {{ type uid; }}"),
        format!("add table {table} {{ flags dormant; }}"),
    ] {
        let pod = Namespace::new();
        apply(&pod, &["-o", "22,3306"]);
        assert_eq!(json(&pod)["made"]["changed_since"], false);
        pod.load(&edit);
        let status = json(&pod);
        match edit.contains("made_by") {
            // The chain no longer has the tool's provenance; the table still differs.
            true => assert_eq!(status["made"], Value::Null, "{edit}"),
            false => {
                assert_eq!(status["made"]["changed_since"], true, "{edit}");
                with_finding(&status, "SI059", "the table has changed since");
            }
        }
        let check = [&["diff"], &FLAGS[..], &["-o", "22,3306"]].concat();
        run(&pod, &check).with(3, &edit);
        apply(&pod, &["-o", "22,3306"]);
        assert_eq!(json(&pod)["made"]["changed_since"], false, "{edit}");
        run(&pod, &check).with(0, &edit);
    }
}

#[test]
fn provenance_survives_a_reload_by_nft() {
    let pod = Namespace::new();
    apply(&pod, &["-o", "22,3306"]);
    let before = json(&pod)["made"].clone();
    let text = nft(&pod, &["list", "ruleset"]);
    nft(&pod, &["flush", "ruleset"]);
    pod.load(&text);
    let after = json(&pod)["made"].clone();
    assert_eq!((&after["time"], &after["settings_digest"]), (&before["time"], &before["settings_digest"]));
    // nft does not list the tool's user data.
    assert_eq!(after["settings"], Value::Null);
}

/// A table without provenance is equivalent to one with it.
#[test]
fn manually_loaded_table_has_no_provenance_and_no_difference() {
    let pod = Namespace::new();
    let script = succeed(&pod, &[&["render", "--output", "nft"], &FLAGS[..]].concat()).stdout;
    pod.load(&script);
    let before = listing(&pod);
    apply(&pod, &[]);
    assert_eq!(listing(&pod), before, "nothing is written");
    assert_eq!(json(&pod)["made"], Value::Null);
    let text = run(&pod, &["status", "--verbose"]).stdout;
    assert!(text.contains("creation time and command unknown"), "{text}");
}

/// Many settings exceed the space; their digest does not.
#[test]
fn long_settings_are_kept_as_a_digest() {
    let pod = Namespace::new();
    let ports = (0..1_000).map(|n| (20_001 + 2 * n).to_string()).collect::<Vec<_>>().join(",");
    apply(&pod, &["-o", &ports]);
    let made = json(&pod)["made"].clone();
    assert_eq!(made["settings"], Value::Null);
    assert_eq!(made["settings_digest"].as_str().map(str::len), Some(16));
    assert_eq!(made["changed_since"], false);
    let status = pod.outcome(&mut binary(&["status", "--verbose"])).with(1, "nothing listens").stdout;
    assert!(status.contains("configured with more settings than a table can store"), "{status}");
    let refused = run(&pod, &["diff"]).with(2, "no flag and no note").stderr;
    assert!(refused.contains("the settings were too long to store with the rules"), "{refused}");
}
