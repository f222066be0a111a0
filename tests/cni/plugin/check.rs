//! CHECK compares with ADD's rules, regardless of later changes to the network configuration, and finds changes to the rules; ADD
//! repairs them.

use crate::cni::plugin::runtime::{Answer, Node, container, mentions, rules};
use serde_json::json;

/// All rule settings, with and without IPv6.
#[test]
fn check_accepts_the_rules_of_add() {
    for settings in [
        json!({"istio-inbound-ports": "*", "istio-service-cidr": "*"}),
        json!({"istio-inbound-ports": [80, "8000-9000"], "istio-outbound-ports": [5432], "dual-stack": true}),
        json!({"istio-inbound-ports": "*", "istio-inbound-interception-mode": "TPROXY", "dual-stack": true}),
        json!({"redirect-dns": true, "capture-all-dns": true, "drop-invalid": true, "proxy-uid": 7}),
        json!({"redirect-dns": true, "dns-servers": ["10.96.0.10"]}),
    ] {
        let (node, pod) = (Node::new(), container());
        pod.ip("addr add fd00::3/128 dev lo nodad");
        let configuration = node.configuration(&json!({"capture": settings}));
        node.does("ADD", &configuration, &pod.path());
        let made = rules(&pod);
        assert!(made.contains("table inet sidecar_init"), "{settings}: {made}");
        assert_eq!(node.does("CHECK", &configuration, &pod.path()), "");
        // A second ADD finds all rules in place.
        node.does("ADD", &configuration, &pod.path());
        assert_eq!(rules(&pod), made);
        assert!(node.lines()[2]["reason"].as_str().is_some_and(|reason| reason.ends_with("was in place")));
        // The reference is the added rules, not the current configuration or addresses.
        let other = node.configuration(&json!({"capture": {"proxy-uid": 99}, "backend": "iptables-nft"}));
        pod.ip("addr del 10.1.2.3/32 dev lo\naddr del fd00::3/128 dev lo");
        node.does("CHECK", &other, &pod.path());
    }
}

#[test]
fn tampering_with_routing_is_found() {
    let (node, pod) = (Node::new(), container());
    let settings = json!({"istio-inbound-ports": "*", "istio-inbound-interception-mode": "TPROXY"});
    let configuration = node.configuration(&json!({"capture": settings}));
    node.does("ADD", &configuration, &pod.path());
    pod.ip("rule del fwmark 1337 lookup 133");
    mentions(&node.call("CHECK", &configuration, &pod.path()).refused(101), &["+", "1337", "missing"]);
}

#[test]
fn without_its_programs_iptables_is_not_available() {
    let (node, pod) = (Node::new(), container());
    let mut configuration = node.capturing();
    configuration["backend"] = json!("iptables-legacy");
    for verb in ["ADD", "STATUS"] {
        mentions(
            &node.call(verb, &configuration, &pod.path()).refused(50),
            &["not on PATH", "install iptables"],
        );
    }
    assert_eq!(rules(&pod), "");
}

#[test]
fn rules_of_others_that_come_first_are_in_the_log() {
    let (node, pod) = (Node::new(), container());
    pod.stdout(
        "nft",
        &["add table ip other; add chain ip other out { type nat hook output priority -150; }; \
        add rule ip other out tcp dport 80 redirect to :9999"],
    );
    for verb in ["ADD", "CHECK"] {
        node.does(verb, &node.capturing(), &pod.path());
    }
    for line in node.lines() {
        let warnings = line["warnings"].to_string();
        assert!(warnings.contains("before our rules see them"), "{line:#}");
    }
}
