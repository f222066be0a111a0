//! `doctor` looks who listens where rules send traffic, with sockets of several users.

use crate::apply::stage::{REDIRECT, call};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::setting::Variant;
use nix::unistd::{Uid, setfsuid};
use serde_json::Value;
use std::net::TcpListener;

/// What `doctor` says of listeners: each finding as its level and its text.
fn listed(namespace: &Namespace) -> Vec<(String, String)> {
    let printed =
        run(namespace, &["doctor", "--pod-ips", "10.77.0.2", "--format", "json"]).with(0, "doctor").stdout;
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    let findings = document["findings"].as_array().expect("a list").iter();
    let word = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let of_listeners = findings.filter(|finding| finding["topic"] == "listeners");
    of_listeners.map(|finding| (word(finding, "level"), word(finding, "text"))).collect()
}

/// A socket counts as the user's who has made it.
fn listen(namespace: &Namespace, uid: u32, address: &str) -> TcpListener {
    namespace.run(|| {
        setfsuid(Uid::from_raw(uid));
        TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"))
    })
}

#[test]
fn who_listens_where_rules_send_traffic_is_told() {
    for variant in [Variant::Native, Variant::Nft, Variant::Legacy] {
        let namespace = Namespace::new();
        let idle = listed(&namespace);
        assert!(idle[0].0 == "ok" && idle[0].1.starts_with("no rule sends traffic to a proxy"), "{idle:?}");
        succeed(&namespace, &call("apply", variant, REDIRECT));
        let alone = listed(&namespace);
        for (port, role) in [(15001, "outbound"), (15006, "inbound")] {
            let text = format!(
                "nothing listens at tcp port {port} ({role}), where rules send traffic: connections are refused"
            );
            assert!(alone.contains(&("warning".to_owned(), text)), "{variant:?}: {alone:?}");
        }
        let _proxy = listen(&namespace, 1337, "127.0.0.1:15001");
        let _stranger = listen(&namespace, 4711, "127.0.0.1:15006");
        let found = listed(&namespace);
        let says = |level: &str, part: &str| found.iter().any(|(l, text)| l == level && text.contains(part));
        assert!(says("ok", "listens at tcp port 15001 (outbound) as user 1337"), "{found:?}");
        assert!(says("warning", "(inbound) as user 4711, who is not the proxy's (1337)"), "{found:?}");
        assert!(
            says("warning", "no listener at tcp port 15006 (inbound) accepts IPv4 at every address"),
            "{found:?}"
        );
        assert!(!says("warning", "nothing listens at"), "{found:?}");
    }
}

/// TPROXY hands packets over as they are, which a plain socket does not take.
#[test]
fn a_listener_that_tproxy_can_not_use_is_named() {
    use nix::sys::socket::{setsockopt, sockopt::IpTransparent};
    let namespace = Namespace::new();
    succeed(&namespace, &["apply", "--pod-ips", "10.77.0.2", "-m", "TPROXY", "-b", "*", "-i", "*"]);
    let alone = listed(&namespace);
    for (port, what) in [("15001 (outbound)", "are refused"), ("15006 (inbound)", "are dropped or refused")] {
        let text =
            format!("nothing listens at tcp port {port}, where rules send traffic: connections {what}");
        assert!(alone.iter().any(|(_, said)| *said == text), "{text:?} is not in {alone:?}");
    }
    let proxies = ["0.0.0.0:15001", "0.0.0.0:15006"].map(|address| listen(&namespace, 1337, address));
    let lacks =
        |found: &[(String, String)]| found.iter().any(|(_, text)| text.contains("has no IP_TRANSPARENT"));
    let found = listed(&namespace);
    assert!(lacks(&found), "{found:?}");
    for proxy in &proxies {
        setsockopt(proxy, IpTransparent, &true).expect("root may");
    }
    let found = listed(&namespace);
    assert!(!lacks(&found) && found.iter().all(|(level, _)| level == "ok"), "{found:?}");
}
