//! Words that are refused, and words that are taken with a warning.

use super::{Flags, Machine, cautions, check, resolved};
use mesh::settings::{self, Setting, SettingKind, SettingRow, Topic};
use mesh::sources::{Given, Raw, Source};
use mesh::{Feature, Mesh, resolve};

/// Words that are refused, whole calls at a time.
const REFUSED: &[(Mesh, Flags)] = &[
    (
        Mesh::Istio,
        &[
            ("envoy-port", "0"),
            ("inbound-capture-port", "99999"),
            ("istio-inbound-ports", "80,http"),
            ("istio-local-exclude-ports", "90-80"),
            ("istio-service-cidr", "10.0.0.0/33"),
            ("istio-service-exclude-cidr", "10.0.0.1.2"),
            ("istio-exclude-interfaces", "a-name-that-is-too-long"),
            ("kube-virt-interfaces", "vm 0"),
            ("istio-inbound-interception-mode", "HALF"),
            ("istio-inbound-tproxy-route-table", "255"),
            ("istio-inbound-tproxy-mark", "none"),
            ("ISTIO_OUTBOUND_OWNER_GROUPS", "nobody-knows"),
            ("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", "128.0.0.0/8"),
            ("proxy-uid", "4294967295"),
            ("redirect-dns", "perhaps"),
            ("dns-servers", "example.test"),
        ],
    ),
    (Mesh::Istio, &[("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", "127.0.0.0/7")]),
    (Mesh::Istio, &[("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", "::1/128")]),
    (
        Mesh::Linkerd,
        &[
            ("incoming-proxy-port", "x"),
            ("ports-to-redirect", "1-"),
            ("subnets-to-ignore", "10.0.0.0"),
            ("proxy-uid", "root"),
        ],
    ),
    (
        Mesh::Linkerd,
        &[
            ("incoming-proxy-port", "0"),
            ("outgoing-proxy-port", "70000"),
            ("proxy-uid", "-2"),
            ("proxy-gid", "linkerd"),
            ("ports-to-redirect", "80-90,0"),
            ("inbound-ports-to-ignore", "9-1,http"),
            ("outbound-ports-to-ignore", "1-70000"),
            ("subnets-to-ignore", "10.0.0.1,fd00::/129"),
            ("ipv6", "maybe"),
        ],
    ),
    (Mesh::Linkerd, &[("incoming-proxy-port", "4140")]),
    (Mesh::Linkerd, &[("outgoing-proxy-port", "4143")]),
    (
        Mesh::Kuma,
        &[
            ("kuma-dp-user", "nobody-knows"),
            ("ip-family-mode", "ipv5"),
            ("redirect-inbound-port", "0"),
            ("redirect-outbound-port", "70000"),
            ("exclude-inbound-ports", "80,http,0"),
            ("exclude-outbound-ips", "10.0.0.0/33"),
            ("exclude-outbound-ports-for-uids", "tcp:80:;sctp:1:2:3;icmp:80:7;0:7;7-6;web"),
            ("redirect-dns-port", "x"),
            ("vnet", "docker0"),
        ],
    ),
    (
        Mesh::Ambient,
        &[
            ("ingress", "maybe"),
            ("dns-capture", "yes"),
            ("reroute-virtual-interfaces", "eth0,a b,a/b,waytoolonganinterface"),
            ("ipv6", "6"),
            ("probe-address", "10.0.0.1,127.0.0.1,::,ff02::1,10.0.0.2,10.0.0.1/32,x"),
            ("HOST_PROBE_SNAT_IP", "fd00::1"),
            ("HOST_PROBE_SNAT_IPV6", "fd00::1,fd00::2"),
        ],
    ),
    (
        Mesh::Istio,
        &[
            ("istio-inbound-interception-mode", "REDIRCT"),
            ("istio-inbound-ports", "*,80,0"),
            ("istio-local-exclude-ports", "0,0-5,80"),
            ("istio-service-exclude-cidr", "*"),
            ("dual-stack", "tru"),
            ("pod-ips", "10.0.0"),
            ("envoy-port", "80\u{7}"),
        ],
    ),
    (
        Mesh::Istio,
        &[
            ("istio-inbound-interception-mode", "tproxy"),
            ("inbound-capture-port", "15006-15010"),
            ("istio-inbound-tproxy-mark", "0x53a"),
            ("istio-inbound-tproxy-route-table", "0"),
        ],
    ),
    (Mesh::Istio, &[("istio-inbound-tproxy-mark", "0"), ("pod-ips", "127.0.0.1,fe80::1,::6,::,0.0.0.0")]),
    (Mesh::Linkerd, &[("incoming-proxy-port", "4140"), ("outgoing-proxy-port", "4140"), ("ipv6", "yes")]),
    (
        Mesh::Kuma,
        &[
            ("ip-family-mode", "dualstak"),
            ("exclude-inbound-ports", "0"),
            ("exclude-outbound-ports-for-uids", "80:;tcp:0:7;1-x"),
            ("iptables-log-level", "8"),
            ("redirect-inbound", "perhaps"),
            ("vnet", "docker0:10.0.0.0/99,:10.0.0.0/8"),
        ],
    ),
    (Mesh::Kuma, &[("redirect-dns", "true"), ("redirect-all-dns-traffic", "true")]),
    (Mesh::Ambient, &[("probe-address", "127.0.0.1,0.0.0.0,224.0.0.1")]),
    (Mesh::Ambient, &[("probe-address", "10.0.0.1,10.0.0.2,fd00::1,fd00::1")]),
    (Mesh::Ambient, &[("HOST_PROBE_SNAT_IP", "fd00::1"), ("HOST_PROBE_SNAT_IPV6", "10.0.0.1")]),
    (Mesh::Ambient, &[("HOST_PROBE_SNAT_IP", "10.0.0.1,10.0.0.2")]),
];

/// Words that are taken, with a warning.
const WARNED: &[(Mesh, Flags)] = &[
    (
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "80,0"),
            ("istio-service-cidr", "10.1.2.3/8,::1/128,fd00::/8"),
            ("istio-service-exclude-cidr", "::1/128"),
            ("capture-all-dns", "true"),
            ("istio-outbound-ports", "80"),
            ("istio-inbound-tproxy-route-table", "7"),
            ("dns-servers", " "),
            ("ISTIO_OUTBOUND_OWNER_GROUPS", "java"),
            ("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "5"),
        ],
    ),
    (
        Mesh::Istio,
        &[
            ("istio-inbound-interception-mode", "TPROXY"),
            ("kube-virt-interfaces", "vm0"),
            ("istio-inbound-ports", "80"),
        ],
    ),
    // No packet comes to the rules of TPROXY.
    (Mesh::Istio, &[("istio-inbound-interception-mode", "TPROXY"), ("kube-virt-interfaces", "vm0")]),
    (
        Mesh::Istio,
        &[
            ("istio-service-cidr", "*"),
            ("istio-service-exclude-cidr", "10.0.0.0/8"),
            ("istio-outbound-ports", "80"),
            ("istio-inbound-ports", "80"),
            ("istio-local-exclude-ports", "22"),
            ("istio-inbound-tproxy-mark", "7"),
            ("dns-servers", "10.0.0.10"),
            ("redirect-dns", "true"),
        ],
    ),
    (Mesh::Istio, &[("redirect-dns", "true"), ("dns-servers", "")]),
    (Mesh::Istio, &[("redirect-dns", "true"), ("dns-servers", "fd00::a")]),
    (Mesh::Istio, &[("redirect-dns", "true"), ("capture-all-dns", "true"), ("dns-servers", "10.0.0.10")]),
    (Mesh::Linkerd, &[("subnets-to-ignore", "10.1.2.3/8"), ("inbound-ports-to-ignore", "0")]),
    (
        Mesh::Kuma,
        &[("ip-family-mode", "ipv4"), ("redirect-dns", "true"), ("vnet", "br0:fd00::/64,br0:10.0.0.0/8")],
    ),
    (
        Mesh::Kuma,
        &[("ip-family-mode", "dualstack"), ("pod-ips", "10.0.0.9,::1,::6"), ("vnet", "br0:10.0.0.0/8")],
    ),
    (Mesh::Kuma, &[("redirect-dns", "true"), ("dns-servers", "")]),
];

#[test]
fn refusals_are_as_written() {
    let mut text = String::new();
    for (mesh, flags) in REFUSED {
        let problems = resolved(*mesh, flags).err().unwrap_or_else(|| panic!("{mesh} takes {flags:?}"));
        text += &format!("---- {mesh}\n{problems}\n");
    }
    check("refusals", &text);
}

#[test]
fn unusual_words_are_taken_with_warnings_as_written() {
    let mut text = String::new();
    for (mesh, flags) in WARNED {
        let (raw, resolved) =
            resolved(*mesh, flags).unwrap_or_else(|problems| panic!("{mesh} {flags:?}: {problems}"));
        text += &format!("---- {mesh}\n");
        resolved.warnings.iter().for_each(|warning| text += &format!("{warning}\n"));
        for caution in cautions(&raw, &resolved.capture, false, false) {
            text += &format!("caution: {:?}: {}; {}\n", caution.setting, caution.text, caution.remedy);
        }
    }
    check("warnings", &text);
}

#[test]
fn at_most_64_groups_can_be_included() {
    let included = |count: u32| {
        let groups = (1..=count).map(|group| group.to_string()).collect::<Vec<_>>().join(",");
        let given = Given { value: groups, source: Source::Variable("ISTIO_OUTBOUND_OWNER_GROUPS") };
        let raw = Raw::of([(Setting::OwnerGroups, given)]);
        resolve(&raw, &Machine, Vec::new()).map(|_| ()).map_err(|problems| problems.0[0].to_string())
    };
    assert_eq!(included(64), Ok(()));
    let text = "ISTIO_OUTBOUND_OWNER_GROUPS: names 65 groups; at most 64 can be included";
    assert_eq!(included(65), Err(text.to_owned()));
}

#[test]
fn lists_that_are_too_long_are_refused_by_name() {
    let is_list = |row: &&SettingRow| {
        matches!(row.topic, Topic::Capture | Topic::Facts)
            && matches!(row.kind, SettingKind::Value(form) if form.ends_with(".."))
            && row.example.is_some_and(|example| !example.is_empty())
    };
    for mesh in Mesh::ALL {
        for row in settings::of(*mesh).filter(is_list) {
            let separator = if row.features.contains(&Feature::PortsByUser) { ";" } else { "," };
            let value = [row.example.unwrap_or_default()].repeat(100_001).join(separator);
            let count = value.split(separator).count();
            let given = [(Setting::Mesh, mesh.name()), (row.setting, &value), dns(*mesh)];
            let given = given.map(|(setting, value)| {
                (setting, Given { value: value.to_owned(), source: Source::Flag(setting.row().long) })
            });
            // Not every mesh reads every fact.
            let Err(problems) = resolve(&Raw::of(given), &Machine, Vec::new()) else {
                assert_eq!(row.topic, Topic::Facts, "{mesh} takes {}", row.name());
                continue;
            };
            let expected = format!("--{}: has {count} items; at most 100", row.long);
            assert!(problems.to_string().contains(&expected), "{mesh} {}: {problems}", row.name());
        }
    }
}

/// DNS is captured, without which servers are not read.
fn dns(mesh: Mesh) -> (Setting, &'static str) {
    match mesh {
        Mesh::Kuma => (mesh::kuma::Kuma::RedirectDns, "true"),
        _ => (Setting::RedirectDns, "true"),
    }
}

#[test]
fn interfaces_of_machines_and_networks_are_limited_together() {
    let joined =
        |form: &dyn Fn(u32) -> String, count: u32| (0..count).map(form).collect::<Vec<_>>().join(",");
    let refused = |interfaces: u32, networks: u32| {
        let vms = joined(&|number| format!("vm{number}"), interfaces);
        let cidrs = joined(&|number| format!("10.{}.{}.0/24", number / 256, number % 256), networks);
        let given = [(Setting::VmInterfaces, vms), (Setting::ServiceCidr, cidrs)].map(|(setting, value)| {
            (setting, Given { value, source: Source::Annotation(setting.row().name().to_owned()) })
        });
        resolve(&Raw::of(given), &Machine, Vec::new()).err().map(|problems| problems.0[0].to_string())
    };
    assert_eq!(refused(1000, 100), None);
    let text = refused(1000, 101).expect("too many");
    assert!(text.starts_with("kube-virt-interfaces: its 1000 interfaces and the 101 networks of "), "{text}");
}
