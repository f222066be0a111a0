//! iptables syntax: restore text, commands, and the script of a change. [`restore`] equals upstream's output, to compare
//! previews.

use crate::{
    Chain, Checked, Family, ListedRule, Match, Negatable, Position, Rule, Statement, Table, TableChange,
};
use std::fmt::{Display, Write};

/// Restore text of the whole rule set, for an empty namespace. A table without rules is left out.
pub fn restore(rules: &Checked) -> String {
    let mut text = String::new();
    for table in Table::LISTED.into_iter().filter(|&table| rules.rules().of_table(table).next().is_some()) {
        line(&mut text, format_args!("* {table}"));
        for name in rules.rules().user_chains(table) {
            line(&mut text, format_args!("-N {name}"));
        }
        for statement in rules.rules().of_table(table) {
            line(&mut text, self::statement(statement));
        }
        line(&mut text, "COMMIT");
    }
    text
}

pub fn commands(rules: &Checked) -> String {
    let program = match rules.rules().family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    };
    let mut text = String::new();
    for table in Table::LISTED {
        for name in rules.rules().user_chains(table) {
            line(&mut text, format_args!("{program} -t {table} -N {name}"));
        }
        for statement in rules.rules().of_table(table) {
            line(&mut text, format_args!("{program} -t {table} {}", self::statement(statement)));
        }
    }
    text
}

/// Script of one change for `iptables-restore --noflush`: one table, one commit.
pub fn change(change: &TableChange) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("*{}", change.table));
    for (chain, _) in &change.replace {
        line(&mut text, format_args!(":{chain} - [0:0]"));
    }
    for (chain, rule) in &change.delete {
        line(&mut text, format_args!("-D {chain} {}", fitting_text(rule)));
    }
    for (chain, rules) in &change.replace {
        for rule in rules {
            line(&mut text, format_args!("-A {chain} {}", fitting_text(rule)));
        }
    }
    // Inserts neighbours at one position, last first: `iptables-restore` counts all rules before a position.
    for neighbours in change.insert.chunk_by(|one, next| (&one.0, one.1 + 1) == (&next.0, next.1)) {
        let first = neighbours[0].1;
        for (chain, _, rule) in neighbours.iter().rev() {
            line(&mut text, format_args!("-I {chain} {first} {}", fitting_text(rule)));
        }
    }
    for verb in ["-F", "-X"] {
        for chain in &change.remove {
            line(&mut text, format_args!("{verb} {chain}"));
        }
    }
    line(&mut text, "COMMIT");
    text
}

/// Maximum words in a rule for `iptables-restore`: the array of 255 (`MAX_ARGC` in xshared.h) also holds the command.
const MAX_WORDS: usize = 248;

/// True if a rule has more words than `iptables-restore` accepts; [`change`] writes it with fewer.
pub fn exceeds(rules: &Checked) -> bool {
    rules.rules().statements.iter().any(|statement| is_too_long(&statement.rule))
}

fn is_too_long(rule: &Rule) -> bool {
    // No match takes more than five words, no target more than six.
    rule.matches.len() * 5 + 6 > MAX_WORDS && rule.to_string().split_ascii_whitespace().count() > MAX_WORDS
}

pub fn statement(statement: &Statement) -> String {
    let Statement { chain, position, rule, .. } = statement;
    match position {
        Position::Append => format!("-A {chain} {rule}"),
        Position::Insert(number) => format!("-I {chain} {number} {rule}"),
    }
}

/// A chain's line as an append, in `iptables-save` form: `-A CHAIN ...`.
pub fn appended(chain: &Chain, line: &ListedRule) -> String {
    format!("-A {chain} {}", line_text(line))
}

fn line_text(line: &ListedRule) -> String {
    match line {
        ListedRule::Typed(rule) | ListedRule::Inherited(rule) => rule.to_string(),
        ListedRule::Foreign(foreign) => foreign.text.clone(),
    }
}

/// The standard form or, if owner lists make that too many words, a shorter form: `-mowner ! --gid-owner=1`.
fn fitting_text(line: &ListedRule) -> String {
    let rule = match line {
        ListedRule::Typed(rule) | ListedRule::Inherited(rule) if is_too_long(rule) => rule,
        ListedRule::Typed(_) | ListedRule::Inherited(_) | ListedRule::Foreign(_) => return line_text(line),
    };
    let matches = rule.matches.iter().map(|m| match m {
        Match::UidOwner(uid) => owner("--uid-owner", uid),
        Match::GidOwner(gid) => owner("--gid-owner", gid),
        other => other.to_string(),
    });
    matches.chain([rule.target.to_string()]).collect::<Vec<_>>().join(" ")
}

fn owner<T: Display>(name: &str, value: &Negatable<T>) -> String {
    format!("-mowner {}{name}={}", value.sign(), value.value())
}

fn line(text: &mut String, content: impl Display) {
    writeln!(text, "{content}").expect("writing to a string can't fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gid, Target};

    #[test]
    fn neighbours_are_inserted_from_the_last_to_the_first() {
        let rule = |number: u16| {
            ListedRule::Typed(Rule::new(
                [],
                Target::Redirect(crate::Port::new(number).expect("a port").into()),
            ))
        };
        let insert = [("OUTPUT", 1), ("OUTPUT", 2), ("OUTPUT", 4), ("INPUT", 5)];
        let insert =
            insert.map(|(chain, number)| (chain.parse().expect("a chain"), number.into(), rule(number)));
        let change = TableChange { insert: insert.into(), ..TableChange::none(Table::Nat) };
        let text = super::change(&change);
        let places: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("-I ")).collect();
        let expected = ["OUTPUT 1 {} 2", "OUTPUT 1 {} 1", "OUTPUT 4 {} 4", "INPUT 5 {} 5"];
        assert_eq!(places, expected.map(|place| place.replace("{}", "-j REDIRECT --to-ports")));
    }

    #[test]
    fn a_rule_of_many_owners_is_deleted_in_as_few_words_as_it_is_inserted() {
        let group = |number| Match::GidOwner(Negatable::Not(Gid::new(number).expect("an id")));
        let rule = ListedRule::Typed(Rule::new((1..=60).map(group), Target::Return));
        let chain: Chain = "OUTPUT".parse().expect("a chain");
        let text = change(&TableChange {
            delete: vec![(chain.clone(), rule.clone())],
            insert: vec![(chain, 1, rule)],
            ..TableChange::none(Table::Nat)
        });
        let rules: Vec<&str> = text.lines().filter(|line| line.starts_with('-')).collect();
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[0].strip_prefix("-D OUTPUT "), rules[1].strip_prefix("-I OUTPUT 1 "));
        assert!(rules[0].split(' ').count() <= MAX_WORDS, "{text}");
        assert!(rules[0].starts_with("-D OUTPUT -mowner ! --gid-owner=1 -mowner ! --gid-owner=2 "), "{text}");
    }
}
