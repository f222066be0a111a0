//! nf_tables tables set by other programs, as `nft` lines.

use crate::oracle::command::Command;
use crate::oracle::grammar::{FOREIGN_PORT, address, id, mark, network, one, own, port};
use crate::support::random::Random;
use crate::support::setting::Family;

struct Place<'a> {
    table: &'a str,
    family: &'a str,
    /// `filter`, `nat` or `route`; empty for a chain without a hook.
    kind: &'a str,
    hook: &'a str,
}

/// A table with one or two base chains, and perhaps a chain that they jump to.
pub(crate) fn table(random: &mut Random, tag: &str) -> Vec<Command> {
    let family = random.of(&["ip", "ip6", "inet", "inet", "inet", "netdev", "bridge"]);
    let name = match random.one_in(6) && matches!(family, "ip" | "ip6") {
        true => one(random, &["filter", "nat", "mangle"]),
        false => tag.to_owned(),
    };
    let dormant = random.one_in(8);
    let flags = if dormant { " { flags dormant; }" } else { "" };
    let mut lines = vec![format!("add table {family} {name}{flags}")];
    let v4 = "{ type ipv4_addr; flags interval; elements = { 10.99.0.0/16, 10.77.0.1, 127.0.0.1 }; }";
    lines.push(format!("add set {family} {name} v4 {v4}"));
    lines.push(format!(
        "add set {family} {name} ports {{ type inet_service; elements = {{ 80, 443, 8080 }}; }}"
    ));
    let of_rules = random.one_in(2);
    if of_rules {
        lines.push(format!("add chain {family} {name} more"));
        let place = Place { table: &name, family, kind: "", hook: "" };
        lines.extend(rules(random, &place, false));
    }
    for number in 0..random.of(&[1, 1, 2]) {
        let (kind, hook, priority) = base(random, family);
        let device = match (family, hook) {
            ("netdev", _) | (_, "ingress") => format!(" device {}", random.of(&["eth0", "lo"])),
            _ => String::new(),
        };
        let policy = if random.one_in(12) { "drop" } else { "accept" };
        let chain = format!("c{number}");
        lines.push(format!(
            "add chain {family} {name} {chain} {{ type {kind} hook {hook}{device} priority {priority}; policy {policy}; }}"
        ));
        let place = Place { table: &name, family, kind, hook };
        let of_chain = rules(random, &place, of_rules);
        lines.extend(of_chain.into_iter().map(|line| line.replacen(" more ", &format!(" {chain} "), 1)));
    }
    lines.into_iter().map(Command::Nft).collect()
}

fn base(random: &mut Random, family: &str) -> (&'static str, &'static str, i32) {
    match family {
        "netdev" => ("filter", random.of(&["ingress", "egress"]), random.of(&[-10, 0])),
        "bridge" => ("filter", random.of(&["prerouting", "input", "output"]), random.of(&[-200, 0])),
        _ => match random.of(&["filter", "filter", "nat", "nat", "route"]) {
            "nat" => {
                let hook =
                    random.of(&["prerouting", "output", "prerouting", "output", "postrouting", "input"]);
                ("nat", hook, random.of(&[-150, -110, -101, -99, -50, 100]))
            }
            "route" => ("route", "output", random.of(&[-160, -149, -50])),
            _ => {
                let hooks =
                    ["prerouting", "output", "prerouting", "output", "input", "postrouting", "ingress"];
                let hook = random.of(if family == "inet" { &hooks } else { &hooks[..6] });
                ("filter", hook, random.of(&[-310, -290, -160, -149, -5, 5, 50, 110]))
            }
        },
    }
}

/// Rules for a chain; `leads_on` allows jumps to the chain `more`.
fn rules(random: &mut Random, place: &Place<'_>, leads_on: bool) -> Vec<String> {
    let Place { table, family, .. } = place;
    let count = random.of(&[1, 2, 2, 3]);
    let rule = |_| {
        let mut words: Vec<String> = Vec::new();
        for _ in 0..random.of(&[0, 1, 1, 2]) {
            words.push(matching(random, place));
        }
        if random.one_in(3) {
            words.push(continuing(random, place));
        }
        words.push(ending(random, place, leads_on));
        format!("add rule {family} {table} more {}", words.join(" "))
    };
    (0..count).map(rule).collect()
}

fn families(random: &mut Random, family: &str) -> Family {
    match family {
        "ip" => Family::V4,
        "ip6" => Family::V6,
        _ => random.of(&Family::BOTH),
    }
}

fn matching(random: &mut Random, place: &Place<'_>) -> String {
    let of = families(random, place.family);
    let ip = if of == Family::V4 { "ip" } else { "ip6" };
    let not = random.of(&["", "", "", "!= "]);
    let way = random.of(&["saddr", "daddr", "daddr"]);
    let protocol = random.of(&["tcp", "udp"]);
    let way_of_port = random.of(&["dport", "dport", "dport", "sport"]);
    match random.of(&(0..44).collect::<Vec<u32>>()) {
        0..=4 => format!("{ip} {way} {not}{}", network(random, of)),
        5 => format!("{ip} {way} {not}{{ {}, {} }}", address(random, of), address(random, of)),
        6 => format!("ip daddr {not}@v4"),
        7..=10 => format!("{protocol} {way_of_port} {not}{}", port(random)),
        11 => format!("{protocol} dport {not}{{ 80, 8080, 9000-9100 }}"),
        12 => format!("tcp dport {not}@ports"),
        13 => {
            format!("tcp dport {} {}", random.of(&["<", ">", "<=", ">="]), random.of(&[80, 443, 1024, 8080]))
        }
        14 => format!("meta l4proto {not}{protocol}"),
        15 => format!("meta l4proto {{ tcp, udp }} th dport {}", port(random)),
        16 | 17 => format!("meta skuid {not}{}", id(random)),
        18 => format!("meta skgid {not}{}", id(random)),
        19 | 20 => format!("meta mark {not}{}", mark(random)),
        21 => format!("meta mark and 0xff {not}{}", random.of(&["0", "0x11", "0x39"])),
        22 => format!("ct mark {not}{}", mark(random)),
        23 | 24 => {
            let states = ["new", "established,related", "invalid", "untracked", "new,untracked"];
            format!("ct state {not}{}", random.of(&states))
        }
        25 | 26 => {
            format!("{} {not}\"{}\"", interface(random, place, "name"), random.of(&["eth0", "lo", "eth*"]))
        }
        27 => format!("{} {not}lo", interface(random, place, "")),
        28 => format!("meta nfproto {}", random.of(&["ipv4", "ipv6"])),
        29 => format!("fib {} type {not}local", random.of(&["daddr", "daddr", "saddr"])),
        30 => format!("fib daddr . {} type {not}local", interface(random, place, "")),
        31 => "ct direction original".to_owned(),
        32 => format!("ct original {ip} daddr {not}{}", address(random, of)),
        33 => format!("meta length {} 1000", random.of(&["<", ">"])),
        34 => format!("limit rate {} 1/hour", random.of(&["over", ""])),
        35 => format!("numgen random mod 2 {not}0"),
        36 => format!("tcp flags & (fin | syn | rst | ack) {} syn", random.of(&["==", "!="])),
        37 => format!("tcp flags {not}syn"),
        38 => format!("ip dscp {not}{}", random.of(&["cs0", "cs1"])),
        39 => format!("meta pkttype {not}{}", random.of(&["host", "broadcast"])),
        40 => format!("meta protocol {not}{}", random.of(&["ip", "ip6"])),
        41 => format!("ct status {not}{}", random.of(&["dnat", "snat", "confirmed"])),
        42 => "socket transparent 1".to_owned(),
        _ => format!("{ip} daddr . tcp dport {not}{{ {} . 8080 }}", address(random, of)),
    }
}

/// A match on an interface that the hook's packets usually have.
fn interface(random: &mut Random, place: &Place<'_>, name: &str) -> String {
    let way = match place.hook {
        "output" | "postrouting" | "egress" => "oif",
        "prerouting" | "input" | "ingress" => "iif",
        _ => random.of(&["iif", "oif"]),
    };
    format!("{way}{name}")
}

fn continuing(random: &mut Random, place: &Place<'_>) -> String {
    let mark = mark(random);
    match random.of(&(0..14).collect::<Vec<u32>>()) {
        0 | 1 => "counter".to_owned(),
        2..=4 => format!("meta mark set {mark}"),
        5 => format!("ct mark set {mark}"),
        6 => "meta mark set ct mark".to_owned(),
        7 => format!("meta mark set meta mark or {mark}"),
        8 => "ip dscp set cs1".to_owned(),
        9 => {
            format!("{} dport set {}", random.of(&["tcp", "udp"]), random.of(&[8080, 9090]))
        }
        10 => format!("ip daddr set {}", address(random, Family::V4)),
        11 if matches!(place.hook, "prerouting" | "output") => "notrack".to_owned(),
        12 if matches!(place.hook, "prerouting" | "output") => "ct zone set 7".to_owned(),
        _ => "meta priority set 1:1".to_owned(),
    }
}

fn ending(random: &mut Random, place: &Place<'_>, leads_on: bool) -> String {
    let of = families(random, place.family);
    let (family, to) = (if of == Family::V4 { "ip" } else { "ip6" }, address(random, of));
    let family = if place.family == "inet" { format!(" {family}") } else { String::new() };
    let host = if of == Family::V4 { to.clone() } else { format!("[{to}]") };
    match random.of(&(0..12).collect::<Vec<u32>>()) {
        0 | 1 if place.kind == "nat" && place.hook != "postrouting" && place.hook != "input" => {
            one(random, &[&format!("redirect to :{FOREIGN_PORT}"), "redirect to :9090", "redirect"])
        }
        2 | 3 if place.kind == "nat" && place.hook != "postrouting" && place.hook != "input" => {
            let port = random.of(&["", ":7777", ":8080"]);
            let to = if port.is_empty() { &to } else { &host };
            let protocol = if port.is_empty() { "" } else { random.of(&["", "meta l4proto tcp "]) };
            format!("{protocol}dnat{family} to {to}{port}")
        }
        0..=3 if place.hook == "postrouting" && place.kind == "nat" => {
            let source = format!("snat{family} to {}", own(of));
            one(random, &["masquerade", "masquerade", &source])
        }
        0..=4 if leads_on => one(random, &["jump more", "jump more", "goto more"]),
        4 if place.kind == "filter" && place.hook == "prerouting" => {
            format!("meta l4proto tcp tproxy{family} to :{FOREIGN_PORT}")
        }
        4 | 5 => "drop".to_owned(),
        6 => one(random, &["reject", "queue num 7 bypass", "queue num 7"]),
        7 => "return".to_owned(),
        8 => "tcp dport vmap { 80 : drop, 8080 : accept }".to_owned(),
        9 => "counter".to_owned(),
        10 => continuing(random, place),
        _ => "accept".to_owned(),
    }
}
