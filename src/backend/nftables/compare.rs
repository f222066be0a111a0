//! How our table differs from what it should be.

use super::bytecode;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub subject: Subject,
    pub kind: DifferenceKind,
}

/// What a difference is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Table,
    Set(String),
    /// A chain, by name, or how the kernel calls it.
    Chain(String),
    Rule {
        chain: String,
        /// Its place, counted from 1.
        number: usize,
        comment: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// It should be there.
    Missing,
    /// It should not be there.
    Extra,
    /// It is there, but another.
    Changed,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Table => f.write_str("table")?,
            Subject::Set(name) => write!(f, "set {name}")?,
            Subject::Chain(name) => write!(f, "chain {name}")?,
            Subject::Rule { chain, number, comment } => write!(f, "rule {number} of {chain} {comment:?}")?,
        }
        f.write_str(match self.kind {
            DifferenceKind::Missing => " is missing",
            DifferenceKind::Extra => " is too many",
            DifferenceKind::Changed => " is another",
        })
    }
}

/// All differences between what is there and what is wanted; none if they are equal.
pub fn differences(live: Option<&bytecode::Table>, wanted: Option<&bytecode::Table>) -> Vec<Difference> {
    let table = |kind| vec![Difference { subject: Subject::Table, kind }];
    let (live, wanted) = match (live, wanted) {
        (None, None) => return Vec::new(),
        (None, Some(_)) => return table(DifferenceKind::Missing),
        (Some(_), None) => return table(DifferenceKind::Extra),
        (Some(live), Some(wanted)) => (live, wanted),
    };
    let mut found = Vec::new();
    if (&live.name, live.flags) != (&wanted.name, wanted.flags) {
        found.extend(table(DifferenceKind::Changed));
    }
    by_name(
        &live.sets,
        &wanted.sets,
        |set: &bytecode::Set| &set.name,
        |kind, set, other| {
            if other.is_none_or(|other| other != set) {
                found.push(Difference { subject: Subject::Set(set.name.clone()), kind });
            }
        },
    );
    by_name(
        &live.chains,
        &wanted.chains,
        |chain: &bytecode::Chain| &chain.name,
        |kind, chain, other| {
            let Some(other) = other else {
                found.push(Difference { subject: Subject::Chain(chain.name.clone()), kind });
                return;
            };
            if chain.base != other.base {
                found.push(Difference { subject: Subject::Chain(chain.name.clone()), kind });
            }
            found.extend(rules(other, chain));
        },
    );
    found
}

/// Calls `visit` for each name: with `Missing` or `Extra` and what is on one side, or with `Changed` and what is
/// wanted and there under the same name.
fn by_name<T>(
    live: &[T],
    wanted: &[T],
    name: impl Fn(&T) -> &String,
    mut visit: impl FnMut(DifferenceKind, &T, Option<&T>),
) {
    for item in wanted {
        match live.iter().find(|other| name(other) == name(item)) {
            Some(other) => visit(DifferenceKind::Changed, item, Some(other)),
            None => visit(DifferenceKind::Missing, item, None),
        }
    }
    for item in live.iter().filter(|item| !wanted.iter().any(|other| name(other) == name(item))) {
        visit(DifferenceKind::Extra, item, None);
    }
}

/// Differences of the rules of one chain, place by place between what both begin and end with.
fn rules(live: &bytecode::Chain, wanted: &bytecode::Chain) -> Vec<Difference> {
    let (a, b) = (&live.rules, &wanted.rules);
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let difference = |index: usize, kind| {
        let rule = b.get(index).or(a.get(index));
        let comment = rule.map(|rule| rule.comment().to_owned()).unwrap_or_default();
        let subject = Subject::Rule { chain: wanted.name.clone(), number: head + index + 1, comment };
        Difference { subject, kind }
    };
    (0..a.len().max(b.len()))
        .map(|index| match (index < a.len(), index < b.len()) {
            (true, false) => difference(index, DifferenceKind::Extra),
            (false, _) => difference(index, DifferenceKind::Missing),
            (true, true) => difference(index, DifferenceKind::Changed),
        })
        .collect()
}
