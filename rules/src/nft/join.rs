//! Makes the rules of two families one list.
//!
//! Rules that are equal in both lose their family; the others ask for theirs. Rules of different families never
//! meet the same packet, so all that matters is that each family's rules keep their order.

use super::Effect;
use super::draft::Draft;
use crate::field::Condition;
use crate::{Family, Origin, Target, TrafficEffect, WriteSet};

/// The rules of IPv4 where IPv6 is off. In a base chain, a first rule lets IPv6 pass.
pub(super) fn alone(v4: Vec<Draft>, is_base: bool) -> Vec<Draft> {
    let guard = Draft {
        conditions: vec![Condition::family(Family::V6)],
        report: None,
        effect: Effect::Target(Target::Return),
        writes: WriteSet::NOTHING,
        origin: Some(Origin { name: "ipv6-passes", option: "", effect: TrafficEffect::Excluded, item: None }),
    };
    let rules = v4.into_iter().map(|draft| match has_address(&draft) {
        true => only(draft, Family::V4),
        false => draft,
    });
    is_base.then_some(guard).into_iter().chain(rules).collect()
}

pub(super) fn join(v4: Vec<Draft>, v6: Vec<Draft>) -> Vec<Draft> {
    let common = common(&v4, &v6);
    let mut joined = Vec::with_capacity(v4.len() + v6.len());
    let (mut v4, mut v6) = (v4.into_iter().enumerate(), v6.into_iter().enumerate());
    for (in_v4, in_v6) in common {
        // This drops IPv4's copy of the common rule as well; that of IPv6 serves both.
        joined.extend(
            v4.by_ref().take_while(|(index, _)| *index < in_v4).map(|(_, draft)| only(draft, Family::V4)),
        );
        for (index, draft) in v6.by_ref() {
            if index == in_v6 {
                joined.push(draft);
                break;
            }
            joined.push(only(draft, Family::V6));
        }
    }
    joined.extend(v4.map(|(_, draft)| only(draft, Family::V4)));
    joined.extend(v6.map(|(_, draft)| only(draft, Family::V6)));
    joined
}

/// The longest list of rules that both have in this order, as pairs of places.
fn common(a: &[Draft], b: &[Draft]) -> Vec<(usize, usize)> {
    // Most rules are equal in both, and the table below has a place for each pair.
    let alike = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_of_a, rest_of_b) = (&a[alike..], &b[alike..]);
    let at_end = rest_of_a.iter().rev().zip(rest_of_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&rest_of_a[..rest_of_a.len() - at_end], &rest_of_b[..rest_of_b.len() - at_end]);
    let end = (0..at_end).map(|more| (alike + a.len() + more, alike + b.len() + more));
    let between = longest_common(a, b).into_iter().map(|(i, j)| (alike + i, alike + j));
    (0..alike).map(|same| (same, same)).chain(between).chain(end).collect()
}

fn longest_common(a: &[Draft], b: &[Draft]) -> Vec<(usize, usize)> {
    // lengths[i][j]: the longest common list of a[i..] and b[j..].
    let mut lengths = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i][j] = match a[i] == b[j] {
                true => lengths[i + 1][j + 1] + 1,
                false => lengths[i + 1][j].max(lengths[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[i + 1][j] >= lengths[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

fn has_address(draft: &Draft) -> bool {
    draft.conditions.iter().any(|condition| condition.field.family().is_some())
}

fn only(mut draft: Draft, family: Family) -> Draft {
    draft.conditions.push(Condition::family(family));
    draft.conditions.sort();
    draft
}
