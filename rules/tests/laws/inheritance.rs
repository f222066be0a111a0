//! Proofs that rules and routing are a predecessor's: each kind of proof, and cases without proof.

use super::arbitrary::OWNER;
use rules::inheritance::{Evidence, Inheritance, classify_routing, doubtful};
use rules::routing::{Object, RoutingEntry};
use rules::{
    Chain, Family, Hook, ListedRule, Mark, Ownership, State, Table, parse, render::iptables::appended,
};
use rules::{Pattern, Predecessor, Proof};

const PREDECESSOR: Predecessor = Predecessor {
    name: "the predecessor",
    patterns: &[
        of(Table::Mangle, Hook::Prerouting, "-m mark --mark 1337 -j CONNMARK --save-mark", Proof::Form),
        of(Table::Mangle, Hook::Prerouting, "-m mark --mark # -j CONNMARK --save-mark", Proof::Table),
        of(Table::Nat, Hook::Prerouting, "-i * -j RETURN", Proof::Position),
        of(Table::Nat, Hook::Output, "-o * -j RETURN", Proof::Position),
        of(Table::Nat, Hook::Output, "-p udp --dport 53 -j REDIRECT --to-ports *", Proof::NoComments),
    ],
    log_group: Some(1337),
    policy_rule: Some((Mark::whole(1337), 133)),
    tables: &["old"],
};

const fn of(table: Table, hook: Hook, rule: &'static str, proof: Proof) -> Pattern {
    Pattern { table, hook, rule, proof }
}

const HEIR: Ownership = Ownership { predecessor: Some(&PREDECESSOR), ..OWNER };

fn state(table: Table, rules: &str, family: Family) -> State {
    let chains = ":PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n";
    parse::save(&format!("*{table}\n{chains}{rules}COMMIT\n"), family, &HEIR).expect("a listing")
}

fn check(table: Table, rules: &[&str], inherited: &[&str], unproven: &[&str]) {
    let text: String = rules.iter().map(|rule| format!("{rule}\n")).collect();
    let state = state(table, &text, Family::V4);
    let lines = state.chains(table).flat_map(|(chain, held)| held.iter().map(move |line| (chain, line)));
    let found = lines.filter(|(_, line)| matches!(line, ListedRule::Inherited(_)));
    let found: Vec<String> = found.map(|(chain, line)| appended(chain, line)).collect();
    assert_eq!(found, inherited, "inherited of\n{text}");
    let found = doubtful(&state, &HEIR).map(|(_, hook, line)| appended(&Chain::Base(hook), line));
    assert_eq!(found.collect::<Vec<_>>(), unproven, "doubtful of\n{text}");
}

const JUMP: &str = "-A OUTPUT -j ISTIO_OUTPUT";

#[test]
fn rules_are_inherited_by_their_form_and_their_table() {
    let certain = "-A PREROUTING -m mark --mark 1337 -j CONNMARK --save-mark";
    let by_table = "-A PREROUTING -m mark --mark 7 -j CONNMARK --save-mark";
    check(Table::Mangle, &[certain], &[certain], &[]);
    check(Table::Nat, &[certain], &[], &[]);
    check(Table::Mangle, &[by_table], &[], &[by_table]);
    check(Table::Mangle, &[by_table, certain], &[by_table, certain], &[]);
    check(Table::Mangle, &[by_table, JUMP], &[by_table], &[]);
    check(Table::Mangle, &[by_table, ":ISTIO_A - [0:0]"], &[by_table], &[]);
    let ours = "-A OUTPUT -m comment --comment sidecar-init -j RETURN";
    check(Table::Mangle, &[by_table, JUMP, ours], &[], &[by_table]);
    let [wide, longer] =
        ["--mark 7/0xff", "--mark 7 -m connmark --mark 1"].map(|m| by_table.replace("--mark 7", m));
    check(Table::Mangle, &[&wide, &longer, JUMP], &[], &[]);
    let log = "-A OUTPUT -j NFLOG --nflog-prefix \"old\" --nflog-group 1337";
    check(Table::Nat, &[log], &[log], &[]);
    check(Table::Nat, &[&log.replace("1337", "7")], &[], &[]);
}

#[test]
fn rules_for_interfaces_are_inherited_by_their_position() {
    let (inbound, outbound) = ("-A PREROUTING -i eth5 -j RETURN", "-A OUTPUT -o eth5 -j RETURN");
    check(Table::Nat, &[inbound, outbound], &[], &[inbound, outbound]);
    check(Table::Nat, &[inbound, outbound, JUMP], &[inbound, outbound], &[]);
    check(Table::Nat, &[inbound, JUMP, outbound], &[inbound], &[outbound]);
    check(Table::Nat, &[outbound, JUMP], &[], &[outbound]);
    let ours = "-A OUTPUT -o eth9 -m comment --comment sidecar-init -j RETURN";
    check(Table::Nat, &[ours, inbound, outbound, JUMP], &[], &[inbound, outbound]);
    check(Table::Nat, &["-A PREROUTING -i eth5 -j ISTIO_REDIRECT", inbound], &[inbound], &[]);
    check(Table::Nat, &["-A PREROUTING -i eth6 -j ISTIO_REDIRECT", inbound], &[], &[inbound]);
    let inbound_jump = "-A PREROUTING -p tcp -j ISTIO_INBOUND";
    check(Table::Nat, &[inbound_jump, inbound], &[], &[inbound]);
    let (first, later) = ("-A PREROUTING -i virt0 -j RETURN", "-A PREROUTING -i eth7 -j RETURN");
    let log = "-A PREROUTING -j LOG";
    check(Table::Nat, &[first, inbound, log, later, outbound, JUMP], &[first, inbound, outbound], &[later]);
    // Alone at the head of a chain, with no captured network.
    check(Table::Nat, &[first, JUMP], &[first], &[]);
    let captures =
        ["-A ISTIO_OUTPUT -j ISTIO_REDIRECT", "-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001"];
    check(Table::Nat, &[first, captures[0], captures[1], JUMP], &[], &[first]);
    let by_port = captures[0].replace("-j", "-p tcp --dport 80 -j");
    check(Table::Nat, &[first, &by_port, captures[1], JUMP], &[first], &[]);
}

#[test]
fn rules_are_inherited_where_none_of_the_owners_has_a_comment() {
    let dns = "-A OUTPUT -p udp --dport 53 -j REDIRECT --to-ports 15053";
    check(Table::Nat, &[dns], &[], &[]);
    check(Table::Nat, &[dns, JUMP], &[dns], &[]);
    check(Table::Nat, &[dns, JUMP, "-A OUTPUT -m comment --comment other -j ISTIO_OUTPUT"], &[], &[]);
    check(Table::Nat, &[&dns.replace("udp", "tcp"), JUMP], &[], &[]);
}

fn route(object: Object, protocol: u8) -> RoutingEntry {
    RoutingEntry { protocol, ..object.into() }
}

fn rule(family: Family, mark: u32, table: u32) -> Object {
    Object::Rule { family, mark: Mark::whole(mark), table, preference: None }
}

fn check_routing(evidence: &Evidence, others: &[RoutingEntry], proven: &[usize], unproven: &[usize]) {
    let found = classify_routing(&HEIR, evidence, &others.iter().copied().collect());
    let these = |indices: &[usize]| indices.iter().map(|index| others[*index]).collect();
    assert_eq!(
        (found.inherited, found.doubtful),
        (these(proven), these(unproven)),
        "{evidence:?} {others:?}"
    );
}

#[test]
fn routing_is_inherited_by_marks_tables_and_captures() {
    let evidence_beside = |v4: &State, v6: &State, has_tables, has_objects| {
        Evidence::of([(Family::V4, v4), (Family::V6, v6)].into_iter(), &HEIR, has_tables, has_objects)
    };
    let evidence = |v4: &State, v6: &State| evidence_beside(v4, v6, false, false);
    let none = State::default();
    let nothing = evidence(&none, &none);
    let (default_rule, default_route) =
        (rule(Family::V4, 1337, 133), Object::Route { family: Family::V4, table: 133 });
    let (other_rule, other_route) = (rule(Family::V4, 7, 9), Object::Route { family: Family::V4, table: 9 });
    for (protocol, is_program) in [(0, false), (4, false), (5, true), (138, true)] {
        let others = [default_rule, default_route].map(|object| route(object, protocol));
        check_routing(&nothing, &others, if is_program { &[] } else { &[0, 1] }, &[]);
    }
    let others = [other_rule, other_route].map(|object| route(object, 0));
    check_routing(&nothing, &others, &[], &[0, 1]);
    check_routing(&nothing, &others[..1], &[], &[]);
    check_routing(&nothing, &others[1..], &[], &[]);
    let marks = "-A PREROUTING -m mark --mark 1337 -j CONNMARK --save-mark\n\
                 -A PREROUTING -m mark --mark 7 -j CONNMARK --save-mark\n";
    let inherited = state(Table::Mangle, marks, Family::V4);
    check_routing(&evidence(&inherited, &none), &others, &[0, 1], &[]);
    let foreign_table =
        [other_rule, Object::Route { family: Family::V6, table: 9 }].map(|object| route(object, 0));
    check_routing(&evidence(&inherited, &none), &foreign_table, &[0], &[]);

    let address = [route(Object::Address("::6".parse().expect("an address")), 0)];
    let captured = |family| state(Table::Nat, ":ISTIO_OUTPUT - [0:0]\n", family);
    let ours = "-A OUTPUT -m comment --comment sidecar-init -j RETURN\n";
    let owned = state(Table::Nat, &format!(":ISTIO_OUTPUT - [0:0]\n{ours}"), Family::V6);
    check_routing(&nothing, &address, &[], &[0]);
    check_routing(&evidence(&captured(Family::V4), &none), &address, &[], &[0]);
    check_routing(&evidence(&none, &captured(Family::V6)), &address, &[0], &[]);
    check_routing(&evidence_beside(&none, &captured(Family::V6), false, true), &address, &[], &[0]);
    check_routing(&evidence(&none, &owned), &address, &[], &[0]);
    check_routing(&evidence(&inherited, &owned), &address, &[0], &[]);
    check_routing(&evidence_beside(&none, &none, true, true), &address, &[0], &[]);
    let with_rule = [address[0], route(rule(Family::V6, 1337, 133), 0)];
    check_routing(&evidence_beside(&none, &none, false, true), &with_rule, &[0, 1], &[]);
    assert_eq!(classify_routing(&OWNER, &nothing, &with_rule.into_iter().collect()), Inheritance::default());
}

#[test]
fn proof_for_one_predecessor_removes_doubt_for_others() {
    let [one, two, three] = [1, 2, 3].map(|mark| route(rule(Family::V4, mark, mark), 0));
    let mut found = Inheritance { doubtful: [one, two, three].into(), ..Inheritance::default() };
    found.extend(Inheritance { inherited: [one].into(), joined: [two].into(), doubtful: [three].into() });
    assert_eq!(found.doubtful, [three].into());
    assert_eq!(found.taken_over().copied().collect::<Vec<_>>(), [one, two]);
}
