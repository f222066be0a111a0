//! What settings come to: of each mesh a few configurations, whole, in `configurations/NAME.txt`, and what is refused.
//! `UPDATE_GOLDENS=1` writes the files.

use mesh::limit::CautionContext;
use mesh::preview::{self, Preview};
use mesh::recognition::{read_at, reasons, recognized};
use mesh::settings::{self, Setting};
use mesh::sources::{Given, Host, Raw, Source};
use mesh::{Capture, Mesh, Problems, Resolved, RuleReason, resolve};
use rules::nft::{self, LiveBase, LiveChain, LiveRule, LiveTable};
use rules::simulate::{Direction, Packet, View, ViewChain, ViewRule};
use rules::{Action, ConnState, Family, Gid, ListedCondition, Protocol, Uid, parse, render};
use std::fmt::Write;
use std::net::IpAddr;
use std::{env, fs, io, path::Path};

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
    ("linkerd-ports", Mesh::Linkerd, &[("ports-to-redirect", "80,443"), ("inbound-ports-to-ignore", "4190")]),
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
        Mesh::Kuma,
        &[
            ("kuma-dp-user", "nobody-knows"),
            ("ip-family-mode", "ipv5"),
            ("exclude-outbound-ports-for-uids", "sctp:1:2:3"),
            ("vnet", "docker0"),
        ],
    ),
    (Mesh::Ambient, &[("probe-address", "here"), ("reroute-virtual-interfaces", "a/b")]),
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
    (Mesh::Istio, &[("istio-inbound-tproxy-mark", "0"), ("pod-ips", "127.0.0.1,fe80::1")]),
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
const ODD: &[(Mesh, Flags)] = &[
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

/// Whose configurations depend on what the machine answers.
const ON_ODD_MACHINES: &[(Mesh, Flags)] = &[
    (Mesh::Istio, &[("redirect-dns", "true")]),
    (Mesh::Istio, &[("dual-stack", "true")]),
    (Mesh::Istio, &[("proxy-uid", "web"), ("ISTIO_OUTBOUND_OWNER_GROUPS", "java")]),
    (Mesh::Istio, &[("ENVOY_USER", "web"), ("pod-ips", "10.0.0.9")]),
    (Mesh::Istio, &[("pod-ips", "fe80::9")]),
    (Mesh::Linkerd, &[]),
    (Mesh::Kuma, &[("redirect-dns", "true")]),
    (Mesh::Kuma, &[("ip-family-mode", "dualstack"), ("redirect-all-dns-traffic", "true")]),
    (Mesh::Kuma, &[("kuma-dp-user", "web"), ("redirect-dns", "true"), ("resolv-config-path", "/none")]),
    (Mesh::Ambient, &[]),
];

/// A machine that answers little, or nothing.
struct OddMachine {
    /// `None` where they can't be listed.
    addresses: Option<&'static [&'static str]>,
    may_lack_addresses: bool,
    /// `None` where the file can't be read.
    servers: Option<&'static [&'static str]>,
    /// Whether users, groups and rules can be read.
    is_readable: bool,
}

const ODD_MACHINES: &[(&str, OddMachine)] = &[
    (
        "nothing can be read",
        OddMachine { addresses: None, may_lack_addresses: false, servers: None, is_readable: false },
    ),
    (
        "no address, no server",
        OddMachine { addresses: Some(&[]), may_lack_addresses: false, servers: Some(&[]), is_readable: true },
    ),
    (
        "no address yet",
        OddMachine {
            addresses: Some(&["127.0.0.1", "::1"]),
            may_lack_addresses: true,
            servers: Some(&["fd00::a"]),
            is_readable: true,
        },
    ),
    (
        "addresses that nobody can call",
        OddMachine {
            addresses: Some(&["127.0.0.1", "169.254.0.9", "fe80::1", "224.0.0.1", "ff02::1"]),
            may_lack_addresses: false,
            servers: Some(&["10.0.0.10"]),
            is_readable: true,
        },
    ),
    (
        "IPv6 first",
        OddMachine {
            addresses: Some(&["127.0.0.1", "fe80::1", "fd00::9", "10.0.0.9"]),
            may_lack_addresses: false,
            servers: Some(&["10.0.0.10"]),
            is_readable: true,
        },
    ),
    (
        "IPv4 first",
        OddMachine {
            addresses: Some(&["127.0.0.1", "169.254.0.9", "10.0.0.9", "fd00::9"]),
            may_lack_addresses: false,
            servers: Some(&["10.0.0.10"]),
            is_readable: true,
        },
    ),
];

/// Addresses, or an error where they cannot be had.
fn parsed_addresses(addresses: Option<&[&str]>) -> io::Result<Vec<IpAddr>> {
    let parsed = |all: &[&str]| all.iter().map(|text| text.parse().expect("an address")).collect();
    addresses.map(parsed).ok_or_else(|| io::Error::other("out of order"))
}

impl OddMachine {
    fn if_readable<T>(&self, value: T) -> io::Result<T> {
        if self.is_readable { Ok(value) } else { Err(io::Error::other("out of order")) }
    }
}

impl Host for OddMachine {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        self.if_readable(["web", "kuma-dp"].contains(&name).then(|| Uid::new(1002).expect("a user")))
    }

    fn has_user(&self, _: Uid) -> io::Result<bool> {
        self.if_readable(false)
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        self.if_readable((name == "java").then(|| Gid::new(202).expect("a group")))
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        parsed_addresses(self.addresses)
    }

    fn may_lack_addresses(&self) -> bool {
        self.may_lack_addresses
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        parsed_addresses(self.servers)
    }

    fn name_servers_in(&self, path: &str) -> io::Result<Vec<IpAddr>> {
        assert_eq!(path, "/none");
        Err(io::Error::other("no such file"))
    }

    fn has_nat_chain(&self, family: Family, name: &str) -> io::Result<bool> {
        assert_eq!(name, "DOCKER_OUTPUT");
        self.if_readable(family == Family::V4)
    }
}

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

/// Each rule as it is read back: the reason, the setting and the effect; and what shows without the others, where it differs.
fn read_back(view: &View) -> String {
    let mut text = String::new();
    let option = |setting: Option<Setting>| setting.map(|setting| setting.row().option());
    let found = recognized(view);
    assert_eq!(reasons(view), found.iter().map(|rule| (rule.at, rule.reason)).collect::<Vec<_>>());
    for rule in found {
        let chain = &view.chains()[rule.at.chain];
        let place = format!("{} {} {} {}", rule.mesh, chain.table, chain.chain, rule.at.rule + 1);
        let (reason, setting) = (rule.reason.map(|reason| reason.name()), option(rule.setting));
        let _ = write!(text, "{place} {reason:?} {setting:?} {:?} {:?}", rule.role, rule.meaning());
        let alone = read_at(view, rule.at).map(|(reason, setting)| (reason.name(), option(setting)));
        if alone.as_ref().map(|(reason, _)| *reason) != reason || alone.and_then(|alone| alone.1) != setting {
            let _ = write!(text, ", alone {:?}", read_at(view, rule.at));
        }
        text += if rule.is_reached { "\n" } else { ", not reached\n" };
    }
    text
}

/// A listing without its comments, as programs write rules that have none.
fn without_comments(listing: &str) -> String {
    let mut pieces = listing.split("-m comment --comment \"");
    let first = pieces.next().unwrap_or_default().to_owned();
    first + &pieces.map(|piece| piece.split_once("\" ").expect("a comment ends").1).collect::<String>()
}

/// The rules of a listing as Istio's native mode has them: in tables of nf_tables, one for each of iptables.
fn native_mode(view: &View) -> Vec<LiveTable> {
    let native_name = |name: &str| name.to_lowercase().replace('_', "-");
    let condition = |condition: &ListedCondition| match condition {
        ListedCondition::Known(known) => known.condition().map(ListedCondition::Nft),
        other => Some(other.clone()),
    };
    let rule = |rule: &ViewRule| LiveRule {
        text: String::new(),
        conditions: rule.conditions.iter().filter_map(condition).collect(),
        first: Vec::new(),
        action: match rule.action.chain() {
            Some(chain) => Action::Call { chain: native_name(chain.as_str()), returns: true },
            None => rule.action.clone(),
        },
        comment: String::new(),
        hits: None,
    };
    let chain = |chain: &ViewChain| LiveChain {
        name: native_name(&chain.chain),
        base: chain.base.map(|base| LiveBase { base, policy: chain.policy }),
        rules: chain.rules.iter().map(rule).collect(),
    };
    let table = |name: &str| {
        let chains = view.chains().iter().filter(|chain| chain.table == name).map(chain).collect();
        LiveTable { family: None, name: format!("inet istio-proxy-{name}"), chains }
    };
    ["raw", "mangle", "nat"].map(table).into()
}

/// The rules of a family as they are read back: from iptables, with and without comments, and from nf_tables.
fn all_read_back(capture: &Capture, family: Family) -> String {
    let listing = render::iptables::restore(&capture.rules(family));
    let listed = |text: &str| View::of_listing(parse::listing(text, family).expect("a listing"));
    let v6 = capture.rules(Family::V6);
    let table = nft::table(capture.owner().table, &capture.rules(Family::V4), capture.ipv6().then_some(&v6));
    let in_nftables = |tables: Vec<LiveTable>| {
        let mut view = View::empty(family);
        tables.into_iter().for_each(|table| view.add_nftables(table, &RuleReason::origin_of));
        view
    };
    let bare = listed(&without_comments(&listing));
    let native = (capture.mesh() == Mesh::Istio).then(|| in_nftables(native_mode(&bare)));
    let views = [
        ("iptables", Some(listed(&listing))),
        ("iptables, without comments", Some(bare)),
        ("nf_tables", Some(in_nftables(table.iter().map(nft::InetTable::listed).collect()))),
        ("nf_tables, as Istio's native mode", native),
    ];
    let section = |(from, view): &(&str, Option<View>)| {
        let text = read_back(view.as_ref()?);
        Some(format!("---- read back, {family}, {from}\n{text}"))
    };
    views.iter().filter_map(section).collect()
}

fn described(mesh: Mesh, flags: Flags) -> String {
    let (raw, Resolved { capture, warnings }) =
        resolved(mesh, flags).unwrap_or_else(|problems| panic!("{mesh} {flags:?}: {problems}"));
    let (proxy, lists) = (capture.proxy(), capture.lists());
    let cautions = |captures_inbound, drops_invalid| {
        let facts = CautionContext { proxy: &proxy, lists: &lists, captures_inbound, drops_invalid };
        mesh.reasons().cautions().iter().filter(|caution| (caution.applies)(&facts)).collect::<Vec<_>>()
    };
    let option = |setting: Setting| setting.row().option();
    assert_eq!(mesh::istio::of(&capture).is_some(), mesh == Mesh::Istio);
    let mut text = String::new();
    warnings.iter().for_each(|warning| text += &format!("warning: {warning}\n"));
    for unused in capture.unused() {
        text += &format!("unused: {}: {}; {}\n", option(unused.setting), unused.because, unused.remedy);
    }
    for (captures_inbound, drops_invalid) in [(true, false), (true, true), (false, false)] {
        for caution in cautions(captures_inbound, drops_invalid) {
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
            "{}: {} as {:?}, {:?} of {:?}, captured: {} ({})\n",
            option(item.setting),
            item.selector,
            item.selector,
            item.selector.condition(),
            item.selector.family(),
            item.captured,
            item.meaning()
        );
    }
    let passthrough = Family::BOTH.map(|family| proxy.passthrough(family));
    text += &format!("captures nothing: {}\n{:?}\n", capture.captures_nothing(), capture.keys());
    text += &format!("{proxy:?}\n{passthrough:?}\n{:?}\n{:?}\n", capture.routing(), capture.stale_flows());
    text += &format!("{:?}\n{:?}\n", capture.without_ipv6(&raw, false), capture.without_ipv6(&raw, true));
    for form in [Preview::Restore, Preview::Commands, Preview::Nft] {
        text += &format!("---- {form:?}\n{}", preview::print(&*capture, form).text);
    }
    let without = capture.without_dns();
    text += &format!("---- without DNS\n{}", preview::print(&*without, Preview::Restore).text);
    for family in capture.families() {
        text += &all_read_back(&capture, family);
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
    for limit in mesh.reasons().limits() {
        text += &format!("{} of {}: {:?}\n", limit.code, limit.reason.name(), limit.about_items("ITEMS"));
    }
    for (name, direction, protocol, mark, source, destination) in packets {
        let [source, destination] =
            [source, destination].map(|end| end.parse().expect("an address and a port"));
        let packet =
            Packet { direction, protocol, source, destination, mark, connmark: 0, state: ConnState::New };
        for fulfils in [true, false] {
            let met = mesh.reasons().limits().iter().filter(|limit| (limit.concerns)(&packet, fulfils));
            let met: Vec<String> =
                met.map(|limit| format!("{} {}", limit.code.name(), limit.reason.name())).collect();
            text += &format!("{name}, fulfils: {fulfils}: {}\n", met.join(", "));
        }
    }
    text
}

fn check(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/configurations/{name}.txt"));
    if env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&file, text).expect("the file can be written");
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    let differs = expected.lines().zip(text.lines()).position(|(one, other)| one != other);
    let differs = differs.map(|line| (line + 1, text.lines().nth(line)));
    assert_eq!(differs, None, "{}; UPDATE_GOLDENS=1 writes it", file.display());
    assert_eq!(expected, text);
}

#[test]
fn configurations_are_as_written() {
    for (name, mesh, flags) in CASES {
        check(name, &described(*mesh, flags));
    }
}

#[test]
fn limits_are_as_written() {
    let mut text = String::new();
    for mesh in Mesh::ALL {
        let [v4, v6] = Family::BOTH.map(|family| mesh.reasons().remedy_of_gap(family));
        text +=
            &format!("---- {mesh}, answered by {}\n{v4}\n{v6}\n{}", mesh.reasons().resolver(), limits(*mesh));
    }
    check("limits", &text);
}

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
fn odd_words_are_taken_with_warnings_as_written() {
    let mut text = String::new();
    for (mesh, flags) in ODD {
        let (_, resolved) =
            resolved(*mesh, flags).unwrap_or_else(|problems| panic!("{mesh} {flags:?}: {problems}"));
        text += &format!("---- {mesh}\n");
        resolved.warnings.iter().for_each(|warning| text += &format!("{warning}\n"));
        for unused in resolved.capture.unused() {
            text += &format!("unused: {:?}: {}; {}\n", unused.setting, unused.because, unused.remedy);
        }
    }
    check("odd", &text);
}

#[test]
fn what_machines_answer_counts_as_written() {
    let mut text = String::new();
    for (name, machine) in ODD_MACHINES {
        text += &format!("---- {name}\n");
        for (mesh, flags) in ON_ODD_MACHINES {
            text += &format!("{mesh} {flags:?}\n");
            match resolved_on(machine, *mesh, flags) {
                Ok((_, Resolved { capture, warnings })) => {
                    let proxy = capture.proxy();
                    let owners = format!("users {:?}, groups {:?}", proxy.uids, proxy.gids);
                    let dns = capture.stale_flows().map(|flows| (flows.destinations, flows.families));
                    text += &format!("  IPv6: {}, {owners}, DNS {dns:?}\n", capture.ipv6());
                    let rules = preview::print(&*capture, Preview::Restore).text;
                    text += &format!(
                        "  rules that leave DNS to Docker: {}\n",
                        rules.matches("DOCKER_OUTPUT").count()
                    );
                    warnings.iter().for_each(|warning| text += &format!("  warning: {warning}\n"));
                }
                Err(problems) => problems.0.iter().for_each(|problem| text += &format!("  {problem}\n")),
            }
        }
    }
    check("machines", &text);
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
