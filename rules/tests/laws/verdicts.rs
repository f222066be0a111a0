//! A packet has the same verdict in every form of the rules: the rule set, its nf_tables table, and a listing read back.

use super::arbitrary::{EVERYBODY, lawful};
use super::listing;
use super::small::{mark_statement, packet, routing, statement};
use proptest::{collection::vec, option, prelude::*, test_runner::TestCaseResult};
use rules::{
    Checked, ConnState, Family, Gid, Protocol, State, Statement, Uid,
    check::check,
    nft, parse,
    simulate::{Direction, Matched, Packet, Verdict, View, Work, replay, trace, unreached, walk},
};
use testkit::scope;

/// The three forms of the rules, and the rules without unreached ones.
fn views(rules: &Checked, v6: Option<&Checked>) -> [View; 4] {
    let family = rules.rules().family;
    let mut table = View::empty(family);
    if let Some(made) = nft::table("t", rules, v6) {
        table.add_nftables(made.listed());
    }
    let mut work = Work::new(1_000_000);
    let idle: Vec<&Statement> = unreached(rules.rules(), &mut work).iter().map(|found| found.rule).collect();
    let mut reached = rules.rules().clone();
    // By identity: an equal rule may be reached elsewhere.
    reached.statements = rules
        .rules()
        .statements
        .iter()
        .filter(|statement| !idle.iter().any(|idle| std::ptr::eq(*idle, *statement)))
        .cloned()
        .collect();
    let listed = listing(&State::of(rules.rules()));
    [
        View::of_rules(rules.rules()),
        table,
        View::of_listing(parse::listing(&listed, family).expect("a listing")),
        View::of_rules(&reached),
    ]
}

fn check_verdicts(rules: &Checked, v6: Option<&Checked>, packets: &[Packet]) -> TestCaseResult {
    let [made, table, listed, reached] = views(rules, v6);
    for packet in packets {
        let end = |view: &View| walk(view, &routing(), packet).verdict;
        let expected = end(&made);
        prop_assert_eq!(end(&listed), expected, "listed: {:?}", packet);
        // An unknown packet fact may no longer matter with fewer rules.
        for shorter in [&table, &reached].map(end) {
            let same = expected == Verdict::Unknown || shorter == expected;
            prop_assert!(same, "{:?} became {:?}: {:?}", expected, shorter, packet);
        }
    }
    Ok(())
}

/// A replay of the matched rules gives the same verdict and the same decider.
fn check_replay(view: &View, packets: &[Packet]) -> TestCaseResult {
    for packet in packets {
        let (outcome, mut steps) = trace(view, &routing(), packet);
        steps.retain(|step| step.matched == Matched::Yes);
        let dropped = outcome.decided_by.filter(|_| outcome.verdict == Verdict::Drop);
        let replayed = replay(view, packet.destination, &steps, dropped);
        if let Verdict::Redirect(_) | Verdict::Tproxy(_) | Verdict::Drop = outcome.verdict {
            let found = (replayed.verdict, replayed.decided_by);
            prop_assert_eq!(found, (outcome.verdict, outcome.decided_by), "{:?}", packet);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scope::runs(600, 100), ..ProptestConfig::default() })]

    #[test]
    fn a_verdict_is_the_same_of_rules_table_and_listing(
        statements in prop_oneof![vec(statement(), 1..24), vec(mark_statement(), 6..24)],
        v6 in option::of(vec(any::<bool>(), 24)),
        packets in vec(packet(), 40),
    ) {
        let v6 = v6.map(|kept| {
            let kept = statements.iter().zip(kept).filter(|(_, kept)| *kept).map(|(statement, _)| statement);
            lawful(Family::V6, kept.cloned().collect(), &EVERYBODY)
        });
        let rules = lawful(Family::V4, statements, &EVERYBODY);
        check_verdicts(&rules, v6.as_ref(), &packets)?;
        check_replay(&View::of_rules(rules.rules()), &packets)?;
    }
}

fn check_sent(rules: &str, expected: Verdict) {
    check_sent_as(ConnState::New, rules, expected);
}

fn check_sent_as(state: ConnState, rules: &str, expected: Verdict) {
    let text = format!("*mangle\n{rules}COMMIT\n");
    let rules = check(parse::restore(&text, Family::V4).expect("rules"), &EVERYBODY).expect("lawful");
    let (uid, gid) = (Uid::new(1).expect("an id"), Gid::new(1).expect("an id"));
    let packet = Packet {
        direction: Direction::Outbound { interface: "eth0".to_owned(), uid, gid },
        protocol: Protocol::Tcp,
        source: "10.0.0.1:1".parse().expect("valid"),
        destination: "10.0.1.1:1".parse().expect("valid"),
        mark: 0,
        connmark: 0,
        state,
    };
    for view in views(&rules, None) {
        assert_eq!(walk(&view, &routing(), &packet).verdict, expected, "{text}");
    }
}

#[test]
fn a_rule_behind_one_that_sets_its_mark_is_kept() {
    check_sent(
        "-A A -m mark --mark 2 -j RETURN\n-A A -j MARK --set-mark 2\n-A A -m mark --mark 2 -j DROP\n\
         -A OUTPUT -j A\n",
        Verdict::Drop,
    );
}

#[test]
fn a_rule_behind_a_chain_that_sets_its_mark_is_kept() {
    check_sent(
        "-A B -j MARK --set-mark 2\n-A C -j B\n-A A -m mark --mark 2 -j RETURN\n-A A -j C\n\
         -A A -m mark --mark 2 -j DROP\n-A OUTPUT -j A\n",
        Verdict::Drop,
    );
}

#[test]
fn rules_do_not_move_before_one_that_makes_them_hold() {
    check_sent(
        "-A A -p tcp --dport 9 -m mark --mark 2 -j DROP\n-A A -m mark --mark 0 -j MARK --set-mark 2\n\
         -A A -p tcp --dport 1 -m mark --mark 2 -j DROP\n-A OUTPUT -j A\n",
        Verdict::Drop,
    );
}

#[test]
fn bits_are_toggled_as_often_as_rules_say() {
    check_sent(
        "-A A -p tcp --dport 1:2 -j MARK --set-xmark 2/0\n-A A -p tcp --dport 1 -j MARK --set-xmark 2/0\n\
         -A A -m mark --mark 2 -j DROP\n-A OUTPUT -j A\n",
        Verdict::Pass,
    );
}

#[test]
fn packet_without_a_connection_matches_no_connection_mark() {
    check_sent_as(
        ConnState::Invalid,
        "-A A -m connmark --mark 1 -j RETURN\n-A A -m connmark ! --mark 1 -j RETURN\n-A A -j DROP\n\
         -A OUTPUT -j A\n",
        Verdict::Drop,
    );
}

#[test]
fn an_address_that_is_not_known_lies_in_the_network_of_all() {
    // The redirect leaves the chosen local address unknown.
    let text = "*nat\n-A PREROUTING -p tcp -j R\n-A R -p tcp -j REDIRECT --to-ports 2\nCOMMIT\n\
                *mangle\n-A INPUT -j A\n-A A -d 0.0.0.0/0 -j DROP\nCOMMIT\n";
    let rules = check(parse::restore(text, Family::V4).expect("rules"), &EVERYBODY).expect("lawful");
    let packet = Packet {
        direction: Direction::Inbound { interface: "eth0".to_owned(), local: true },
        protocol: Protocol::Tcp,
        source: "10.0.1.1:1".parse().expect("valid"),
        destination: "10.0.0.1:1".parse().expect("valid"),
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    };
    for view in views(&rules, None) {
        assert_eq!(walk(&view, &routing(), &packet).verdict, Verdict::Drop);
    }
}

#[test]
fn packet_with_a_changed_mark_may_leave_by_another_interface() {
    let drops = "-A OUTPUT -j A\n-A B -o eth0 -j DROP\n-A POSTROUTING -j B\n";
    check_sent(&format!("-A A -j MARK --set-mark 0\n{drops}"), Verdict::Drop);
    check_sent(&format!("-A A -j MARK --set-mark 0x9\n{drops}"), Verdict::Unknown);
}
