//! Desired states, and the state that the binary may change.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::support::namespace::Namespace;
use crate::support::setting::{Family, Variant};

pub(crate) const VARIANTS: [Variant; 2] = [Variant::Legacy, Variant::Nft];

pub(crate) const REDIRECT: &[&str] = &["--pod-ips", "10.77.0.2", "-b", "*", "-i", "*", "-d", "15090,15021"];

/// Both families, three tables each, policy rules, routes, and the address.
pub(crate) const FULL: &[&str] = &[
    "--pod-ips",
    "10.77.0.2,fd77::2",
    "--dual-stack",
    "-m",
    "TPROXY",
    "-b",
    "*",
    "-i",
    "*",
    "--redirect-dns",
    "--dns-servers",
    "10.88.0.10,fd88::10",
];

pub(crate) fn call<'a>(name: &'a str, variant: Variant, flags: &[&'a str]) -> Vec<&'a str> {
    [&[name], variant.flags(), flags].concat()
}

/// The state that the binary may change, as other programs list it. Remarks, counters and tables without rules are omitted: empty
/// tables have no effect, and a legacy table can't be removed from a namespace once it exists.
pub(crate) fn state(namespace: &Namespace) -> String {
    let mut text = String::new();
    for variant in VARIANTS {
        for family in Family::BOTH {
            let program = variant.program(family, "-save");
            for (table, lines) in tables(&namespace.stdout(&program, &[])) {
                if lines.iter().any(|line| line.starts_with("-A") || line.contains(" - ")) {
                    writeln!(text, "{program} *{table}\n{}", lines.join("\n")).expect("a string grows");
                }
            }
        }
    }
    text + &routing(namespace)
}

pub(crate) fn routing(namespace: &Namespace) -> String {
    namespace.wait_for_addresses();
    ["rule show", "route show table all", "-o addr show"]
        .iter()
        .flat_map(|verb| ["-4", "-6"].map(|family| (family, verb)))
        .map(|(family, verb)| {
            let words: Vec<&str> = [family].into_iter().chain(verb.split(' ')).collect();
            format!("ip {}\n{}", words.join(" "), namespace.stdout("ip", &words))
        })
        .collect()
}

pub(crate) fn tables(saved: &str) -> BTreeMap<String, Vec<String>> {
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut table = String::new();
    for line in saved.lines() {
        match line.strip_prefix('*') {
            Some(name) => table = name.to_owned(),
            None if line.starts_with([':', '-']) => {
                let line = line.split(" [").next().unwrap_or(line).to_owned();
                tables.entry(table.clone()).or_default().push(line);
            }
            None => {}
        }
    }
    tables
}

#[track_caller]
pub(crate) fn same(before: &str, after: &str, what: &str) {
    if before == after {
        return;
    }
    let only = |these: &str, those: &str, sign: &str| -> String {
        let lines = these.lines().filter(|line| !those.lines().any(|other| other == *line));
        lines.map(|line| format!("{sign} {line}\n")).collect()
    };
    let difference = only(before, after, "-") + &only(after, before, "+");
    panic!("{what}\n{difference}--- before\n{before}--- after\n{after}");
}
