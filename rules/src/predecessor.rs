//! The program that did an owner's work before, under the same names.
//!
//! A policy describes its rules as data. Recognition is exact: a rule that only resembles a pattern is foreign. A
//! decision that takes more than a rule's own words is in [`crate::inheritance`].

use crate::{Hook, Mark, Match, Negatable, Rule, Table, Target};

/// A program whose work the owner takes over. It leaves no comment and no routing protocol, so that all it makes beside
/// chains of the owner's prefix has to be recognised by its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Predecessor {
    pub name: &'static str,
    /// Its rules in base chains that do not jump to chains of the owner's prefix.
    pub patterns: &'static [Pattern],
    /// The NFLOG group to which it reports, if it does.
    pub log_group: Option<u16>,
    /// Mark and routing table of its policy rule unless flags choose others; `None` if it makes none.
    pub policy_rule: Option<(Mark, u32)>,
    /// Of the family `inet`.
    pub tables: &'static [&'static str],
}

/// A form of a program's rules, except for values that flags choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    pub table: Table,
    pub hook: Hook,
    /// The rule in our words, its matches in canonical order; as a listing has it where the model lacks it. `*` matches any part
    /// of a word, `#` any number.
    pub rule: &'static str,
    pub proof: Proof,
}

/// Proof that a rule of a pattern is the predecessor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// No other program makes such a rule.
    Form,
    /// Others make such rules. It is the predecessor's in a table that holds more of it.
    Table,
    /// As [`Proof::Table`], and by its position or by another rule for the same interface.
    Position,
    /// Others make such rules. It is the predecessor's where the jumps of the table `nat` to its chains carry no comment:
    /// it comments all of its rules, by which they are known, or none.
    NoComments,
}

impl Predecessor {
    /// The pattern of a rule in a base chain, by its text; `None` if it has none of this program's.
    pub fn pattern(&self, table: Table, hook: Hook, text: &str) -> Option<&'static Pattern> {
        let is_there = |pattern: &&Pattern| (pattern.table, pattern.hook) == (table, hook);
        self.patterns.iter().filter(is_there).find(|pattern| pattern.fits(text))
    }

    /// True if a rule of this text has one of this program's patterns, in any chain. Where its jumps carry comments,
    /// those of [`Proof::NoComments`] do not count.
    pub(crate) fn may_have_made(&self, text: &str, is_uncommented: bool) -> bool {
        let counts = |pattern: &&Pattern| is_uncommented || pattern.proof != Proof::NoComments;
        self.patterns.iter().filter(counts).any(|pattern| pattern.fits(text))
    }

    pub fn logs(&self, rule: &Rule) -> bool {
        matches!(rule.target, Target::Nflog { group, .. } if Some(group) == self.log_group)
    }
}

pub fn marks(rule: &Rule) -> impl Iterator<Item = u32> {
    rule.matches.iter().filter_map(|m| match m {
        Match::Mark(Negatable::Is(mark)) | Match::Connmark(Negatable::Is(mark)) => Some(mark.value),
        _ => None,
    })
}

impl Pattern {
    fn fits(&self, rule: &str) -> bool {
        let (mut desired, mut words) = (self.rule.split(' '), rule.split(' '));
        desired.by_ref().all(|desired| words.next().is_some_and(|word| is_like(word, desired)))
            && words.next().is_none()
    }
}

fn is_like(word: &str, desired: &str) -> bool {
    match desired.split_once('*') {
        Some((start, end)) => word.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None if desired == "#" => word.bytes().all(|byte| byte.is_ascii_digit()),
        None => word == desired,
    }
}
