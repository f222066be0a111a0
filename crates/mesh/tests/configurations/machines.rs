//! Configurations that depend on machine facts, on machines with few facts or none.

use super::{Machine, check, raw};
use mesh::kuma::{Kuma, unknown_user};
use mesh::preview::{self, Preview};
use mesh::sources::{Given, Host, Raw, SettingReader, Source};
use mesh::{Mesh, Setting, configure, linkerd, resolve};
use rules::{Family, Gid, Uid};
use std::{io, net::IpAddr};

struct SparseMachine {
    addresses: Option<&'static [&'static str]>,
    may_lack_addresses: bool,
    servers: Option<&'static [&'static str]>,
    is_readable: bool,
    known: &'static [&'static str],
    docker: Family,
    may_read_rules: bool,
}

const MACHINE: SparseMachine = SparseMachine {
    addresses: Some(&[]),
    may_lack_addresses: false,
    servers: Some(&["10.0.0.10"]),
    is_readable: true,
    known: &["web", "java", "kuma-dp"],
    docker: Family::V4,
    may_read_rules: true,
};

const MACHINES: &[(&str, SparseMachine)] = &[
    ("nothing can be read", SparseMachine { addresses: None, servers: None, is_readable: false, ..MACHINE }),
    ("no address, no server", SparseMachine { servers: Some(&[]), ..MACHINE }),
    (
        "no address yet",
        SparseMachine {
            addresses: Some(&["127.0.0.1", "::1"]),
            may_lack_addresses: true,
            servers: Some(&["fd00::a"]),
            ..MACHINE
        },
    ),
    (
        "unreachable addresses",
        SparseMachine {
            addresses: Some(&["127.0.0.1", "169.254.0.9", "fe80::1", "224.0.0.1", "ff02::1"]),
            ..MACHINE
        },
    ),
    (
        "IPv6 first",
        SparseMachine { addresses: Some(&["127.0.0.1", "fe80::1", "fd00::9", "10.0.0.9"]), ..MACHINE },
    ),
    (
        "IPv4 first",
        SparseMachine { addresses: Some(&["127.0.0.1", "169.254.0.9", "10.0.0.9", "fd00::9"]), ..MACHINE },
    ),
    (
        "Docker answers over IPv6, and a user has the number of Kuma's proxy",
        SparseMachine {
            addresses: Some(&["10.1.2.3", "fd00::3"]),
            servers: Some(&["10.0.0.10", "127.0.0.53", "fd00::a"]),
            known: &["web", "kuma-dp", "5678"],
            docker: Family::V6,
            ..MACHINE
        },
    ),
    (
        "no user, and unreadable rules",
        SparseMachine { addresses: Some(&["10.1.2.3"]), known: &[], may_read_rules: false, ..MACHINE },
    ),
];

fn parsed_addresses(addresses: Option<&[&str]>) -> io::Result<Vec<IpAddr>> {
    let parsed = |all: &[&str]| all.iter().map(|text| text.parse().expect("an address")).collect();
    addresses.map(parsed).ok_or_else(|| io::Error::other("out of order"))
}

impl SparseMachine {
    fn if_readable<T>(&self, value: T) -> io::Result<T> {
        if self.is_readable { Ok(value) } else { Err(io::Error::other("out of order")) }
    }
}

impl Host for SparseMachine {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        self.if_readable(self.known.contains(&name).then(|| Uid::new(1002).expect("a user")))
    }

    fn has_user(&self, uid: Uid) -> io::Result<bool> {
        self.if_readable(self.known.contains(&&*uid.to_string()))
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        self.if_readable(self.known.contains(&name).then(|| Gid::new(202).expect("a group")))
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
        match path {
            "/other" => parsed_addresses(Some(&["10.9.9.9"])),
            _ => Err(io::Error::other("no such file")),
        }
    }

    fn has_nat_chain(&self, family: Family, name: &str) -> io::Result<bool> {
        assert_eq!(name, "DOCKER_OUTPUT");
        if !self.may_read_rules {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.if_readable(family == self.docker)
    }
}

fn outcome(machine: &SparseMachine, raw: &Raw, numbers_only: bool) -> String {
    let mut reader = SettingReader::new(raw, Vec::new());
    let capture = configure(&mut reader, machine, numbers_only);
    let warnings = match reader.finish() {
        Ok(warnings) => warnings,
        Err(problems) => return problems.0.iter().map(|problem| format!("  {problem}\n")).collect(),
    };
    let proxy = capture.proxy();
    let dns = capture.facts().stale_flows.map(|flows| (flows.destinations, flows.families));
    let mut text =
        format!("  IPv6: {}, users {:?}, groups {:?}, DNS {dns:?}\n", capture.ipv6(), proxy.uids, proxy.gids);
    match capture.mesh() {
        Mesh::Istio | Mesh::Ambient => {}
        Mesh::Linkerd => {
            text += &format!("  missing: {:?}\n", linkerd::missing(raw).collect::<Vec<_>>());
        }
        Mesh::Kuma => {
            let rules = preview::print(&*capture, Preview::Restore).text;
            let count = |words: &str| rules.matches(words).count();
            text +=
                &format!("  rules for Docker {}, for zones {}\n", count("DOCKER_OUTPUT"), count("--zone"));
            text += &format!("  unknown: {:?}\n", unknown_user(raw, machine));
        }
    }
    warnings.into_iter().for_each(|warning| text += &format!("  warning: {warning}\n"));
    text
}

#[test]
fn outcomes_depend_on_the_machines_facts() {
    check("machines", |call| {
        let raw = raw(call);
        let answer = |(name, machine): &(&str, SparseMachine)| {
            let [in_pod, on_node] = [false, true].map(|numbers_only| outcome(machine, &raw, numbers_only));
            let on_node = if on_node == in_pod { String::new() } else { format!("on its node:\n{on_node}") };
            format!("{name}:\n{in_pod}{on_node}")
        };
        MACHINES.iter().map(answer).collect()
    });
}

/// In a file, the key alone captures nothing; the injector's defaults count as flags.
#[test]
fn capture_of_all_dns_by_default_is_more_than_by_key() {
    let is_captured = |source: Source| {
        let all = Given { value: "true".to_owned(), source };
        let raw = Raw::of([(Kuma::CaptureAllDns, all)]).over(Raw::of_flags([(Setting::Mesh, "kuma")]));
        let resolved = resolve(&raw, &Machine, Vec::new()).expect("good settings");
        resolved.capture.facts().stale_flows.is_some()
    };
    assert!(is_captured(Source::Default(Kuma::CaptureAllDns)));
    assert!(!is_captured(Source::Key("redirect.dns.captureAll".to_owned())));
}
