//! What settings come to: of each mesh a few configurations, whole, in `configurations/MESH.txt`, and what is refused.
//! `UPDATE_GOLDENS=1` writes the files.

mod machines;
mod read_back;
mod refused;
mod scenarios;

use mesh::limit::{Caution, CautionContext};
use mesh::preview::{self, Preview};
use mesh::settings::{self, Setting};
use mesh::sources::{Host, Raw};
use mesh::{Capture, Mesh, MeshEntry, Problems, Resolved, kuma, resolve};
use rules::finding::Code;
use rules::simulate::{Direction, Packet};
use rules::{Checked, ConnState, Family, Gid, Protocol, Uid};
use std::io;
use std::net::IpAddr;

type Flags = &'static [(&'static str, &'static str)];

const CASES: &[(&str, Mesh, Flags)] = &[
    (
        "istio",
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "*"),
            ("istio-service-cidr", "*"),
            ("istio-local-exclude-ports", "15090,15021"),
            ("istio-service-exclude-cidr", "10.1.0.0/16,fd01::/16"),
            ("dns-servers", "10.0.0.10"),
        ],
    ),
    (
        "istio-lists",
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "80,8443"),
            ("istio-local-exclude-ports", "22"),
            ("istio-service-cidr", "10.0.0.0/8,127.0.0.0/8,fd00::/8"),
            ("istio-outbound-ports", "5000-5010"),
            ("istio-local-outbound-ports-exclude", "22"),
            ("istio-exclude-interfaces", "net1"),
            ("kube-virt-interfaces", "vm0"),
            ("ISTIO_OUTBOUND_OWNER_GROUPS", "5,java"),
            ("redirect-dns", "true"),
            ("drop-invalid", "true"),
            ("dual-stack", "true"),
            ("proxy-uid", "1337,2000"),
        ],
    ),
    (
        "istio-tproxy",
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "*"),
            ("istio-inbound-interception-mode", "TPROXY"),
            ("inbound-capture-port", "15007"),
            ("kube-virt-interfaces", "vm0"),
            ("istio-service-cidr", "*"),
            ("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "7"),
            ("capture-all-dns", "true"),
            ("redirect-dns", "true"),
            ("drop-invalid", "true"),
            ("dual-stack", "true"),
        ],
    ),
    (
        "istio-nothing",
        Mesh::Istio,
        &[
            ("istio-service-exclude-cidr", "10.1.0.0/16"),
            ("istio-local-exclude-ports", "22"),
            ("dns-servers", "10.0.0.10"),
            ("istio-inbound-tproxy-mark", "0x539"),
        ],
    ),
    (
        "linkerd",
        Mesh::Linkerd,
        &[
            ("inbound-ports-to-ignore", "4190,4191"),
            ("outbound-ports-to-ignore", "443,4567-4570"),
            ("subnets-to-ignore", "10.2.0.0/16"),
            ("proxy-gid", "2103"),
            ("ipv6", "true"),
        ],
    ),
    (
        "istio-ipv4",
        Mesh::Istio,
        &[
            ("istio-service-cidr", "10.0.0.0/8,::1/128,fd00::/8"),
            ("istio-service-exclude-cidr", "10.1.0.0/16,::1/128"),
            ("istio-inbound-ports", "*"),
        ],
    ),
    (
        "linkerd-ports",
        Mesh::Linkerd,
        &[
            ("ports-to-redirect", "443,80"),
            // What does not fit any more begins a rule, and what is smaller does not overtake it.
            ("inbound-ports-to-ignore", "1-2,3-4,5-6,7-8,9-10,11-12,13-14,15-16,17"),
            ("outbound-ports-to-ignore", "16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1"),
            ("subnets-to-ignore", "10.1.2.3/8,2001:DB8::/32"),
        ],
    ),
    (
        "kuma",
        Mesh::Kuma,
        &[
            ("kuma-dp-user", "5678"),
            ("ip-family-mode", "ipv4"),
            ("exclude-inbound-ports", "1900"),
            ("exclude-inbound-ips", "10.4.0.0/16"),
            ("exclude-outbound-ips", "10.3.0.0/16"),
            ("exclude-outbound-ports-for-uids", "tcp:22,80:1001"),
            ("redirect-dns", "true"),
            ("drop-invalid-packets", "true"),
            ("iptables-logs", "true"),
            ("vnet", "docker0:172.17.0.0/16"),
        ],
    ),
    (
        "kuma-lists",
        Mesh::Kuma,
        &[
            ("kuma-dp-user", "web"),
            ("include-inbound-ports", "80"),
            ("include-outbound-ports", "443"),
            ("exclude-outbound-ports", "22"),
            ("exclude-outbound-ports-for-uids", "*:22:0;udp:*:4294967294"),
            ("redirect-all-dns-traffic", "true"),
        ],
    ),
    (
        "kuma-bare",
        Mesh::Kuma,
        &[
            ("disable-comments", "true"),
            ("redirect-inbound", "false"),
            ("exclude-outbound-ports", "22"),
            ("exclude-outbound-ports-for-uids", "tcp:22,80:1001;1002"),
            ("exclude-outbound-ips", "10.3.0.0/16"),
            ("redirect-outbound-insert-instead-of-append", "true"),
            ("redirect-inbound-insert-instead-of-append", "true"),
            ("redirect-dns", "true"),
            ("drop-invalid-packets", "true"),
            ("vnet", "docker0:172.17.0.0/16,br+:fd00::/64"),
        ],
    ),
    (
        "kuma-inbound",
        Mesh::Kuma,
        &[("redirect-outbound", "false"), ("iptables-logs", "true"), ("iptables-log-level", "4")],
    ),
    ("kuma-nothing", Mesh::Kuma, &[("redirect-inbound", "false"), ("redirect-outbound", "false")]),
    ("istio-no-groups", Mesh::Istio, &[("ISTIO_OUTBOUND_OWNER_GROUPS", ""), ("istio-service-cidr", "*")]),
    (
        "istio-logged",
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "80"),
            ("istio-service-cidr", "10.0.0.0/8"),
            ("kube-virt-interfaces", "vm0,vm1"),
            ("iptables-trace-logging", "true"),
            ("inbound-capture-port", "15006-15010"),
            ("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", "127.0.0.0/16"),
            ("ISTIO_OUTBOUND_OWNER_GROUPS", "202"),
        ],
    ),
    (
        "istio-off",
        Mesh::Istio,
        &[
            ("istio-inbound-interception-mode", "NONE"),
            ("istio-service-cidr", "*"),
            ("redirect-dns", "true"),
            ("pod-ips", "fd00::9"),
        ],
    ),
    ("ambient", Mesh::Ambient, &[("dns-capture", "true"), ("reroute-virtual-interfaces", "vm0")]),
    (
        "ambient-probes",
        Mesh::Ambient,
        &[
            ("HOST_PROBE_SNAT_IP", "10.0.0.1"),
            ("HOST_PROBE_SNAT_IPV6", "fd00::1"),
            ("probe-address", "fd00::2"),
        ],
    ),
    ("ambient-ingress", Mesh::Ambient, &[("ingress", "true"), ("ipv6", "false")]),
];

/// A pod with two addresses.
struct Machine;

impl Host for Machine {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        Ok(if name == "web" { Uid::new(1002) } else { None })
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        Ok(if name == "java" { Gid::new(202) } else { None })
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(["10.1.0.9", "fd00:1::9"].map(|text| text.parse().expect("an address")).to_vec())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(["10.200.0.1", "fd00::a"].map(|text| text.parse().expect("an address")).to_vec())
    }
}

fn resolved(mesh: Mesh, flags: Flags) -> Result<(Raw, Resolved), Problems> {
    resolved_on(&Machine, mesh, flags)
}

fn resolved_on(host: &dyn Host, mesh: Mesh, flags: Flags) -> Result<(Raw, Resolved), Problems> {
    let setting = |name: &str| {
        let row = settings::all().find(|row| row.name() == name && row.setting.is_for(mesh));
        row.unwrap_or_else(|| panic!("{mesh} has no {name}")).setting
    };
    let (variables, flags): (Vec<_>, Vec<_>) =
        flags.iter().partition(|(name, _)| setting(name).row().long.is_empty());
    let given = flags.iter().map(|(name, value)| (setting(name), (*value).to_owned()));
    let given = given.chain([(Setting::Mesh, mesh.to_string())]);
    let value = |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| value.into());
    let raw = Raw::new(given, |row| row.long.is_empty(), value);
    resolve(&raw, host, Vec::new()).map(|resolved| (raw, resolved))
}

/// The cautions that apply; of those that a setting has no effect, where it is given.
fn cautions(
    raw: &Raw,
    capture: &Capture,
    captures_inbound: bool,
    drops_invalid: bool,
) -> Vec<&'static Caution> {
    let (proxy, lists) = (&capture.proxy(), &capture.lists());
    let facts = CautionContext { raw, proxy, lists, captures_inbound, drops_invalid };
    let is_given = |caution: &&Caution| caution.code != Code::NoEffect || facts.has(caution.setting);
    let all = capture.mesh().entry().cautions.iter();
    all.filter(is_given).filter(|caution| (caution.applies)(&facts)).collect()
}

fn described(mesh: Mesh, flags: Flags) -> String {
    let (raw, Resolved { capture, warnings }) =
        resolved(mesh, flags).unwrap_or_else(|problems| panic!("{mesh} {flags:?}: {problems}"));
    let (proxy, lists) = (capture.proxy(), capture.lists());
    let option = |setting: Setting| setting.row().option();
    assert_eq!(mesh::istio::of(&capture).is_some(), mesh == Mesh::Istio);
    let mut text = String::new();
    warnings.iter().for_each(|warning| text += &format!("warning: {warning}\n"));
    for (captures_inbound, drops_invalid) in [(true, false), (true, true), (false, false)] {
        for caution in cautions(&raw, &capture, captures_inbound, drops_invalid) {
            let level = if caution.is_warning { "warning" } else { "note" };
            let of =
                format!("{level} {}, inbound: {captures_inbound}, dropped: {drops_invalid}", caution.code);
            text += &format!(
                "caution: {of}: {}: {}; {}\n",
                option(caution.setting),
                caution.text,
                caution.remedy
            );
        }
    }
    for item in &lists {
        text += &format!(
            "{}: {} as {:?}, {:?} of {:?}, captured: {}\n",
            option(item.setting),
            item.selector,
            item.selector,
            item.selector.condition(),
            item.selector.family(),
            item.captured
        );
    }
    let passthrough = Family::BOTH.map(|family| proxy.passthrough(family));
    text += &format!("captures nothing: {}\n", capture.captures_nothing());
    text += &format!("{proxy:?}\n{passthrough:?}\n{:?}\n{:?}\n", capture.routing(), capture.stale_flows());
    text += &format!("{:?}\n{:?}\n", capture.without_ipv6(&raw, false), capture.without_ipv6(&raw, true));
    for form in [Preview::Restore, Preview::Commands, Preview::Nft] {
        text += &format!("---- {form:?}\n{}", preview::print(&*capture, form).text);
    }
    let v4 = capture.ipv4_alone();
    assert!(!v4.ipv6() && v4.desired().v6.is_none(), "{v4:?}");
    assert_eq!(v4.rules(Family::V4), capture.rules(Family::V4));
    let without = capture.without_dns();
    text += &format!("---- without DNS\n{}", preview::print(&*without, Preview::Restore).text);
    if capture.mesh() == Mesh::Kuma {
        let rules: Vec<Checked> = capture.families().map(|family| capture.rules(family)).collect();
        for verbose in [false, true] {
            text +=
                &format!("---- of kumactl, verbose: {verbose}\n{}", kuma::preview::dry_run(&rules, verbose));
        }
    }
    for family in capture.families() {
        text += &read_back::all_read_back(&capture, family);
    }
    text
}

/// Of each packet, the limits that it runs into where it meets a rule of their reason: whose conditions it fulfils, or not.
fn limits(mesh: Mesh) -> String {
    let (own, outside, loopback) = ("10.1.0.9:4000", "192.0.2.1:80", "127.0.0.53:53");
    let leaving = |interface: &str| Direction::Outbound {
        interface: interface.to_owned(),
        uid: Uid::new(1000).expect("a user"),
        gid: Gid::new(1000).expect("a group"),
    };
    let arriving = Direction::Inbound { interface: "eth0".to_owned(), local: true };
    let packets = [
        ("call", leaving("eth0"), Protocol::Tcp, 0, own, outside),
        ("marked call", leaving("eth0"), Protocol::Tcp, 0x539, own, outside),
        ("marked datagram", leaving("eth0"), Protocol::Udp, 0x539, own, outside),
        ("query to the pod", leaving("lo"), Protocol::Udp, 0, own, loopback),
        ("query to loopback", leaving("lo"), Protocol::Udp, 0, own, "127.0.0.1:53"),
        ("probe", arriving.clone(), Protocol::Tcp, 0, "169.254.7.127:4000", own),
        ("query of a machine", arriving, Protocol::Udp, 0, outside, "192.0.2.53:53"),
    ];
    let mut text = String::new();
    for limit in mesh.entry().limits {
        text += &format!("{} of {}: {:?}\n", limit.code, limit.reason.name(), limit.about_items("ITEMS"));
    }
    for (name, direction, protocol, mark, source, destination) in packets {
        let [source, destination] =
            [source, destination].map(|end| end.parse().expect("an address and a port"));
        let packet =
            Packet { direction, protocol, source, destination, mark, connmark: 0, state: ConnState::New };
        for fulfils in [true, false] {
            let met = mesh.entry().limits.iter().filter(|limit| (limit.concerns)(&packet, fulfils));
            let met: Vec<String> =
                met.map(|limit| format!("{} {}", limit.code.name(), limit.reason.name())).collect();
            text += &format!("{name}, fulfils: {fulfils}: {}\n", met.join(", "));
        }
    }
    text
}

fn file(name: &str) -> String {
    format!("{}/tests/configurations/{name}.txt", env!("CARGO_MANIFEST_DIR"))
}

fn check(name: &str, text: &str) {
    testkit::golden(file(name), text);
}

#[test]
fn configurations_are_as_written() {
    for mesh in Mesh::ALL {
        let of_mesh = CASES.iter().filter(|(_, of, _)| of == mesh);
        let found = of_mesh.map(|(name, mesh, flags)| ((*name).to_owned(), described(*mesh, flags)));
        testkit::sections::golden(file(&mesh.to_string()), found);
    }
}

#[test]
fn limits_are_as_written() {
    let mut text = String::new();
    for mesh in Mesh::ALL {
        let [v4, v6] = Family::BOTH.map(|family| mesh.entry().remedy_of_gap.get(family));
        let MeshEntry { keys, proxy_program, .. } = mesh.entry();
        let resolver = proxy_program.resolver.unwrap_or("the proxy");
        text += &format!("---- {mesh}, answered by {resolver}\n{v4}\n{v6}\n{keys:?}\n{}", limits(*mesh));
    }
    check("limits", &text);
}
