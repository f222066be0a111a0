//! The kernel accepts the model's rules from every writer and lists them unchanged. Random rules reveal program spellings that
//! the parser does not read, and encodings that differ from `nft`'s.

use crate::apply::native::arbitrary::{ANY, EVERYBODY, OTHERS, OURS, OWNER, checked_of};
use crate::apply::native::read_back::{NAME, write};
use crate::apply::native::support::{in_namespace, ruleset};
use crate::support::program::stdout;
use crate::support::scope;
use crate::support::setting::{self, Variant};
use proptest::{strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use rules::{Checked, Family, Ownership, State, Table, nft, parse, plan::plan, render};

fn cases() -> usize {
    scope::runs(40, 4)
}

fn one<T: std::fmt::Debug>(runner: &mut TestRunner, strategy: impl Strategy<Value = T>) -> T {
    strategy.new_tree(runner).expect("a case").current()
}

fn others() -> String {
    let chains: String = OTHERS.iter().map(|chain| format!(":{chain} - [0:0]\n")).collect();
    Table::ALL.into_iter().map(|table| format!("*{table}\n{chains}COMMIT\n")).collect()
}

fn check_listed(variant: Variant, family: Family, names: &'static [&'static str], owner: &Ownership) {
    let named = match family {
        Family::V4 => setting::Family::V4,
        Family::V6 => setting::Family::V6,
    };
    let (restore, save) = (variant.program(named, "-restore"), variant.program(named, "-save"));
    let mut runner = TestRunner::deterministic();
    for _ in 0..cases() {
        let rules = one(&mut runner, checked_of(family, names));
        let made = State::of(rules.rules());
        let preview = render::iptables::restore(&rules);
        let changes = plan(&State::default(), &made, owner, false);
        let script: String = changes.iter().map(render::iptables::change).collect();
        let listed = in_namespace(|| {
            if names == OURS {
                stdout(&restore, &["--noflush"], &others());
            }
            stdout(&restore, &["--test", "--noflush"], &preview);
            stdout(&restore, &["--noflush"], &script);
            stdout(&save, &[], "")
        });
        let read = parse::save(&listed, family, owner).expect("a listing").part_of(owner);
        for table in Table::ALL {
            assert!(read.same_table(&made, table), "{restore}, {table}:\n{script}\n{listed}");
        }
    }
}

#[test]
fn any_rules_are_listed_by_iptables_as_they_were_made() {
    for variant in [Variant::Legacy, Variant::Nft] {
        for family in Family::BOTH {
            check_listed(variant, family, ANY, &EVERYBODY);
            check_listed(variant, family, OURS, &OWNER);
        }
    }
}

fn tables(runner: &mut TestRunner) -> Option<nft::InetTable> {
    let (one, other): (Checked, Checked) =
        (self::one(runner, checked_of(Family::V4, OURS)), self::one(runner, checked_of(Family::V6, OURS)));
    nft::table(NAME, &one, Some(&other))
}

#[test]
fn any_rules_are_the_same_by_script_and_by_batch() {
    let mut runner = TestRunner::deterministic();
    let made = std::iter::from_fn(|| Some(tables(&mut runner))).take(cases()).flatten();
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
