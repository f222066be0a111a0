//! Rules of other programs in either iptables variant.

use crate::oracle::command::Command;
use crate::oracle::grammar::{FOREIGN_PORT, address, mark, network, one, own, port};
use crate::support::random::Random;
use crate::support::setting::{Family, Variant};

pub(crate) fn rules(random: &mut Random, tag: &str) -> Vec<Command> {
    let variant = random.of(&[Variant::Nft, Variant::Nft, Variant::Legacy]);
    let family = random.of(&Family::BOTH);
    let tables = ["filter", "filter", "nat", "nat", "nat", "mangle", "mangle", "raw"];
    let table = random.of(&tables);
    let chain = format!("{tag}-CHAIN");
    let has_chain = random.one_in(2);
    let mut lines = Vec::new();
    if has_chain {
        lines.push(format!("-N {chain}"));
        for _ in 0..random.of(&[1, 2]) {
            lines.push(format!("-A {chain} {}", rule(random, table, "", family, None)));
        }
    }
    for _ in 0..random.of(&[1, 2, 3]) {
        let hooks: &[&str] = match table {
            "filter" => &["OUTPUT", "OUTPUT", "INPUT", "FORWARD"],
            "raw" => &["OUTPUT", "PREROUTING"],
            "nat" => &["OUTPUT", "OUTPUT", "PREROUTING", "PREROUTING", "POSTROUTING", "INPUT"],
            _ => &["OUTPUT", "OUTPUT", "PREROUTING", "INPUT", "POSTROUTING"],
        };
        let hook = random.of(hooks);
        let verb = random.of(&["-A", "-A", "-I"]);
        let to = has_chain.then_some(chain.as_str());
        lines.push(format!("{verb} {hook} {}", rule(random, table, hook, family, to)));
    }
    if table == "filter" && random.one_in(10) {
        lines.push(format!("-P {} DROP", random.of(&["OUTPUT", "INPUT"])));
    }
    lines.into_iter().map(|line| Command::Iptables(variant, family, table, line)).collect()
}

fn rule(random: &mut Random, table: &str, hook: &str, family: Family, chain: Option<&str>) -> String {
    let mut words: Vec<String> = Vec::new();
    let protocol = random.of(&["", "-p tcp", "-p tcp", "-p udp", "! -p udp"]);
    words.push(protocol.to_owned());
    for _ in 0..random.of(&[0, 1, 1, 2]) {
        let more = matching(random, protocol, hook, family);
        // A module's option may occur only once.
        let module = more.split(' ').find(|word| word.starts_with("--") || word.len() == 2);
        if !words.iter().any(|word| module.is_some_and(|module| word.contains(module))) {
            words.push(more);
        }
    }
    words.push(target(random, protocol, table, hook, family, chain));
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

fn matching(random: &mut Random, protocol: &str, hook: &str, family: Family) -> String {
    let not = random.of(&["", "", "", "! "]);
    let leaves = matches!(hook, "OUTPUT" | "POSTROUTING" | "");
    let arrives = matches!(hook, "PREROUTING" | "INPUT" | "");
    let has_ports = matches!(protocol, "-p tcp" | "-p udp");
    let tcp = protocol == "-p tcp";
    let id = random.of(&["0", "1000", "1337", "2000", "2102", "5678"]);
    match random.of(&(0..32).collect::<Vec<u32>>()) {
        0..=2 => format!("{not}-d {}", network(random, family)),
        3 => format!("{not}-s {}", network(random, family)),
        4..=7 if has_ports => format!("{not}--dport {}", port(random).replace('-', ":")),
        8 if has_ports => format!("-m multiport {not}--dports 80,8080,9000:9100"),
        9 if has_ports => format!("{not}--sport {}", port(random).replace('-', ":")),
        10 | 11 if leaves && !hook.is_empty() => format!("-m owner {not}--uid-owner {id}"),
        12 if leaves && !hook.is_empty() => format!("-m owner {not}--gid-owner {id}"),
        13 if leaves && !hook.is_empty() => format!("-m owner {not}--gid-owner {id} --suppl-groups"),
        14 if leaves && !hook.is_empty() => format!("-m owner {not}--socket-exists"),
        15 if leaves => format!("{not}-o {}", random.of(&["lo", "eth0", "eth+"])),
        16 if arrives => format!("{not}-i {}", random.of(&["lo", "eth0", "eth+"])),
        17 => format!("-m mark {not}--mark {}", mark(random)),
        18 => format!("-m connmark {not}--mark {}", mark(random)),
        19 | 20 => {
            let states = ["NEW", "ESTABLISHED,RELATED", "INVALID", "UNTRACKED", "DNAT"];
            format!("-m conntrack {not}--ctstate {}", random.of(&states))
        }
        21 => format!("-m conntrack {not}--ctorigdst {}", address(random, family)),
        22 => format!("-m conntrack --ctdir {}", random.of(&["ORIGINAL", "REPLY"])),
        23 => format!("-m addrtype {not}--dst-type {}", random.of(&["LOCAL", "LOCAL", "UNICAST"])),
        24 if leaves && !hook.is_empty() => format!("-m addrtype {not}--dst-type LOCAL --limit-iface-out"),
        25 if arrives && !hook.is_empty() => format!("-m addrtype {not}--dst-type LOCAL --limit-iface-in"),
        26 => format!("-m addrtype {not}--src-type LOCAL"),
        27 if tcp => format!("{not}--syn"),
        28 if tcp => format!("{not}--tcp-flags SYN,RST SYN"),
        29 => format!(
            "-m statistic --mode {}",
            random.of(&["random --probability 0.5", "nth --every 2 --packet 0"])
        ),
        30 => format!("-m length {not}--length 0:500"),
        31 => "-m limit --limit 1/hour".to_owned(),
        _ => format!("-m state --state {}", random.of(&["NEW", "ESTABLISHED", "INVALID"])),
    }
}

fn target(
    random: &mut Random,
    protocol: &str,
    table: &str,
    hook: &str,
    family: Family,
    chain: Option<&str>,
) -> String {
    let to_ports = matches!(protocol, "-p tcp" | "-p udp");
    let destination = |random: &mut Random| {
        let to = address(random, family);
        match (to_ports && random.one_in(2), family) {
            (false, _) => to,
            (true, Family::V4) => format!("{to}:{FOREIGN_PORT}"),
            (true, Family::V6) => format!("[{to}]:{FOREIGN_PORT}"),
        }
    };
    let set_mark = format!("-j MARK --set-{}mark {}", random.of(&["", "x"]), mark(random));
    match (random.of(&(0..12).collect::<Vec<u32>>()), table) {
        (0..=3, _) if chain.is_some() => {
            format!("{} {}", random.of(&["-j", "-j", "-g"]), chain.unwrap_or_default())
        }
        (4..=6, "nat") if matches!(hook, "OUTPUT" | "PREROUTING" | "") => match random.of(&[0, 1, 2]) {
            0 if to_ports => format!("-j REDIRECT --to-ports {}", random.of(&[FOREIGN_PORT, 9090])),
            0 => "-j REDIRECT".to_owned(),
            _ => format!("-j DNAT --to-destination {}", destination(random)),
        },
        (4..=6, "nat") if hook == "POSTROUTING" => {
            let source = format!("-j SNAT --to-source {}", own(family));
            one(random, &["-j MASQUERADE", "-j MASQUERADE", &source])
        }
        (4..=6, "mangle") => match random.of(&[0, 0, 1, 2, 3, 4, 5]) {
            0 => set_mark,
            1 => format!("-j MARK --or-mark {}", mark(random)),
            2 => format!("-j CONNMARK --set-mark {}", mark(random)),
            3 => one(random, &["-j CONNMARK --save-mark", "-j CONNMARK --restore-mark"]),
            4 => one(
                random,
                &["-j TOS --set-tos 0x10", "-j DSCP --set-dscp 0x08", "-j CLASSIFY --set-class 1:1"],
            ),
            _ if protocol == "-p tcp" && hook == "PREROUTING" => {
                format!("-j TPROXY --on-port {FOREIGN_PORT} --tproxy-mark {}", random.of(&["0x0", "0x539"]))
            }
            _ => set_mark,
        },
        (4 | 5, "raw") => one(random, &["-j CT --notrack", "-j CT --zone 7", "-j NOTRACK"]),
        (4 | 5, "filter") => one(random, &["-j REJECT", "-j DROP"]),
        (6, "filter") => "-j NFQUEUE --queue-num 7 --queue-bypass".to_owned(),
        (7, _) => one(random, &["-j DROP", ""]),
        (8, _) => "-j RETURN".to_owned(),
        (9, _) => one(random, &["-j LOG --log-prefix other", "-j NFLOG --nflog-group 9", ""]),
        _ => "-j ACCEPT".to_owned(),
    }
}
