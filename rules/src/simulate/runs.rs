//! Long runs of rules on values of one field, such as thousands of networks, which small sets skip.

use super::facts::Asked;
use super::view::ViewRule;
use crate::field::{Field, Interval, Intervals};
use std::collections::BTreeSet;
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleRun {
    pub(super) rules: Range<usize>,
    pub(super) fields: Vec<RunField>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunField {
    pub(super) field: Field,
    /// Ranges of values by their first one, each with its rule and with the greatest value of all ranges up to it.
    ranges: Vec<(Interval, usize, u128)>,
}

/// Shorter runs are met rule by rule; so are all runs by a set with more ranges of values, or one that meets more of the rules.
const FEW: usize = 32;

impl RuleRun {
    pub(super) fn of(rules: &[ViewRule]) -> Vec<Self> {
        let mut start = 0;
        let mut runs = Vec::new();
        for run in rules.chunk_by(|one, next| fields(one).eq(fields(next))) {
            let rules = start..start + run.len();
            start = rules.end;
            if run.len() > FEW {
                let fields =
                    fields(&run[0]).filter_map(|field| RunField::of(field, run, rules.start)).collect();
                runs.push(Self { rules, fields });
            }
        }
        runs
    }
}

impl RunField {
    fn of(field: Field, run: &[ViewRule], start: usize) -> Option<Self> {
        let values = run.iter().filter_map(|rule| asked(rule).find(|(own, _)| *own == field));
        let values: Vec<&Intervals> = values.map(|(_, values)| values).collect();
        if values.iter().collect::<BTreeSet<_>>().len() * FEW < run.len() {
            return None;
        }
        let of_rule = |(at, values): (usize, &'_ Intervals)| {
            values.ranges().iter().map(|range| (*range, at, 0)).collect::<Vec<_>>()
        };
        let mut ranges: Vec<(Interval, usize, u128)> = (start..).zip(values).flat_map(of_rule).collect();
        ranges.sort();
        let mut greatest = 0;
        for (range, _, up_to) in &mut ranges {
            greatest = range.last.max(greatest);
            *up_to = greatest;
        }
        Some(Self { field, ranges })
    }

    /// The next rule, from this one, that packets with these values may match; `end` if there is none.
    pub(super) fn next(&self, from: usize, end: usize, values: &Intervals) -> usize {
        if values.ranges().len() > FEW {
            return from;
        }
        let mut next = end;
        for wanted in values.ranges() {
            let end = self.ranges.partition_point(|(range, ..)| range.first <= wanted.last);
            let inner = end - self.ranges[..end].partition_point(|(range, ..)| range.first < wanted.first);
            if inner > FEW {
                return from;
            }
            let before = self.ranges[..end].iter().rev().take_while(|(.., up_to)| *up_to >= wanted.first);
            let meeting = before.filter(|(range, at, _)| range.last >= wanted.first && *at >= from);
            next = meeting.map(|(_, at, _)| *at).fold(next, usize::min);
        }
        next
    }
}

fn fields(rule: &ViewRule) -> impl Iterator<Item = Field> {
    asked(rule).map(|(field, _)| field)
}

fn asked(rule: &ViewRule) -> impl Iterator<Item = (Field, &Intervals)> {
    rule.asked.iter().filter_map(|asked| match asked {
        Asked::Field { condition, .. } if !condition.negated => Some((condition.field, &condition.values)),
        _ => None,
    })
}
