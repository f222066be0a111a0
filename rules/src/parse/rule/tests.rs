//! Conditions and actions parsed from rules' words.

use super::*;
use crate::Target;

fn check(text: &str, conditions: &[ListedCondition], action: &Action) {
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let ListedRule::Foreign(foreign) = read(&words, text, Family::V4).line else {
        panic!("{text:?} is not foreign");
    };
    assert_eq!((foreign.conditions.as_slice(), &foreign.action), (conditions, action), "{text:?}");
}

fn unknown(text: &str) -> ListedCondition {
    ListedCondition::Unknown(text.to_owned())
}

#[test]
fn foreign_rules_keep_known_and_unknown_conditions() {
    let destination =
        ListedCondition::Known(Match::Destination(Negatable::Is("10.0.0.0/8".parse().unwrap())));
    check(
        "-d 10.0.0.0/8 -m set --match-set block src -j DROP",
        &[destination, unknown("-m set"), unknown("--match-set block src")],
        &Action::Target(Target::Drop),
    );
    check(
        "-p icmp -j ACCEPT",
        &[ListedCondition::Protocol(Negatable::Is(None))],
        &Action::Target(Target::Accept),
    );
    check(
        "! -p tcp -j ACCEPT",
        &[ListedCondition::Protocol(Negatable::Not(Some(Protocol::Tcp)))],
        &Action::Target(Target::Accept),
    );
    check(
        "-m comment --comment it's -g OTHER",
        &[ListedCondition::Always("--comment it's".to_owned())],
        &Action::Goto("OTHER".parse().unwrap()),
    );
    check(
        "-s 10.0.0.0/255.0.255.0 -j DROP",
        &[unknown("-s 10.0.0.0/255.0.255.0")],
        &Action::Target(Target::Drop),
    );
    check(
        "-p tcp",
        &[ListedCondition::Known(Match::Protocol(Protocol::Tcp))],
        &Action::Continue(String::new()),
    );
    // Syntax of iptables before 1.4.3.
    check("-s ! 10.0.0.1 -j DROP", &[unknown("-s"), unknown("! 10.0.0.1")], &Action::Target(Target::Drop));
}

#[test]
fn options_that_widen_a_condition_are_one_with_it() {
    check(
        "-m owner ! --gid-owner 1000 --suppl-groups -j DROP",
        &[unknown("! --gid-owner 1000 --suppl-groups")],
        &Action::Target(Target::Drop),
    );
    check(
        "-m addrtype ! --dst-type LOCAL --limit-iface-out -j DROP",
        &[unknown("! --dst-type LOCAL --limit-iface-out")],
        &Action::Target(Target::Drop),
    );
}

#[test]
fn nearly_exact_is_foreign() {
    let state = ConnStates::from(ConnState::New);
    check(
        "-m state --state NEW -j ACCEPT",
        &[ListedCondition::Known(Match::ConnState(Negatable::Is(state)))],
        &Action::Target(Target::Accept),
    );
    check("-m owner -j ACCEPT", &[], &Action::Target(Target::Accept));
    check(
        "-p tcp -j REDIRECT --to-ports 80 --random",
        &[ListedCondition::Known(Match::Protocol(Protocol::Tcp))],
        &Action::Target(Target::Redirect("80".parse().unwrap())),
    );
}

fn check_exact(text: &str, same: &str, is_our_spelling: bool) {
    let read = |text: &str| {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        super::read(&words, text, Family::V4)
    };
    let (found, same) = (read(text), read(same));
    assert!(matches!(found.line, ListedRule::Typed(_)), "{text:?}");
    assert_eq!((found.line, found.is_our_spelling), (same.line, is_our_spelling), "{text:?}");
}

#[test]
fn trivial_conditions_are_left_out() {
    check_exact("-p all -j ACCEPT", "-j ACCEPT", true);
    check_exact("-p 0 -s 10.0.0.0/8 -j RETURN", "-s 10.0.0.0/8 -j RETURN", true);
    check_exact("-p udp -m udp --dport 53 -j ACCEPT", "-p udp --dport 53 -j ACCEPT", true);
    check("! -p all -j ACCEPT", &[unknown("! -p all")], &Action::Target(Target::Accept));
    check(
        "-p udp -m tcp -j ACCEPT",
        &[ListedCondition::Known(Match::Protocol(Protocol::Udp))],
        &Action::Target(Target::Accept),
    );
}

#[test]
fn a_protocols_module_without_an_option_is_kept() {
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let text = format!("-p {protocol} -m {protocol} -j ACCEPT");
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let found = super::read(&words, &text, Family::V4);
        let matches = [Match::Protocol(protocol), Match::ProtocolModule(protocol)];
        assert_eq!(found.line, ListedRule::Typed(Rule::new(matches, Target::Accept)));
        assert!(found.is_our_spelling);
    }
}

#[test]
fn flags_are_tested_on_the_first_segment() {
    assert!(matches_syn("FIN,SYN,RST,ACK", "SYN") && matches_syn("FIN,ACK", "NONE"));
    assert!(!matches_syn("FIN,SYN", "FIN,SYN") && !matches_syn("SYN,RST", "NONE"));
}
