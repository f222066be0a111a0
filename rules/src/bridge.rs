//! Guards: rules that keep two captures from taking the same packet while one replaces the other.
//!
//! TPROXY hands a packet to a socket and marks it; the packet goes on unchanged. A later `REDIRECT` would rewrite the
//! destination: if the port's last connection is still in TIME_WAIT under the new destination, the kernel refuses a second entry
//! (`inet_ehash_insert`). TPROXY rules in other tables would treat the mark as the packet's original one and save it for the
//! connection, whose replies are then routed back to the pod. So a guard precedes our rules in PREROUTING and lets marked packets
//! pass. It matches nothing while only one capture is installed: packets from other hosts have no mark, packets on `lo` are
//! exempt where marks are saved, and the pod's connections to itself don't meet `nat` twice.

use crate::{
    Chain, Hook, InterfaceName, ListedRule, Mark, Match, Negatable, Ownership, Protocol, Rule, State, Table,
    Target,
};
use std::collections::BTreeSet;

pub fn marks(state: &State) -> BTreeSet<Mark> {
    let lines = state.chains(Table::Mangle).flat_map(|(_, lines)| lines);
    let mark = |line: &ListedRule| match line {
        ListedRule::Typed(Rule { target: Target::Tproxy { mark, .. }, .. }) => Some(*mark),
        _ => None,
    };
    lines.filter_map(mark).collect()
}

/// Adds guards before the owner's rules in a table's PREROUTING, if any. `state` is the owner's part of the tables.
#[must_use]
pub fn guarded(mut state: State, table: Table, marks: &BTreeSet<Mark>, owner: &Ownership) -> State {
    let chains = state.tables.get_mut(&table);
    let lines = chains.and_then(|chains| chains.get_mut(&Chain::Base(Hook::Prerouting)));
    if let Some(lines) = lines.filter(|lines| !lines.is_empty()) {
        let guards = marks.iter().map(|mark| ListedRule::Typed(guard(table, *mark, owner)));
        let missing: Vec<ListedRule> = guards.filter(|guard| !lines.contains(guard)).collect();
        lines.splice(..0, missing);
    }
    state
}

fn guard(table: Table, mark: Mark, owner: &Ownership) -> Rule {
    let comment = Match::Comment(owner.rule_comment());
    Rule::new(guarded_packets(table, mark).chain([comment]), Target::Accept).canonical()
}

pub fn guarded_packets(table: Table, mark: Mark) -> impl Iterator<Item = Match> {
    let not_loopback = || Match::InInterface(Negatable::Not(InterfaceName::loopback()));
    let away = (table == Table::Mangle).then(not_loopback);
    away.into_iter().chain([Match::Protocol(Protocol::Tcp), Match::Mark(Negatable::Is(mark))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, ownership::tests::OWNER, parse};

    fn check(rules: &str, expected: [&str; 2]) {
        let state = parse::save(rules, Family::V4, &OWNER).expect("a listing").part_of(&OWNER);
        let marks = BTreeSet::from([Mark::whole(1337)]);
        let found = [Table::Mangle, Table::Nat].map(|table| {
            let guarded = guarded(state.clone(), table, &marks, &OWNER);
            assert_eq!(guarded, super::guarded(guarded.clone(), table, &marks, &OWNER), "once is enough");
            let chain = Chain::Base(Hook::Prerouting);
            let lines = guarded.lines(table, &chain).iter();
            lines.map(|line| crate::render::iptables::appended(&chain, line) + "\n").collect::<String>()
        });
        assert_eq!(found, expected.map(str::to_owned));
    }

    #[test]
    fn guard_precedes_existing_owned_rules() {
        let ours = "-A PREROUTING -p tcp -j ISTIO_INBOUND\n";
        let tables = |mangle: &str, nat: &str| {
            let chains = ":PREROUTING ACCEPT [0:0]\n:ISTIO_INBOUND - [0:0]\n";
            format!("*mangle\n{chains}{mangle}COMMIT\n*nat\n{chains}{nat}COMMIT\n")
        };
        let mangle = "-A PREROUTING ! -i lo -p tcp -m mark --mark 1337 -m comment --comment \"sidecar-init\" -j ACCEPT\n";
        let nat =
            "-A PREROUTING -p tcp -m mark --mark 1337 -m comment --comment \"sidecar-init\" -j ACCEPT\n";
        check(&tables(ours, ours), [&[mangle, ours].concat(), &[nat, ours].concat()]);
        check(&tables("", ours), ["", &[nat, ours].concat()]);
        check(&tables(ours, "-A PREROUTING -j LOG\n"), [&[mangle, ours].concat(), ""]);
    }

    #[test]
    fn marks_come_from_tproxy_rules() {
        let rules = "*mangle\n:A - [0:0]\n-A A -p tcp -j TPROXY --on-port 15006 --on-ip 0.0.0.0 --tproxy-mark \
                     0x539/0xffffffff\n-A A -j MARK --set-xmark 0x7/0xffffffff\nCOMMIT\n";
        let state = parse::save(rules, Family::V4, &OWNER).expect("a listing");
        assert_eq!(marks(&state), BTreeSet::from([Mark::whole(1337)]));
    }
}
