//! Rules that no packet ever reaches, or that no packet ever fulfils, told from the rules alone.
//!
//! A rule is shadowed if an earlier rule of its chain takes every packet that it could take and lets none
//! go on. That is proven condition by condition, so what is reported is certain; not everything that is
//! true is found.

use crate::{Chain, Cidr, Match, Negatable, PortRange, RuleSet, Statement, Table, Target};

/// A rule and the earlier one that leaves nothing for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadowed<'a> {
    /// The rule that is never reached.
    pub rule: &'a Statement,
    /// The rule before it.
    pub by: &'a Statement,
}

/// All shadowed rules, table by table. Rules that only report hits are passed over.
pub fn shadowed(rules: &RuleSet) -> Vec<Shadowed<'_>> {
    let mut found = Vec::new();
    for table in Table::LISTED {
        for statements in rules.chains(table).values() {
            for (index, rule) in statements.iter().enumerate() {
                if matches!(rule.rule.target, Target::Log { .. }) {
                    continue;
                }
                let by = statements[..index].iter().find(|earlier| takes_all(rules, earlier, rule));
                found.extend(by.map(|by| Shadowed { rule, by }));
            }
        }
    }
    found
}

/// Whether `earlier` ends the walk of every packet that fulfils `rule`.
fn takes_all(rules: &RuleSet, earlier: &Statement, rule: &Statement) -> bool {
    if !weaker(&earlier.rule.matches, &rule.rule.matches) {
        return false;
    }
    match &earlier.rule.target {
        Target::Accept | Target::Drop | Target::Return | Target::Redirect(_) | Target::Tproxy { .. } => true,
        Target::Jump(name) => ends_in(rules, earlier.table, &Chain::User(name.clone()), &rule.rule.matches),
        Target::SetMark(_)
        | Target::SaveMark
        | Target::RestoreMark
        | Target::SetZone(_)
        | Target::Log { .. } => false,
    }
}

/// Whether a chain without ways out ends the walk of every packet with these conditions.
fn ends_in(rules: &RuleSet, table: Table, chain: &Chain, conditions: &[Match]) -> bool {
    let chains = rules.chains(table);
    for statement in chains.get(chain).into_iter().flatten() {
        match &statement.rule.target {
            Target::Accept | Target::Drop | Target::Redirect(_) | Target::Tproxy { .. } => {
                if weaker(&statement.rule.matches, conditions) {
                    return true;
                }
            }
            // It may lead out again, or change what later conditions see.
            Target::Return
            | Target::Jump(_)
            | Target::SetMark(_)
            | Target::SaveMark
            | Target::RestoreMark => return false,
            Target::SetZone(_) | Target::Log { .. } => {}
        }
    }
    false
}

/// Whether every packet that fulfils `strong` fulfils `weak` too, as far as single conditions show.
fn weaker(weak: &[Match], strong: &[Match]) -> bool {
    weak.iter()
        .filter(|condition| !matches!(condition, Match::Comment(_)))
        .all(|condition| strong.iter().any(|given| implies(given, condition)))
}

fn implies(given: &Match, wanted: &Match) -> bool {
    match (given, wanted) {
        (Match::Source(given), Match::Source(wanted))
        | (Match::Destination(given), Match::Destination(wanted)) => follows(given, wanted, inside),
        (Match::SourcePort(given), Match::SourcePort(wanted))
        | (Match::DestinationPort(given), Match::DestinationPort(wanted)) => follows(given, wanted, within),
        (Match::DestinationPort(Negatable::Is(given)), Match::DestinationPorts(Negatable::Is(wanted))) => {
            wanted.ranges().iter().any(|range| within(given, range))
        }
        (given, wanted) => given == wanted,
    }
}

/// Whether one value follows from another, given what it means that a value lies in another.
fn follows<T>(given: &Negatable<T>, wanted: &Negatable<T>, lies_in: fn(&T, &T) -> bool) -> bool {
    match (given, wanted) {
        (Negatable::Is(given), Negatable::Is(wanted)) => lies_in(given, wanted),
        (Negatable::Not(given), Negatable::Not(wanted)) => lies_in(wanted, given),
        (Negatable::Is(_), Negatable::Not(_)) | (Negatable::Not(_), Negatable::Is(_)) => false,
    }
}

/// Whether a network lies in another.
pub fn inside(inner: &Cidr, outer: &Cidr) -> bool {
    outer.length() <= inner.length() && outer.contains(inner.address())
}

/// Whether a range of ports lies in another.
pub fn within(inner: &PortRange, outer: &PortRange) -> bool {
    outer.contains(inner.first().number()) && outer.contains(inner.last().number())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, parse};

    fn check(rules: &str, expected: &[(usize, usize)]) {
        let text = format!("*nat\n{rules}-A R -p tcp -j REDIRECT --to-ports 1\nCOMMIT\n");
        let rules = parse::restore(&text, Family::V4).unwrap();
        let place = |wanted: &Statement| rules.statements.iter().position(|s| s == wanted).unwrap() + 1;
        let found: Vec<(usize, usize)> =
            shadowed(&rules).iter().map(|found| (place(found.rule), place(found.by))).collect();
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
    }
}
