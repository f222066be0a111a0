//! Random strings: each becomes a harmless value or is refused without a panic; then tests for faults found this way.

use super::arbitrary::OWNER;
use proptest::{prelude::*, sample::select, test_runner::TestCaseResult};
use rules::{
    Chain, ChainName, Cidr, Comment, Family, Hook, InterfaceName, LogPrefix, Mark, Match, Negatable, Port,
    PortRange, PortSet, Position, Protocol, Rule, RuleSet, State, Statement, Table, Target, Uid, UidRange,
    Version,
    check::{Fault, check},
    parse,
    plan::plan,
    render::iptables::{appended, change},
};
use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

const VALUES: &[&str] =
    &["eth0", "br+", "10.0.0.0/8", "2001:db8::/32", "80", "8000-9000", "1337", "0x539/0xff", "ISTIO_OUTPUT"];

/// Characters with a meaning for a shell, iptables or a terminal.
const TROUBLE: &[char] = &[
    '\n', '\r', '\0', '\t', ' ', '"', '\'', '\\', '!', '-', '/', ',', '*', '#', '$', '`', ';', ':', '+', '@',
    '\u{85}', '\u{a0}', '\u{2028}', 'ä', '０', '１',
];

fn text() -> impl Strategy<Value = String> {
    let spoilt = (select(VALUES), any::<prop::sample::Index>(), select(TROUBLE)).prop_map(|(text, at, c)| {
        let mut text = text.to_owned();
        text.insert(at.index(text.len() + 1), c);
        text
    });
    prop_oneof![any::<String>(), "[0-9a-fx:./,+-]{0,20}", "[A-Za-z0-9_.:@ +-]{0,32}", spoilt]
}

/// A string is refused, or becomes a value that is written without harm and read back unchanged.
fn harmless<T: FromStr + Display + Debug + PartialEq>(text: &str, between: &[char]) -> TestCaseResult {
    let Ok(value) = text.parse::<T>() else { return Ok(()) };
    let shown = value.to_string();
    let plain = |c: char| between.contains(&c) || (c.is_ascii_graphic() && !"\"'\\`$;&|<>#".contains(c));
    prop_assert!(!shown.is_empty() && shown.chars().all(plain), "{text:?} shows as {shown:?}");
    prop_assert_eq!(shown.parse::<T>().ok(), Some(value));
    Ok(())
}

/// Like [`harmless`], for unquoted words, where a leading `-` or `!` would begin an option.
fn word<T: FromStr + Display + Debug + PartialEq>(text: &str) -> TestCaseResult {
    harmless::<T>(text, &[])?;
    let shown = text.parse::<T>().ok().map(|value| value.to_string());
    prop_assert!(shown.is_none_or(|shown| !shown.starts_with(['-', '!'])), "{text:?}");
    Ok(())
}

fn listed_line() -> impl Strategy<Value = String> {
    let piece = select(
        &[
            "*nat",
            "*filter",
            "COMMIT",
            ":OUTPUT ACCEPT [0:0]",
            "-A OUTPUT",
            "-I OUTPUT 18446744073709551615",
            "-I OUTPUT 0",
            "-N ISTIO_A",
            "[1:2] -A OUTPUT",
            "[",
            "-p tcp",
            "--dport",
            "-m multiport --dports 1,2",
            "-j",
            "-j TPROXY --on-port",
            "-j NFLOG --nflog-prefix \"",
            "!",
            "--comment \"",
            "\\",
        ][..],
    );
    let word = prop_oneof![3 => piece.prop_map(str::to_owned), 1 => text()];
    prop::collection::vec(word, 0..8).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn strings_become_harmless_values_or_errors(text in text()) {
        word::<InterfaceName>(&text)?;
        word::<ChainName>(&text)?;
        word::<Cidr>(&text)?;
        word::<Port>(&text)?;
        word::<PortRange>(&text)?;
        word::<PortSet>(&text)?;
        word::<Uid>(&text)?;
        word::<UidRange>(&text)?;
        word::<Mark>(&text)?;
        word::<Version>(&text)?;
        harmless::<Comment>(&text, &[' ', ';'])?;
        harmless::<LogPrefix>(&text, &[' ', ';'])?;
    }

    #[test]
    fn reading_never_panics(text in any::<String>(), lines in prop::collection::vec(listed_line(), 0..12)) {
        for text in [&text, &lines.join("\n")] {
            for family in Family::BOTH {
                let _ = parse::save(text, family, &OWNER);
                let _ = parse::restore(text, family);
                let _ = parse::listing(text, family);
            }
        }
    }
}

/// Found by random rules that iptables refused.
#[test]
fn rules_that_iptables_does_not_take_are_refused() {
    for (table, rule, fault) in [
        ("nat", "-m multiport --dports 80 -p tcp -j RETURN", Fault::PortsWithoutProtocol),
        ("nat", "-j REDIRECT --to-ports 80", Fault::PortsWithoutProtocol),
        ("mangle", "-j TPROXY --tproxy-mark 1337 --on-port 80", Fault::PortsWithoutProtocol),
        ("nat", "-p tcp -m multiport --dports 80 --sport 80 -j RETURN", Fault::PortBehindList),
        ("nat", "-p tcp -m multiport --dports 80 --dport 80 -j RETURN", Fault::PortBehindList),
        ("mangle", "-m mark --mark 1 -m connmark --mark 1 -m mark --mark 1 -j RETURN", Fault::MarksInTurns),
        (
            "mangle",
            "-m connmark --mark 1 -m mark --mark 1 -m connmark --mark 1 -j RETURN",
            Fault::MarksInTurns,
        ),
        ("mangle", "! -s 0.0.0.0/0 -j RETURN", Fault::NoAddress),
        ("mangle", "! -d 0.0.0.0/0 -j RETURN", Fault::NoAddress),
        ("nat", "-s 10.0.0.0/8 -s 10.0.0.0/8 -j RETURN", Fault::Repeated),
        ("nat", "! -d 10.0.0.0/8 ! -d 10.0.0.0/8 -j RETURN", Fault::Repeated),
        ("nat", "-i lo -i lo -j RETURN", Fault::Repeated),
        ("nat", "-o lo -o lo -j RETURN", Fault::Repeated),
        ("nat", "-p tcp -p udp -j RETURN", Fault::Repeated),
        ("nat", "-p tcp --dport 80 --dport 80 -j RETURN", Fault::Repeated),
        ("nat", "-j DROP", Fault::TargetOutOfPlace),
    ] {
        let text = format!("*{table}\n-A ISTIO_A {rule}\nCOMMIT\n");
        let rules = parse::restore(&text, Family::V4).expect(rule);
        let violations = check(rules, &OWNER).expect_err(rule);
        assert!(violations.iter().any(|violation| violation.fault == fault), "{rule}: {violations:?}");
    }
    // A single port before its protocol has no valid text form.
    let port = Match::DestinationPort(Negatable::Is(Port::new(80).expect("not 0").into()));
    let rule = Rule::new([port, Match::Protocol(Protocol::Tcp)], Target::Return);
    let chain = Chain::User("ISTIO_A".parse().expect("valid"));
    let statement = Statement { table: Table::Nat, chain, position: Position::Append, rule, origin: None };
    assert!(check(RuleSet { family: Family::V4, statements: vec![statement] }, &OWNER).is_err());
}

#[test]
fn names_of_targets_and_of_base_chains_are_no_names_for_chains() {
    for name in ["ACCEPT", "DROP", "RETURN", "REDIRECT", "OUTPUT", "PREROUTING"] {
        assert!(name.parse::<ChainName>().is_err(), "{name}");
    }
}

/// iptables finds a rule to delete only by its conditions in their stored order and spelling.
#[test]
fn a_rule_that_leads_to_us_is_deleted_as_it_is_listed() {
    for rule in [
        "-p tcp -m comment --comment x -m tcp --dport 80 -j ISTIO_A",
        "-p tcp -m multiport --dports 8080,80 -j ISTIO_A",
        "-p tcp -m multiport --dports 80,81 -j ISTIO_A",
        "-m mark --mark 0x1 -m owner --uid-owner 5 -j ISTIO_A",
        "-m owner --uid-owner 5 --gid-owner 7 -j ISTIO_A",
    ] {
        let listing = format!("*nat\n:OUTPUT ACCEPT [0:0]\n:ISTIO_A - [0:0]\n-A OUTPUT {rule}\nCOMMIT\n");
        let live = parse::save(&listing, Family::V4, &OWNER).expect("a listing");
        let script: String = plan(&live, &State::default(), &OWNER, false).iter().map(change).collect();
        assert!(script.contains(&format!("-D OUTPUT {rule}\n")), "{rule}: {script}");
    }
}

#[test]
fn chains_of_others_may_have_any_name_that_iptables_takes() {
    for name in ["a/b", "a#b", "f2b-ä", ".x", "_", "a@b%", "=~"] {
        for table in ["nat", "filter"] {
            let listing =
                format!("*{table}\n:OUTPUT ACCEPT [0:0]\n:{name} - [0:0]\n-A {name} -j RETURN\nCOMMIT\n");
            let read = parse::save(&listing, Family::V4, &OWNER);
            assert!(read.is_ok(), "{name:?} in {table}: {read:?}");
        }
    }
}

#[test]
fn jumps_to_chains_of_others_are_kept() {
    let text = "*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -j a/b\nCOMMIT\n";
    let state = parse::save(text, Family::V4, &OWNER).expect("a listing");
    let line = &state.lines(Table::Nat, &Chain::Base(Hook::Output))[0];
    assert_eq!(appended(&Chain::Base(Hook::Output), line), "-A OUTPUT -j a/b");
}
