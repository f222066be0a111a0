//! Calls of pods with two addresses, for configurations of all meshes.

use super::*;
use crate::random_tests::configured;
use mesh::Mesh;

const ADDRESSES: [&str; 2] = ["10.1.0.9", "fd00:1::9"];

fn listed(mesh: Mesh, flags: &[(&str, &str)]) -> String {
    listed_by((1000, 1000), mesh, flags)
}

fn listed_by((uid, gid): (u32, u32), mesh: Mesh, flags: &[(&str, &str)]) -> String {
    let (_, capture) = configured(mesh, flags).expect("valid");
    let pod = PodContext::new(ADDRESSES.map(|text| text.parse().expect("an address")), Some(&*capture));
    let own = (Uid::new(uid).expect("a user"), Gid::new(gid).expect("a group"));
    let port = Port::new(8888).expect("a port");
    let facts = ProbeContext { pod, own, port, route: &|_| None, dialect: Dialect::default() };
    let line = |call: &Call| {
        let Call { caller, owner: (uid, gid), protocol, from, to, expected, .. } = call;
        let from = from.map_or_else(String::new, |from| format!(" from {from}"));
        let verdict = match expected {
            Verdict::Redirect(ports) => ports.to_string(),
            Verdict::Tproxy(port) => port.to_string(),
            verdict => format!("{verdict:?}"),
        };
        format!("{caller} ({uid}:{gid}) {protocol}{from} to {to}: {verdict}\n")
    };
    calls(&*capture, &facts).iter().map(line).collect()
}

#[test]
fn all_calls_except_excluded_ones_are_captured() {
    let flags = [
        ("istio-inbound-ports", "*"),
        ("istio-service-cidr", "*"),
        ("redirect-dns", "true"),
        ("capture-all-dns", "true"),
        ("istio-local-outbound-ports-exclude", "80-90,443"),
        ("istio-service-exclude-cidr", "10.1.0.0/16"),
        ("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "5,1000"),
    ];
    let expected = "\
application (1001:1001) tcp to 192.0.2.1:80: Pass
application (1001:1001) tcp to 192.0.2.1:443: Pass
application (1001:1001) tcp to 10.1.0.0:8888: Pass
application (1001:1001) tcp to 192.0.2.1:8888: 15001
application (1001:1001) tcp to 192.0.2.1:53: 15053
application (1001:1001) tcp to 10.1.0.9:8888: Pass
application (1001:1001) tcp to 10.1.0.9:53: 15053
group 5 (1001:5) tcp to 192.0.2.1:8888: Pass
group 5 (1001:5) tcp to 10.1.0.9:53: Pass
group 1000 (1001:1000) tcp to 192.0.2.1:8888: Pass
group 1000 (1001:1000) tcp to 10.1.0.9:53: Pass
proxy user 1337 (1337:1001) tcp to 192.0.2.1:8888: Pass
proxy user 1337 (1337:1001) tcp to 10.1.0.9:80: Pass
proxy user 1337 (1337:1001) tcp to 10.1.0.9:443: Pass
proxy user 1337 (1337:1001) tcp from 127.0.0.6 to 10.1.0.9:8888: Pass
proxy user 1337 (1337:1001) tcp to 10.1.0.9:8888: 15006
proxy user 1337 (1337:1001) tcp to 127.0.0.1:8888: Pass
proxy group 1337 (1001:1337) tcp to 192.0.2.1:8888: Pass
proxy group 1337 (1001:1337) tcp to 10.1.0.9:53: 15006
proxy group 1337 (1001:1337) tcp to 127.0.0.1:53: Pass
application (1001:1001) udp to 192.0.2.1:53: 15053
group 5 (1001:5) udp to 192.0.2.1:53: Pass
group 1000 (1001:1000) udp to 192.0.2.1:53: Pass
proxy user 1337 (1337:1001) udp to 192.0.2.1:53: Pass
proxy group 1337 (1001:1337) udp to 192.0.2.1:53: Pass
";
    assert_eq!(listed(Mesh::Istio, &flags), expected);
}

#[test]
fn the_application_has_neither_user_nor_group_of_the_proxy() {
    for own in [(1337, 1000), (1000, 1337)] {
        let calls = listed_by(own, Mesh::Istio, &[("istio-service-cidr", "*")]);
        assert!(calls.starts_with("application (1000:1000) tcp to 192.0.2.1:8888: 15001\n"), "{calls}");
    }
}

#[test]
fn an_unnamed_user_is_found_fast_for_any_ranges() {
    let unnamed = |ranges: &[(u128, u128)]| {
        unnamed_user(&ranges.iter().map(|&(first, last)| Interval { first, last }).collect()).number()
    };
    let last = u128::from(u32::MAX) - 1;
    assert_eq!(unnamed(&[]), 1000);
    assert_eq!(unnamed(&[(1000, 1000), (1001, 1005), (1007, 1007)]), 1006);
    assert_eq!(unnamed(&[(1000, last)]), 0);
    assert_eq!(unnamed(&[(0, 5), (1000, last)]), 6);
    assert_eq!(unnamed(&[(0, last)]), 1000);
}
