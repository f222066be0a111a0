//! Arbitrary rules, written by the tool or by `nft`, are read back unchanged.

use crate::apply::native::arbitrary::{EVERYBODY, lawful};
use crate::apply::native::small::{packet, routing, statement};
use crate::apply::native::support::in_namespace;
use crate::support::program::{output, stdout};
use crate::support::scope;
use proptest::{collection::vec, prelude::*, strategy::ValueTree, test_runner::TestRunner};
use rules::{
    Checked, Family,
    nft::{self, LiveTable},
    render,
    simulate::{Packet, View, walk},
};
use sidecar_init::backend::nftables::{Nftables, Refusal, bytecode};

pub(crate) const NAME: &str = "t";

fn cases() -> usize {
    scope::runs(150, 30)
}

fn read(family: Family) -> LiveTable {
    let mut nftables = Nftables::open(NAME).expect("a socket");
    let mut tables = nftables.listing(family).expect("readable");
    assert_eq!(tables.len(), 1, "{tables:?}");
    tables.pop().expect("a table").listed
}

/// Writes the table; `None` if the kernel refuses it, as it does for chains in a loop.
pub(crate) fn write(table: &nft::InetTable) -> Option<()> {
    let mut nftables = Nftables::open(NAME).expect("a socket");
    let live = nftables.read().expect("readable");
    match nftables.replace(live.as_ref(), Some(&bytecode::EncodedTable::of(table))) {
        Ok(()) => Some(()),
        Err(Refusal::Refused { source, .. }) if source.raw_os_error() == Some(nix::libc::ELOOP) => None,
        Err(refusal) => panic!("{refusal:?}: {}", render::nft::script(table)),
    }
}

/// Checks that the live rules and the table give every packet the same verdict.
fn check_walks(table: &nft::InetTable, packets: &[Packet]) {
    for family in Family::BOTH {
        let view = |table: LiveTable| {
            let mut view = View::empty(family);
            view.add_nftables(table);
            view
        };
        let (there, desired) = (view(read(family)), view(table.listed()));
        for packet in packets {
            let end = |view: &View| walk(view, &routing(), packet).verdict;
            assert_eq!(end(&there), end(&desired), "{packet:?}\n{}\n{there:#?}", render::nft::script(table));
        }
    }
}

#[test]
fn any_rules_are_read_back_as_they_were_written() {
    let mut runner = TestRunner::deterministic();
    let mut refused = 0;
    in_namespace(|| {
        for _ in 0..cases() {
            let (v4, v6, packets) = case(&mut runner);
            let Some(mut table) = nft::table(NAME, &v4, Some(&v6)) else { continue };
            if write(&table).is_none() {
                refused += 1;
                continue;
            }
            check_walks(&table, &packets);
            edit(&mut runner, &mut table);
            check_walks(&table, &packets);
        }
    });
    assert!(refused < cases() / 2, "{refused} rule sets were refused");
}

fn case(runner: &mut TestRunner) -> (Checked, Checked, Vec<Packet>) {
    let strategy = (vec(statement(), 1..24), vec(any::<bool>(), 24), vec(packet(), 60));
    let (statements, kept, packets) = strategy.new_tree(runner).expect("a case").current();
    let some = statements.iter().zip(kept).filter(|(_, kept)| *kept).map(|(statement, _)| statement.clone());
    let v6 = lawful(Family::V6, some.collect(), &EVERYBODY);
    (lawful(Family::V4, statements, &EVERYBODY), v6, packets)
}

/// Keeps, replaces or deletes each rule, both through `nft` and in the table.
fn edit(runner: &mut TestRunner, table: &mut nft::InetTable) {
    let listing = stdout("nft", &["-a", "-n", "list", "table", "inet", NAME], "");
    let mut script = String::new();
    for chain in &mut table.chains {
        let start = format!("chain {} {{", chain.name);
        let lines = listing.lines().skip_while(|line| !line.trim_start().starts_with(&start));
        let mut handles = lines
            .filter(|line| line.contains("counter packets"))
            .map(|line| line.rsplit_once("# handle ").expect("a handle").1);
        let others = chain.rules.clone();
        let mut edited = Vec::new();
        for rule in &chain.rules {
            let handle = handles.next().expect("a rule");
            let place = format!("rule inet {NAME} {} handle {handle}", chain.name);
            match (0..4_usize).new_tree(runner).expect("a number").current() {
                0 => script.push_str(&format!("delete {place}\n")),
                1 => {
                    let other = (0..others.len()).new_tree(runner).expect("a number").current();
                    script.push_str(&format!("replace {place} {}\n", render::nft::rule(&others[other])));
                    edited.push(others[other].clone());
                }
                _ => {
                    script.push_str(&format!("replace {place} {}\n", render::nft::rule(rule)));
                    edited.push(rule.clone());
                }
            }
        }
        chain.rules = edited;
    }
    output("nft", &["-f", "-"], &script).with(0, &format!("{script}\n{listing}"));
}
