//! Configurations that depend on what the machine answers, on machines that answer little or nothing.

use super::{Flags, check, resolved_on};
use mesh::preview::{self, Preview};
use mesh::sources::Host;
use mesh::{Mesh, Resolved};
use rules::{Family, Gid, Uid};
use std::{io, net::IpAddr};

/// Whose configurations depend on what the machine answers.
const ASKING: &[(Mesh, Flags)] = &[
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
struct SparseMachine {
    /// `None` where they can't be listed.
    addresses: Option<&'static [&'static str]>,
    may_lack_addresses: bool,
    /// `None` where the file can't be read.
    servers: Option<&'static [&'static str]>,
    /// Whether users, groups and rules can be read.
    is_readable: bool,
}

/// Without an address, and with a server.
const MACHINE: SparseMachine = SparseMachine {
    addresses: Some(&[]),
    may_lack_addresses: false,
    servers: Some(&["10.0.0.10"]),
    is_readable: true,
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
        "addresses that nobody can call",
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
];

/// Addresses, or an error where they cannot be had.
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

#[test]
fn what_machines_answer_counts_as_written() {
    let mut text = String::new();
    for (name, machine) in MACHINES {
        text += &format!("---- {name}\n");
        for (mesh, flags) in ASKING {
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
