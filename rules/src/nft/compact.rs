//! Makes a chain as short as its meaning allows.
//!
//! Three facts are used. Rules with the same action whose conditions differ in one field are one rule that asks
//! for the union. A rule may move before another if no packet fulfils both, or if both do the same. A rule whose
//! packets have all been decided by earlier rules can go.

use super::Action;
use super::condition::{Condition, Field};
use super::draft::Draft;
use crate::Family;

/// The fields along which rules merge, those with the longest lists first.
const FIELDS: [Field; 11] = [
    Field::Source(Family::V4),
    Field::Source(Family::V6),
    Field::Destination(Family::V4),
    Field::Destination(Family::V6),
    Field::SourcePort,
    Field::DestinationPort,
    Field::Uid,
    Field::Gid,
    Field::InInterface,
    Field::OutInterface,
    Field::Protocol,
];

/// The same decisions in fewer rules.
pub(super) fn compact(drafts: Vec<Draft>) -> Vec<Draft> {
    // The first pass shortens what the second looks at pair by pair; the third merges what that brought together.
    merge(decided(merge(drafts)))
}

fn merge(drafts: Vec<Draft>) -> Vec<Draft> {
    FIELDS.into_iter().fold(drafts, merge_along)
}

fn merge_along(drafts: Vec<Draft>, field: Field) -> Vec<Draft> {
    let mut merged: Vec<Draft> = Vec::with_capacity(drafts.len());
    for draft in drafts {
        match partner(&merged, &draft, field) {
            Some(place) => absorb(&mut merged, place, &draft),
            None => merged.push(draft),
        }
    }
    merged
}

/// Adds a draft's values to those of its partner.
fn absorb(drafts: &mut [Draft], (index, at): (usize, usize), draft: &Draft) {
    drafts[index].conditions[at].values.union(&draft.conditions[at].values);
}

/// An earlier rule that the draft can be merged into, and the place of the condition in which they differ.
fn partner(earlier: &[Draft], draft: &Draft, field: Field) -> Option<(usize, usize)> {
    let at = draft.conditions.iter().position(|condition| condition.field == field && !condition.negated)?;
    if field == Field::Protocol && needs_one_protocol(&draft.action) {
        return None;
    }
    for (index, other) in earlier.iter().enumerate().rev() {
        if same_but(other, draft, at) {
            return Some((index, at));
        }
        if !commute(other, draft) {
            return None;
        }
    }
    None
}

/// NAT and TPROXY to a port: `nft` wants to know which protocol the port belongs to.
fn needs_one_protocol(action: &Action) -> bool {
    match action {
        Action::Redirect(_) | Action::Tproxy { .. } => true,
        Action::Accept
        | Action::Drop
        | Action::Return
        | Action::Jump(_)
        | Action::SetMark(_)
        | Action::SaveMark
        | Action::RestoreMark
        | Action::SetZone(_)
        | Action::Report => false,
    }
}

/// Whether two rules are the same but for the values of their condition number `at`.
fn same_but(a: &Draft, b: &Draft, at: usize) -> bool {
    let (a_conditions, b_conditions) = (&a.conditions, &b.conditions);
    a_conditions.len() == b_conditions.len()
        && (a_conditions[at].field, a_conditions[at].negated)
            == (b_conditions[at].field, b_conditions[at].negated)
        && (&a.action, &a.log, a.origin) == (&b.action, &b.log, b.origin)
        && a_conditions[..at] == b_conditions[..at]
        && a_conditions[at + 1..] == b_conditions[at + 1..]
}

/// Whether the order of two neighbours is of no consequence.
fn commute(a: &Draft, b: &Draft) -> bool {
    (&a.action, &a.log) == (&b.action, &b.log)
        || a.conditions.iter().any(|one| b.conditions.iter().any(|other| one.contradicts(other)))
}

/// Without the rules that no packet reaches. Owners, each with rules of its own, merge on the way: what is kept is
/// looked through for every rule, so it has to stay short.
fn decided(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut kept: Vec<Draft> = Vec::with_capacity(drafts.len());
    for draft in drafts {
        if is_decided(&draft, &kept) {
            continue;
        }
        let partner = [Field::Uid, Field::Gid].into_iter().find_map(|field| partner(&kept, &draft, field));
        match partner {
            Some(place) => absorb(&mut kept, place, &draft),
            None => kept.push(draft),
        }
    }
    kept
}

/// Whether earlier rules decide every packet of a rule.
///
/// An earlier rule that asks for one thing more than is known of the packets decides those that have it, so what
/// remains are those that do not: that much more is known of them, and other rules may now decide them all.
fn is_decided(draft: &Draft, earlier: &[Draft]) -> bool {
    let mut known = draft.conditions.clone();
    let mut open: Vec<&Draft> = earlier.iter().filter(|rule| decides(&rule.action)).collect();
    loop {
        let before = open.len();
        let mut rest = Vec::with_capacity(before);
        for rule in open {
            let mut unknown = rule.conditions.iter().filter(|c| !known.iter().any(|k| k.implies(c)));
            match (unknown.next(), unknown.next()) {
                (None, _) => return true,
                (Some(condition), None) => {
                    if !know(&mut known, condition.opposite()) {
                        return true;
                    }
                }
                (Some(_), Some(_)) => rest.push(rule),
            }
        }
        if rest.len() == before {
            return false;
        }
        open = rest;
    }
}

/// Adds what is known of packets; says whether any can still exist.
fn know(known: &mut Vec<Condition>, more: Condition) -> bool {
    if known.iter().any(|k| k.contradicts(&more)) {
        return false;
    }
    match known.iter_mut().find(|k| k.field == more.field && k.negated && more.negated) {
        Some(k) => k.values.union(&more.values),
        None => known.push(more),
    }
    true
}

/// Whether no packet goes on to the next rule.
fn decides(action: &Action) -> bool {
    match action {
        Action::Accept | Action::Drop | Action::Return | Action::Redirect(_) => true,
        Action::Jump(_)
        | Action::Tproxy { .. }
        | Action::SetMark(_)
        | Action::SaveMark
        | Action::RestoreMark
        | Action::SetZone(_)
        | Action::Report => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::intervals::{Interval, Intervals};
    use proptest::prelude::*;

    /// Fields of two kinds, each with few values, so that random rules meet.
    const FIELDS: [Field; 4] = [Field::OutInterface, Field::DestinationPort, Field::Uid, Field::Gid];

    fn rule() -> impl Strategy<Value = Draft> {
        let values = proptest::collection::btree_set(0u128..4, 1..3);
        let condition = (any::<bool>(), values).prop_map(|(negated, values)| {
            let values: Intervals = values.into_iter().map(Interval::one).collect();
            (negated, values)
        });
        let conditions = proptest::collection::btree_map(0usize..4, condition, 0..4);
        let action = prop_oneof![
            3 => Just(Action::Return),
            1 => Just(Action::Drop),
            2 => Just(Action::Jump("a".to_owned())),
            1 => Just(Action::SaveMark),
        ];
        (conditions, action).prop_map(|(conditions, action)| {
            let condition =
                |(at, (negated, values)): (usize, _)| Condition { field: FIELDS[at], negated, values };
            let conditions = conditions.into_iter().map(condition).collect();
            Draft { conditions, log: None, action, origin: None }
        })
    }

    /// What a chain does with a packet: what happens on the way, each thing once, and what ends it.
    fn fate(chain: &[Draft], packet: [u128; 4]) -> (Vec<&Action>, Option<&Action>) {
        let holds = |condition: &Condition| {
            let at = FIELDS.iter().position(|field| *field == condition.field).expect("a known field");
            condition.values.meets(&Intervals::one(packet[at])) != condition.negated
        };
        let mut way = Vec::new();
        for draft in chain.iter().filter(|draft| draft.conditions.iter().all(holds)) {
            if decides(&draft.action) {
                return (way, Some(&draft.action));
            }
            if way.last() != Some(&&draft.action) {
                way.push(&draft.action);
            }
        }
        (way, None)
    }

    proptest! {
        #[test]
        fn a_shorter_chain_decides_the_same(chain in proptest::collection::vec(rule(), 0..9)) {
            let short = compact(chain.clone());
            prop_assert!(short.len() <= chain.len());
            for number in 0..256u128 {
                let packet = [number & 3, number >> 2 & 3, number >> 4 & 3, number >> 6];
                prop_assert_eq!(fate(&chain, packet), fate(&short, packet), "{:?}", packet);
            }
        }
    }
}
