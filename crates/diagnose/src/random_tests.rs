//! Random settings of any mesh, for tests of general properties.

use mesh::settings::{self, Setting};
use mesh::sources::{Host, Raw, SettingReader};
use mesh::{Capture, Mesh, configure};
use proptest::{collection::vec, prelude::*, sample::select};
use rules::Uid;
use std::{io, net::IpAddr};

const PORTS: [&str; 8] = ["53", "80", "80-90", "85,80,443", "1-65535", "1000-2000,2000-3000", "22-22,53", ""];
const NETWORKS: [&str; 7] = [
    "10.0.0.0/8",
    "10.1.0.0/16,10.0.0.0/8",
    "10.1.0.9/32",
    "fd00::/8",
    "0.0.0.0/0,::/0",
    "127.0.0.1/32,fd00:1::9/128",
    "",
];
const USERS: [&str; 3] = ["5", "1000", "1337"];
const SWITCH: [&str; 2] = ["true", "false"];

fn words(mesh: Mesh) -> Vec<(&'static str, &'static [&'static str])> {
    match mesh {
        Mesh::Istio => vec![
            ("istio-inbound-ports", &["*", "80,443", ""]),
            ("istio-local-exclude-ports", &PORTS),
            ("istio-service-cidr", &["*", "10.0.0.0/8,fd00::/8", "127.0.0.1/32,::1/128,10.1.0.0/16", ""]),
            ("istio-service-exclude-cidr", &NETWORKS),
            ("istio-outbound-ports", &PORTS),
            ("istio-local-outbound-ports-exclude", &PORTS),
            ("istio-exclude-interfaces", &["eth0", "vm1"]),
            ("kube-virt-interfaces", &["vm0", "vm+"]),
            ("istio-inbound-interception-mode", &["REDIRECT", "TPROXY"]),
            ("ISTIO_OUTBOUND_OWNER_GROUPS", &["5,6", "6", ""]),
            ("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", &["1000,1000", "6"]),
            ("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", &["127.0.0.0/8"]),
            ("capture-all-dns", &SWITCH),
            ("redirect-dns", &SWITCH),
            ("drop-invalid", &SWITCH),
            ("dual-stack", &SWITCH),
            ("proxy-uid", &USERS),
            ("proxy-gid", &["5", "0,1000"]),
        ],
        Mesh::Linkerd => vec![
            ("ports-to-redirect", &["80", "80,85,443", ""]),
            ("inbound-ports-to-ignore", &PORTS),
            ("outbound-ports-to-ignore", &PORTS),
            ("subnets-to-ignore", &NETWORKS),
            ("proxy-uid", &USERS),
            ("proxy-gid", &USERS),
            ("ipv6", &SWITCH),
            ("outgoing-proxy-port", &["4143", "4140"]),
        ],
        Mesh::Kuma => vec![
            ("kuma-dp-user", &USERS),
            ("ip-family-mode", &["ipv4", "dualstack"]),
            ("redirect-inbound", &SWITCH),
            ("redirect-outbound", &SWITCH),
            ("include-inbound-ports", &["80", "80,443"]),
            ("include-outbound-ports", &["80", "80,1000"]),
            ("exclude-inbound-ports", &PORTS),
            ("exclude-outbound-ports", &PORTS),
            ("exclude-inbound-ips", &NETWORKS),
            ("exclude-outbound-ips", &NETWORKS),
            ("exclude-outbound-ports-for-uids", &["tcp:53,80-90:5-6", "1000", "udp:53:1000;*:85:6"]),
            ("redirect-dns", &SWITCH),
            ("redirect-all-dns-traffic", &SWITCH),
            ("vnet", &["vm0:10.1.0.0/16", "vm+:10.0.0.0/8,vm1:fd00::/8"]),
            ("drop-invalid-packets", &SWITCH),
            ("iptables-logs", &SWITCH),
            ("disable-comments", &SWITCH),
            ("redirect-inbound-insert-instead-of-append", &SWITCH),
            ("redirect-outbound-insert-instead-of-append", &SWITCH),
        ],
        Mesh::Ambient => vec![
            ("ingress", &SWITCH),
            ("dns-capture", &SWITCH),
            ("reroute-virtual-interfaces", &["vm0", "vm0,vm+", "eth0"]),
            ("ipv6", &SWITCH),
            ("probe-address", &["10.1.0.9", "10.1.0.9,fd00:1::9"]),
        ],
    }
}

struct FixedHost;

impl Host for FixedHost {
    fn user(&self, _: &str) -> io::Result<Option<Uid>> {
        Ok(Uid::new(5678))
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(["10.1.0.9", "fd00:1::9"].map(|text| text.parse().expect("an address")).to_vec())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(["10.200.0.1", "fd00:1::9"].map(|text| text.parse().expect("an address")).to_vec())
    }
}

/// Configuration by flag or variable names; `None` if a value is refused.
pub(crate) fn configured(mesh: Mesh, flags: &[(&str, &str)]) -> Option<(Raw, Capture)> {
    let setting = |name: &str| {
        let row = settings::all().find(|row| row.name() == name && row.setting.is_for(mesh));
        row.unwrap_or_else(|| panic!("{mesh} has no {name}")).setting
    };
    let given = flags.iter().map(|(name, value)| (setting(name), (*value).to_owned()));
    let given = given.chain([(Setting::Mesh, mesh.to_string())]);
    let raw = Raw::new(given, |_| false, |_| None);
    let mut reader = SettingReader::new(&raw, Vec::new());
    let capture = configure(&mut reader, &FixedHost, true);
    reader.finish().ok().map(|_| (raw.clone(), capture))
}

pub(crate) fn any_of(meshes: &'static [Mesh]) -> impl Strategy<Value = (Raw, Capture)> {
    up_to(8, meshes)
}

pub(crate) fn up_to(most: usize, meshes: &'static [Mesh]) -> impl Strategy<Value = (Raw, Capture)> {
    let of_mesh = move |mesh: Mesh| {
        let words = words(mesh);
        let flag = select(words).prop_flat_map(|(long, values)| (Just(long), select(values)));
        vec(flag, 0..most).prop_filter_map("refused", move |flags| configured(mesh, &flags))
    };
    select(meshes).prop_flat_map(of_mesh)
}
