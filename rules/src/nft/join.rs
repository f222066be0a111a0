//! Makes the rules of two families one list.
//!
//! Rules that are equal in both lose their family; the others ask for theirs. Rules of different families never
//! meet the same packet, so all that matters is that each family's rules keep their order.

use super::Effect;
use super::draft::Draft;
use crate::field::Condition;
use crate::{Family, Origin, Target, TrafficEffect, WriteSet};
use similar::{Algorithm, DiffTag, capture_diff_slices};

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

pub(super) fn join(v4: &[Draft], v6: &[Draft]) -> Vec<Draft> {
    let mut joined = Vec::with_capacity(v4.len() + v6.len());
    for op in capture_diff_slices(Algorithm::Lcs, v4, v6) {
        let (of_v4, of_v6) = (&v4[op.old_range()], &v6[op.new_range()]);
        if op.tag() == DiffTag::Equal {
            joined.extend_from_slice(of_v4);
        } else {
            joined.extend(of_v4.iter().map(|draft| only(draft.clone(), Family::V4)));
            joined.extend(of_v6.iter().map(|draft| only(draft.clone(), Family::V6)));
        }
    }
    joined
}

fn has_address(draft: &Draft) -> bool {
    draft.conditions.iter().any(|condition| condition.field.family().is_some())
}

fn only(mut draft: Draft, family: Family) -> Draft {
    draft.conditions.push(Condition::family(family));
    draft.conditions.sort();
    draft
}
