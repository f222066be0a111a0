//! Rules that no packet ever reaches, found from the rules alone.
//!
//! A rule is shadowed if an earlier rule of its chain takes every packet that it could take and lets none
//! go on. That is proven condition by condition, so what is reported is certain; not everything that is
//! true is found.

mod index;

use crate::field::Condition;
use crate::model::ChainWrites;
use crate::{Chain, ChainName, Disposition, Match, RuleSet, Statement, Table, WriteSet};
use index::{ConditionKey, Index};
use std::collections::BTreeMap;

/// A rule and the earlier one that leaves nothing for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadowed<'a> {
    /// The rule that is never reached.
    pub rule: &'a Statement,
    /// A rule before it.
    pub by: &'a Statement,
}

/// The remaining budget, in comparisons and visited rules: questions about long lists end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    left: Option<usize>,
}

impl Work {
    pub fn new(max: usize) -> Self {
        Self { left: Some(max) }
    }

    /// Takes so much away; `None` once there was not enough.
    pub fn spend(&mut self, units: usize) -> Option<()> {
        self.left = self.left.and_then(|left| left.checked_sub(units));
        self.left.map(|_| ())
    }

    /// Whether there was not enough at some time, so that something was not looked at.
    pub fn is_spent(&self) -> bool {
        self.left.is_none()
    }

    /// What is left; 0 where there was not enough.
    pub fn left(&self) -> usize {
        self.left.unwrap_or_default()
    }
}

/// Shadowed rules, table by table: all of them, as long as the work is not spent. Rules that only report hits are passed
/// over.
pub fn shadowed<'a>(rules: &'a RuleSet, work: &mut Work) -> Vec<Shadowed<'a>> {
    let mut found = Vec::new();
    let written = ChainWrites::of([rules]);
    for table in Table::LISTED {
        let chains = rules.chains(table);
        for statements in chains.values() {
            of_chain(&chains, statements, &written, work, &mut found);
        }
    }
    found
}

type ChainStatements<'a> = BTreeMap<Chain, Vec<&'a Statement>>;

fn of_chain<'a>(
    chains: &ChainStatements<'a>,
    statements: &[&'a Statement],
    written: &ChainWrites,
    work: &mut Work,
    found: &mut Vec<Shadowed<'a>>,
) {
    let mut index = Index::default();
    let mut writers: Vec<WriteSet> = Vec::new();
    for (place, statement) in statements.iter().copied().enumerate() {
        let target = &statement.rule.target;
        if target.is_report() {
            continue;
        }
        let keys = statement.rule.matches.iter().filter_map(Match::condition).map(|condition| {
            let is_written = |writes: &&WriteSet| condition.field.depends_on(**writes);
            let writes_before = match condition.field.depends_on(WriteSet::ANYTHING) {
                true => writers.iter().filter(is_written).count(),
                false => 0,
            };
            ConditionKey { condition, writes_before }
        });
        let conditions: Vec<ConditionKey> = keys.collect();
        // A field that a called chain tests must not have been written since.
        let steady: Vec<&Condition> =
            conditions.iter().filter(|key| key.writes_before == 0).map(|key| &key.condition).collect();
        let takes = |chain: &Option<ChainName>, work: &mut Work| match chain {
            None => true,
            Some(name) => ends_in(chains, &Chain::User(name.clone()), &steady, work),
        };
        let by = index.find_subsuming(&conditions, takes, work);
        if work.is_spent() {
            return;
        }
        found.extend(by.map(|by| Shadowed { rule: statement, by: statements[by] }));
        match target.disposition() {
            Disposition::Terminates | Disposition::Returns => index.add(None, &conditions, place),
            Disposition::Calls(chain) => index.add(Some(chain), &conditions, place),
            Disposition::CallsForeign(_) | Disposition::Continues => {}
        }
        let writes = written.by(statement.table, target);
        writers.extend((writes != WriteSet::NOTHING).then_some(writes));
    }
}

/// Whether a chain without ways out ends the walk of every packet with these conditions.
fn ends_in(chains: &ChainStatements<'_>, chain: &Chain, conditions: &[&Condition], work: &mut Work) -> bool {
    for statement in chains.get(chain).into_iter().flatten() {
        if work.spend(1).is_none() {
            return false;
        }
        let conditions_of = || statement.rule.matches.iter().filter_map(Match::condition);
        match statement.rule.target.disposition() {
            _ if statement.rule.target.is_report() => {}
            Disposition::Terminates => {
                if conditions_of().all(|desired| conditions.iter().any(|given| given.implies(&desired))) {
                    return true;
                }
            }
            // It may lead out again, or change what later conditions see.
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, parse};

    fn check(rules: &str, expected: &[(usize, usize)]) {
        let text = format!("*nat\n{rules}-A R -p tcp -j REDIRECT --to-ports 1\nCOMMIT\n");
        let rules = parse::restore(&text, Family::V4).unwrap();
        let place = |desired: &Statement| rules.statements.iter().position(|s| s == desired).unwrap() + 1;
        let found: Vec<(usize, usize)> = shadowed(&rules, &mut Work::new(1000))
            .iter()
            .map(|found| (place(found.rule), place(found.by)))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_rule_behind_a_wider_one_is_shadowed() {
        check("-A O -d 10.0.0.0/8 -j RETURN\n-A O -p tcp -d 10.1.0.0/16 -j R\n", &[(2, 1)]);
        check("-A O -d 10.1.0.0/16 -j RETURN\n-A O -d 10.0.0.0/8 -j R\n", &[]);
        check("-A O -p tcp --dport 80 -j R\n-A O -p tcp --dport 80 -j RETURN\n", &[(2, 1)]);
        check("-A O -p tcp --dport 1:99 -j RETURN\n-A O -p tcp --dport 80 -j R\n", &[(2, 1)]);
    }

    #[test]
    fn a_jump_takes_what_its_chain_ends_and_no_more() {
        check("-A O -j R\n-A O -p tcp -j RETURN\n", &[(2, 1)]);
        check("-A O -j R\n-A O -j RETURN\n", &[]);
        check("-A O -m owner ! --uid-owner 1 -j RETURN\n-A O -m owner --uid-owner 2 -j R\n", &[]);
        // A rule that reports lets the packet on to the one that ends it.
        check(
            "-A L -j LOG --log-prefix \"a\" --log-level 7\n-A L -p tcp -j ACCEPT\n-A O -j L\n-A O -p tcp -j RETURN\n",
            &[(4, 3)],
        );
    }

    #[test]
    fn a_rule_behind_one_that_sets_its_mark_is_not_shadowed() {
        let marks = |between: &str| {
            let text = format!(
                "*mangle\n-A S -j MARK --set-mark 1\n-A O -m mark --mark 1 -j RETURN\n{between}\
                 -A O -m mark --mark 1 -j DROP\nCOMMIT\n"
            );
            let rules = parse::restore(&text, Family::V4).unwrap();
            shadowed(&rules, &mut Work::new(1000)).len()
        };
        assert_eq!(marks("-A O -p tcp -j MARK --set-mark 1\n"), 0);
        assert_eq!(marks("-A O -p tcp -j S\n"), 0);
        assert_eq!(marks("-A O -j CONNMARK --restore-mark\n"), 0);
        assert_eq!(marks("-A O -j CONNMARK --save-mark\n"), 1);
    }

    #[test]
    fn ports_are_found_in_ranges_and_sets() {
        check(
            "-A O -p tcp --dport 1:9 -j RETURN\n-A O -p tcp --dport 5:99 -j RETURN\n\
             -A O -p tcp --dport 7:50 -j R\n-A O -p tcp --dport 2:50 -j R\n",
            &[(3, 2)],
        );
        check(
            "-A O -p tcp -m multiport --dports 80,90:99 -j RETURN\n-A O -p tcp --dport 95 -j R\n\
             -A O -p tcp --sport 95 -j R\n",
            &[(2, 1)],
        );
        check(
            "-A O -p tcp --sport 1 --dport 1:9 -j RETURN\n-A O -p tcp --sport 1 --dport 2 -j R\n",
            &[(2, 1)],
        );
    }

    /// Twenty interfaces with three hundred networks each are compared by shape, not pair by pair.
    #[test]
    fn the_work_grows_with_the_rules_and_not_with_their_pairs() {
        let rules = |networks: usize| {
            let rule = |at: usize| {
                format!("-A O -i eth{} -d 10.{}.{}.0/24 -j R\n", at % 20, at / 20 % 250, at / 5000)
            };
            let lines: String = (0..20 * networks).map(rule).collect();
            let text = format!("*nat\n{lines}-A R -p tcp -j REDIRECT --to-ports 1\nCOMMIT\n");
            parse::restore(&text, Family::V4).unwrap()
        };
        let work = |rules: &RuleSet| {
            let mut work = Work::new(1_000_000);
            assert_eq!(shadowed(rules, &mut work), []);
            1_000_000 - work.left()
        };
        let (few, many) = (work(&rules(100)), work(&rules(300)));
        assert!(many <= 4 * few, "{few} and {many}");
        let mut little = Work::new(1000);
        shadowed(&rules(300), &mut little);
        assert!(little.is_spent());
    }
}
