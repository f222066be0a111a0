//! Rules that resemble ours: upstream's, whose place we take, and those of Istio's ambient mode, which we exclude.
//!
//! Upstream's rules are ours letter for letter, but for our comment in base chains.

use super::defaults::{LOG_GROUP, TPROXY_MARK, TPROXY_TABLE};
use crate::ambient;
use rules::{Chains, Hook, Table};
use rules::{Pattern, Predecessor, Proof};

/// Upstream's `tools/istio-iptables`, and its native mode, `tools/istio-nftables`.
pub(super) const ISTIO_IPTABLES: Predecessor = Predecessor {
    name: "istio-iptables",
    patterns: &PATTERNS,
    log_group: Some(LOG_GROUP),
    policy_rule: Some((TPROXY_MARK, TPROXY_TABLE.number())),
    tables: &["istio-proxy-nat", "istio-proxy-mangle", "istio-proxy-raw"],
};

const PATTERNS: [Pattern; 16] = [
    of(Table::Nat, Hook::Prerouting, "-i * -j RETURN", Proof::Position),
    of(Table::Nat, Hook::Output, "-o * -j RETURN", Proof::Position),
    of(Table::Mangle, Hook::Prerouting, "-i * -j RETURN", Proof::Position),
    of(Table::Mangle, Hook::Output, "-o * -j RETURN", Proof::Position),
    // Until 1.20; since then the packets go to a separate chain.
    of(Table::Mangle, Hook::Prerouting, "-m conntrack --ctstate INVALID -j DROP", Proof::Table),
    of(Table::Mangle, Hook::Prerouting, "-p tcp -m mark --mark 1337 -j CONNMARK --save-mark", Proof::Form),
    of(Table::Mangle, Hook::Prerouting, "-p tcp -m mark --mark # -j CONNMARK --save-mark", Proof::Table),
    of(Table::Mangle, Hook::Output, "-o lo -p tcp -m mark --mark 1337 -j RETURN", Proof::Form),
    of(Table::Mangle, Hook::Output, "-o lo -p tcp -m mark --mark # -j RETURN", Proof::Table),
    of(
        Table::Mangle,
        Hook::Output,
        "! -d * -o lo -p tcp -m owner --*id-owner * -j MARK --set-mark 1338",
        Proof::Form,
    ),
    of(Table::Mangle, Hook::Output, "-p tcp -m connmark --mark 1337 -j CONNMARK --restore-mark", Proof::Form),
    of(Table::Mangle, Hook::Output, "-p tcp -m connmark --mark # -j CONNMARK --restore-mark", Proof::Table),
    // Istio 1.7 to 1.9, for DNS, to ports 15013 and 15053, and for what leaves from loopback.
    of(
        Table::Nat,
        Hook::Output,
        "-p udp -m udp --dport 53 -j DNAT --to-destination 127.0.0.1:150*3",
        Proof::Form,
    ),
    of(
        Table::Nat,
        Hook::Postrouting,
        "-p udp -m udp --dport 150*3 -j SNAT --to-source 127.0.0.1",
        Proof::Form,
    ),
    of(Table::Nat, Hook::Output, "-p udp --dport 53 -m owner --*id-owner * -j RETURN", Proof::NoComments),
    of(Table::Mangle, Hook::Output, "-s * ! -d 127.0.0.1/32 -p tcp -j MARK --set-mark 1337", Proof::Form),
];

const fn of(table: Table, hook: Hook, rule: &'static str, proof: Proof) -> Pattern {
    Pattern { table, hook, rule, proof }
}

/// Chains of ambient mode named like a sidecar's: inside of pods, and on the host, for the probes of the kubelet.
pub(super) const CONFLICTING: [Chains; 2] = [ambient::OWNERSHIP.chains, Chains::Named("ISTIO_POSTRT", &[])];

#[cfg(test)]
mod tests {
    use crate::istio::OWNERSHIP;
    use crate::{Mesh, OWNERS};
    use rules::{Chain, Family, Table, inheritance, parse, render::iptables::appended};

    const CHAINS: &str = ":PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n";
    const JUMP: &str = "-A OUTPUT -j ISTIO_OUTPUT\n";

    fn check(table: Table, rules: &str, inherited: &[&str], doubtful: &[&str]) {
        let text = format!("*{table}\n{CHAINS}{rules}COMMIT\n");
        let state = parse::save(&text, Family::V4, &OWNERSHIP).expect("a listing");
        let lines = state
            .chains(table)
            .flat_map(|(chain, chain_rules)| chain_rules.lines.iter().map(move |line| (chain, line)));
        let found = lines.filter(|(_, line)| line.is_inherited());
        let found: Vec<String> = found.map(|(chain, line)| appended(chain, line)).collect();
        assert_eq!(found, inherited, "inherited of\n{rules}");
        let found = inheritance::doubtful(&state, &OWNERSHIP);
        let found: Vec<String> = found.map(|(_, hook, line)| appended(&Chain::Base(hook), line)).collect();
        assert_eq!(found, doubtful, "doubtful of\n{rules}");
    }

    #[test]
    fn what_nobody_else_makes_is_inherited_alone() {
        let save = "-A PREROUTING -p tcp -m mark --mark 1337 -j CONNMARK --save-mark";
        let mark = "-A OUTPUT ! -d ::1/128 -p tcp -o lo -m owner --uid-owner 7 -j MARK --set-mark 1338";
        check(Table::Mangle, &format!("{save}\n"), &[save], &[]);
        check(Table::Nat, &format!("{save}\n"), &[], &[]);
        check(Table::Mangle, &format!("{}\n", save.replace("tcp", "udp")), &[], &[]);
        check(Table::Mangle, &format!("{}\n", save.replace("--mark 1337", "--mark 1337/0xff")), &[], &[]);
        check(Table::Mangle, &format!("{}\n", save.replace("-m mark", "-i eth0 -m mark")), &[], &[]);
        let other = save.replace("1337", "7");
        check(Table::Mangle, &format!("{other}\n"), &[], &[&other]);
        let mark = mark.replace("::1/128", "127.0.0.1/32").replace("-p tcp -o lo", "-o lo -p tcp");
        check(Table::Mangle, &format!("{other}\n{mark}\n"), &[&other, &mark], &[]);
    }

    #[test]
    fn older_rules_for_dns_are_inherited() {
        let own = "-A OUTPUT -p udp --dport 53 -m owner --uid-owner 7 -j RETURN";
        let query = "-A OUTPUT -p udp -m udp --dport 53 -j DNAT --to-destination 127.0.0.1:15053";
        check(Table::Nat, &format!("{own}\n{query}\n{JUMP}"), &[own, query], &[]);
        check(Table::Nat, &format!("{own}\n{}\n", query.replace("15053", "4053")), &[], &[]);
        // Kuma has some of the same, which are not Kuma's here.
        let text = format!("*nat\n{CHAINS}{own}\n{query}\n{JUMP}COMMIT\n");
        let state = parse::save(&text, Family::V4, &OWNERSHIP.union(OWNERS)).expect("a listing");
        let count = |mesh: Mesh| state.seen_by(&mesh.ownership()).count_of(&mesh.ownership());
        assert_eq!([Mesh::Istio, Mesh::Kuma].map(count), [3, 0]);
        let mark = "-A OUTPUT -s 127.0.0.1/32 ! -d 127.0.0.1/32 -p tcp -j MARK --set-mark 1337";
        check(Table::Mangle, &format!("{mark}\n"), &[mark], &[]);
    }

    #[test]
    fn rules_for_interfaces_are_known_by_their_company() {
        let (inbound, outbound) = ("-A PREROUTING -i eth5 -j RETURN", "-A OUTPUT -o eth5 -j RETURN");
        let both = format!("{inbound}\n{outbound}\n");
        check(Table::Nat, &both, &[], &[inbound, outbound]);
        check(Table::Nat, &format!("{both}{JUMP}"), &[inbound, outbound], &[]);
        // Behind the jump, it is none that upstream has put there.
        check(Table::Nat, &format!("{JUMP}{outbound}\n"), &[], &[outbound]);
        // Nor one whose twin is missing.
        check(Table::Nat, &format!("{outbound}\n{JUMP}"), &[], &[outbound]);
    }

    #[test]
    fn chains_of_ambient_are_not_ours() {
        let rules = ":ISTIO_PRERT - [0:0]\n:ISTIO_OUTPUT - [0:0]\n:ISTIO_INBOUND - [0:0]\n\
                     -A PREROUTING -j ISTIO_PRERT\n-A OUTPUT -j ISTIO_OUTPUT\n-A ISTIO_OUTPUT -j ACCEPT\n";
        let state =
            parse::save(&format!("*nat\n{CHAINS}{rules}COMMIT\n"), Family::V4, &OWNERSHIP).expect("valid");
        assert_eq!(state.count_of(&OWNERSHIP), 0);
        let owned: Vec<String> =
            state.part_of(&OWNERSHIP).chains(Table::Nat).map(|(chain, _)| chain.to_string()).collect();
        assert_eq!(owned, ["PREROUTING", "OUTPUT", "ISTIO_INBOUND"]);
    }
}
