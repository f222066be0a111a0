//! Any rules that the model can say are taken by the kernel, whoever writes them, and listed as what they are.
//!
//! By chance rather than from a catalogue: a word that a program spells in another way than we read it, or an encoding
//! that is not quite that of `nft`, would be found here.

use crate::arbitrary::{ANY, EVERYBODY, OURS, checked_of};
use crate::pods::setting::{self, Variant};
use crate::read_back::{NAME, write};
use crate::support::{in_namespace, ruleset, stdout};
use proptest::{strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use rules::{Checked, Family, State, Table, nft, parse, plan::plan, render};

/// How many rule sets are tried.
const CASES: usize = 40;

fn one<T: std::fmt::Debug>(runner: &mut TestRunner, strategy: impl Strategy<Value = T>) -> T {
    strategy.new_tree(runner).expect("a case").current()
}

fn check_listed(variant: Variant, family: Family) {
    let named = match family {
        Family::V4 => setting::Family::V4,
        Family::V6 => setting::Family::V6,
    };
    let (restore, save) = (variant.program(named, "-restore"), variant.program(named, "-save"));
    let mut runner = TestRunner::deterministic();
    for _ in 0..CASES {
        let rules = one(&mut runner, checked_of(family, ANY));
        let made = State::of(rules.rules());
        let preview = render::iptables::restore(&rules);
        let changes = plan(&State::default(), &made, &EVERYBODY);
        let script: String = changes.iter().map(render::iptables::change).collect();
        let listed = in_namespace(|| {
            stdout(&restore, &["--test"], &preview);
            stdout(&restore, &["--noflush"], &script);
            stdout(&save, &[], "")
        });
        let read = parse::save(&listed, family, &EVERYBODY).expect("a listing");
        for table in Table::ALL {
            assert!(read.same_table(&made, table), "{restore}, {table}:\n{script}\n{listed}");
        }
    }
}

#[test]
fn any_rules_are_listed_by_iptables_as_they_were_made() {
    for variant in [Variant::Legacy, Variant::Nft] {
        for family in Family::BOTH {
            check_listed(variant, family);
        }
    }
}

fn tables(runner: &mut TestRunner) -> Option<nft::Table> {
    let (one, other): (Checked, Checked) =
        (self::one(runner, checked_of(Family::V4, OURS)), self::one(runner, checked_of(Family::V6, OURS)));
    nft::table(NAME, &one, Some(&other))
}

#[test]
fn any_rules_are_the_same_by_script_and_by_batch() {
    let mut runner = TestRunner::deterministic();
    let made = std::iter::from_fn(|| Some(tables(&mut runner))).take(CASES).flatten();
    for table in made {
        let script = render::nft::script(&table);
        let by_nft = in_namespace(|| {
            stdout("nft", &["-f", "-"], &script);
            ruleset()
        });
        let by_batch = in_namespace(|| {
            write(&table).expect("nft took the same");
            ruleset()
        });
        assert_eq!(by_nft, by_batch, "{script}");
    }
}
