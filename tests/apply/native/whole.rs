//! A change is atomic, and a refusal names its rule.

use crate::apply::native::support::{in_namespace, native, ports};
use crate::support::program::stdout;
use mesh::istio::OWNERSHIP;
use sidecar_init::backend::nftables::{EncodedVerdict, Expression, Nftables, Refusal, bytecode};
use std::thread;

const FLAGS: [&str; 5] = ["--dual-stack", "-i", "*", "-b", "*"];

fn broken(table: &bytecode::EncodedTable) -> bytecode::EncodedTable {
    let mut table = table.clone();
    let expressions = vec![Expression::Verdict(EncodedVerdict::Jump("nowhere".to_owned()))];
    let comment = b"the-culprit\0";
    let length = u8::try_from(comment.len()).expect("short");
    let rule = bytecode::EncodedRule { expressions, userdata: [&[0, length], &comment[..]].concat() };
    table.chains.last_mut().expect("a chain").rules.push(rule);
    table
}

#[test]
fn a_bad_tail_changes_nothing() {
    in_namespace(|| {
        native(&FLAGS);
        let before = stdout("nft", &["-a", "list", "ruleset"], "");
        let mut nftables = Nftables::open(OWNERSHIP.table).expect("a socket");
        let table = nftables.read().expect("readable").expect("our table");
        let refusal = nftables.replace(Some(&table), Some(&broken(&table))).expect_err("a jump to nowhere");
        let text = refusal.to_string();
        assert!(text.contains("the-culprit") && text.contains("expression immediate"), "{text}");
        assert_eq!(before, stdout("nft", &["-a", "list", "ruleset"], ""));
    });
}

/// Another program replaces a set between the reads of the sets and of their elements.
#[test]
fn a_table_is_there_while_its_sets_are_exchanged() {
    in_namespace(|| {
        let set = |round: usize| format!("set inet sidecar_init s{round}");
        let add = |round| format!("add {} {{ type inet_service; }}", set(round));
        stdout("nft", &["-f", "-"], &format!("add table inet sidecar_init\n{}\n", add(0)));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut nftables = Nftables::open(OWNERSHIP.table).expect("a socket");
                for reading in 0..5_000 {
                    assert!(nftables.read().expect("readable").is_some(), "reading {reading}");
                }
            });
            for round in (0..).take_while(|_| !reader.is_finished()) {
                stdout("nft", &["-f", "-"], &format!("delete {}\n{}\n", set(round), add(round + 1)));
            }
        });
    });
}

/// The hash table of a set must not grow after the commit: while it does, a listing lacks values.
#[test]
fn long_set_is_complete_at_once() {
    in_namespace(|| {
        native(&["-i", "*", "-o", &ports(5_000)]);
        let mut nftables = Nftables::open(OWNERSHIP.table).expect("a socket");
        let table = nftables.read().expect("readable").expect("a table");
        for round in 0..50 {
            nftables.replace(Some(&table), Some(&table)).expect("nothing else changes it");
            assert!(nftables.read().expect("readable").as_ref() == Some(&table), "round {round}");
        }
    });
}

#[test]
fn concurrent_change_is_a_conflict() {
    in_namespace(|| {
        native(&FLAGS);
        let mut nftables = Nftables::open(OWNERSHIP.table).expect("a socket");
        let table = nftables.read().expect("readable");
        let conflict = |outcome: Result<(), Refusal>| matches!(outcome, Err(Refusal::Conflict(_)));
        assert!(conflict(nftables.replace(None, table.as_ref())), "the table exists");
        stdout("nft", &["add", "chain", "inet", "sidecar_init", "another"], "");
        assert!(conflict(nftables.replace(table.as_ref(), table.as_ref())), "the table has changed");
        stdout("nft", &["delete", "table", "inet", "sidecar_init"], "");
        assert!(conflict(nftables.replace(table.as_ref(), table.as_ref())), "the table is gone");
        assert!(conflict(nftables.replace(table.as_ref(), None)), "the table is gone");
        nftables.replace(None, table.as_ref()).expect("a fresh table");
        let table = table.expect("our table");
        let other = bytecode::EncodedTable { name: "other".to_owned(), ..table.clone() };
        let names = [table.name.clone(), other.name.clone()];
        assert!(conflict(nftables.remove(&names)), "the second table is missing");
        stdout("nft", &["add", "table", "inet", "other"], "");
        assert!(conflict(nftables.replace(Some(&table), Some(&other))), "the second table exists");
        assert!(nftables.read().expect("readable").is_some(), "a conflict changes nothing");
        nftables.remove(&names).expect("both tables exist");
    });
}
