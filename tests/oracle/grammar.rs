//! Parts of foreign rules: values that the tests' packets have, or nearly have.

use crate::oracle::command::Command;
use crate::oracle::{iptables, nft, routes};
use crate::support::random::Random;
use crate::support::setting::Family;

pub(crate) const PORTS: [u16; 5] = [53, 80, 443, 8080, 9090];
pub(crate) const FOREIGN_PORT: u16 = 7777;

pub(crate) fn foreign(random: &mut Random, tag: &str) -> Vec<Command> {
    let mut commands = Vec::new();
    let parts = random.of(&[0, 1, 1, 2, 2, 3]);
    for number in 0..parts {
        commands.extend(match random.of(&[0, 0, 1, 1, 2]) {
            0 => nft::table(random, &format!("{tag}{number}")),
            1 => iptables::rules(random, &format!("{}{number}", tag.to_uppercase())),
            _ => routes::objects(random),
        });
    }
    commands
}

pub(crate) fn one(random: &mut Random, list: &[&str]) -> String {
    random.of(list).to_owned()
}

pub(crate) fn network(random: &mut Random, family: Family) -> String {
    let list: &[&str] = match family {
        Family::V4 => &[
            "10.77.0.1",
            "10.77.0.2",
            "10.99.0.1",
            "10.98.0.1",
            "10.99.0.0/16",
            "10.0.0.0/8",
            "127.0.0.1",
            "127.0.0.0/8",
            "192.0.2.0/24",
            "172.16.0.0/12",
            "10.88.0.10",
            "0.0.0.0/1",
        ],
        Family::V6 => &[
            "fd77::1",
            "fd77::2",
            "fd99::1",
            "fd98::1",
            "fd99::/16",
            "fd00::/8",
            "::1",
            "2001:db8::/32",
            "fe80::/10",
            "fd88::10",
            "8000::/1",
        ],
    };
    one(random, list)
}

pub(crate) fn address(random: &mut Random, family: Family) -> String {
    let list: &[&str] = match family {
        Family::V4 => &["10.77.0.1", "10.77.0.2", "10.99.0.1", "10.98.0.1", "127.0.0.1"],
        Family::V6 => &["fd77::1", "fd77::2", "fd99::1", "fd98::1", "::1"],
    };
    one(random, list)
}

/// An address to which answers return: SNAT to any other loses packets at routers, not by rules.
pub(crate) fn own(family: Family) -> &'static str {
    match family {
        Family::V4 => "10.77.0.2",
        Family::V6 => "fd77::2",
    }
}

pub(crate) fn port(random: &mut Random) -> String {
    one(random, &["53", "80", "443", "8080", "9090", "8080", "80", "15001", "15006", "1-1000", "8000-9000"])
}

pub(crate) fn id(random: &mut Random) -> String {
    one(random, &["0", "1000", "1337", "2000", "2102", "5678", "1000-2000"])
}

pub(crate) fn mark(random: &mut Random) -> String {
    one(random, &["0", "1", "0x111", "0x539", "1337", "0x2000"])
}
