//! Makes a chain as short as its meaning allows.
//!
//! Three facts are used. Rules with the same action whose conditions differ in one field are one rule that tests
//! for the union. A rule may move before another if no packet fulfils both, or if both do the same. A rule whose
//! packets have all been decided by earlier rules can go.
//!
//! Rules write marks, and what was known of a mark before says nothing afterwards: such a field takes part in none of
//! the three across a rule that writes it.

use super::Effect;
use super::draft::Draft;
use super::owners;
use crate::field::{Condition, Field};
use crate::{Disposition, Family, Target, WriteSet};

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
    // Every fact is about two rules.
    if drafts.len() < 2 {
        return drafts;
    }
    // The first pass shortens what the second looks at pair by pair; the last merges what that brought together.
    merge(ask_owners_first(decided(merge(drafts))))
}

fn merge(drafts: Vec<Draft>) -> Vec<Draft> {
    // Of most fields of most chains there are no two to merge. Merging along one field makes no condition about another.
    let conditions = drafts.iter().flat_map(|draft| &draft.conditions).filter(|condition| !condition.negated);
    let tested: Vec<Field> = conditions.map(|condition| condition.field).collect();
    let is_repeated = |field: &Field| tested.iter().filter(|tested| *tested == field).nth(1).is_some();
    FIELDS.into_iter().filter(is_repeated).fold(drafts, merge_along)
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

/// The index of the condition on the field.
fn tested(draft: &Draft, field: Field) -> Option<usize> {
    draft.conditions.iter().position(|condition| condition.field == field && !condition.negated)
}

/// Adds a draft's values to those of its partner.
fn absorb(drafts: &mut [Draft], (index, at): (usize, usize), draft: &Draft) {
    drafts[index].conditions[at].values.union(&draft.conditions[at].values);
}

/// An earlier rule that the draft can be merged into, and the place of the condition in which they differ.
fn partner(earlier: &[Draft], draft: &Draft, field: Field) -> Option<(usize, usize)> {
    let at = tested(draft, field)?;
    if field == Field::Protocol && needs_one_protocol(&draft.effect) {
        return None;
    }
    for (index, other) in earlier.iter().enumerate().rev() {
        if same_but(other, draft, at) && (is_repeatable(draft) || apart(other, draft, at)) {
            return Some((index, at));
        }
        if !commute(other, draft) {
            return None;
        }
    }
    None
}

/// NAT and TPROXY to a port: `nft` wants to know which protocol the port belongs to.
fn needs_one_protocol(effect: &Effect) -> bool {
    matches!(effect, Effect::Target(Target::Redirect(_) | Target::Tproxy { .. }))
}

/// Whether two rules are the same but for the values of their condition number `at`.
fn same_but(a: &Draft, b: &Draft, at: usize) -> bool {
    let (a_conditions, b_conditions) = (&a.conditions, &b.conditions);
    // Names are compared last, as that takes longest.
    a_conditions.len() == b_conditions.len()
        && (a_conditions[at].field, a_conditions[at].negated)
            == (b_conditions[at].field, b_conditions[at].negated)
        && a_conditions[..at] == b_conditions[..at]
        && a_conditions[at + 1..] == b_conditions[at + 1..]
        && (&a.effect, &a.report, a.origin) == (&b.effect, &b.report, b.origin)
}

/// Whether the two never meet in one packet, for the values of their condition number `at`.
fn apart(a: &Draft, b: &Draft, at: usize) -> bool {
    a.conditions[at].contradicts(&b.conditions[at])
}

/// Whether the order of two neighbours is of no consequence.
fn commute(a: &Draft, b: &Draft) -> bool {
    let written = a.writes.union(b.writes);
    let steady = |condition: &&Condition| !condition.field.depends_on(written);
    (&a.effect, &a.report) == (&b.effect, &b.report) && is_repeatable(a)
        || a.conditions
            .iter()
            .filter(steady)
            .any(|one| b.conditions.iter().any(|other| one.contradicts(other)))
}

/// Whether doing it twice comes to the same as doing it once.
fn is_repeatable(draft: &Draft) -> bool {
    match &draft.effect {
        Effect::Target(target) => target.is_idempotent(),
        // A chain that writes may do something else the second time.
        Effect::Jump(_) => draft.writes == WriteSet::NOTHING,
        Effect::Goto(_) | Effect::None => true,
    }
}

/// Without the rules that no packet reaches. Owners, each with separate rules, merge on the way: what is kept is
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

/// Puts a rule about owners before one that asks for others than these, so that the latter need not ask any more: that can not
/// be asked in one rule (see [`owners`]).
fn ask_owners_first(mut drafts: Vec<Draft>) -> Vec<Draft> {
    let mut index = 0;
    while index < drafts.len() {
        match drafts[index].conditions.iter().position(owners::is_negated_owner) {
            Some(at) if drop_negated_owner(&mut drafts, index, at) => {
                // Look here again: the rule that was moved, if any, is here now, and a rule may have two such conditions.
            }
            Some(_) | None => index += 1,
        }
    }
    drafts
}

/// Takes the condition number `at` from a rule if no packet that fails it comes to the rule, or none would if a later
/// rule stood before it. Says whether.
fn drop_negated_owner(drafts: &mut [Draft], index: usize, at: usize) -> bool {
    let mut others = drafts[index].clone();
    others.conditions[at] = others.conditions[at].opposite();
    if is_decided(&others, &drafts[..index]) {
        drafts[index].conditions.remove(at);
        return true;
    }
    let field = others.conditions[at].field;
    for later in index + 1..drafts.len() {
        let rule = &drafts[later];
        let tests_field = rule.conditions.iter().any(|c| c.field == field && !c.negated);
        if !tests_field || !drafts[index..later].iter().all(|passed| commute(passed, rule)) {
            continue;
        }
        let earlier = [&drafts[..index], &drafts[later..=later]].concat();
        if is_decided(&others, &earlier) {
            drafts[index].conditions.remove(at);
            drafts[index..=later].rotate_right(1);
            return true;
        }
    }
    false
}

/// A condition that packets are known to fulfil, and how often its field had been written by then: of two times that
/// differ, the one says nothing about the other.
struct Fact {
    condition: Condition,
    time: usize,
}

impl Fact {
    fn implies(&self, condition: &Condition, time: usize) -> bool {
        self.time == time && self.condition.implies(condition)
    }
}

/// Whether earlier rules decide every packet of a rule.
///
/// An earlier rule with one condition more than is known of the packets decides those that fulfil it, so what
/// remains are those that do not: that much more is known of them, and other rules may now decide them all.
fn is_decided(draft: &Draft, earlier: &[Draft]) -> bool {
    let writers: Vec<(usize, WriteSet)> = earlier
        .iter()
        .enumerate()
        .filter(|(_, rule)| rule.writes != WriteSet::NOTHING)
        .map(|(index, rule)| (index, rule.writes))
        .collect();
    let time = |field: Field, place: usize| {
        writers.iter().filter(|(index, writes)| *index < place && field.depends_on(*writes)).count()
    };
    let fact = |condition: &Condition| Fact {
        condition: condition.clone(),
        time: time(condition.field, earlier.len()),
    };
    let mut known: Vec<Fact> = draft.conditions.iter().map(fact).collect();
    let mut open: Vec<(usize, &Draft)> =
        earlier.iter().enumerate().filter(|(_, rule)| decides(&rule.effect)).collect();
    loop {
        let before = open.len();
        let mut rest = Vec::with_capacity(before);
        for (place, rule) in open {
            let is_known = |c: &&Condition| known.iter().any(|k| k.implies(c, time(c.field, place)));
            let mut unknown = rule.conditions.iter().filter(|c| !is_known(c));
            match (unknown.next(), unknown.next()) {
                (None, _) => return true,
                (Some(condition), None) if condition.has_opposite() => {
                    let time = time(condition.field, place);
                    if !know(&mut known, Fact { condition: condition.opposite(), time }) {
                        return true;
                    }
                }
                (Some(_), _) => rest.push((place, rule)),
            }
        }
        if rest.len() == before {
            return false;
        }
        open = rest;
    }
}

/// Adds what is known of packets; says whether any can still exist.
fn know(known: &mut Vec<Fact>, more: Fact) -> bool {
    let same_time = |k: &Fact| k.time == more.time;
    if known.iter().any(|k| same_time(k) && k.condition.contradicts(&more.condition)) {
        return false;
    }
    let same = |k: &Condition| k.field == more.condition.field && k.negated && more.condition.negated;
    match known.iter_mut().find(|k| same_time(k) && same(&k.condition)) {
        Some(k) => k.condition.values.union(&more.condition.values),
        None => known.push(more),
    }
    true
}

/// Whether no packet goes on to the next rule.
pub(super) fn decides(effect: &Effect) -> bool {
    match effect {
        Effect::Goto(_) => true,
        Effect::Target(Target::Tproxy { .. }) | Effect::Jump(_) | Effect::None => false,
        Effect::Target(target) => {
            matches!(target.disposition(), Disposition::Terminates | Disposition::Returns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;
    use crate::field::{Interval, Intervals};
    use proptest::prelude::*;

    /// Fields of two kinds, each with few values, so that random rules meet. Rules write the last two.
    const FIELDS: [Field; 4] =
        [Field::DestinationPort, Field::Uid, Field::Mark(u32::MAX), Field::Connmark(u32::MAX)];

    const MARK: WriteSet = WriteSet { mark: true, connmark: false, zone: false };
    const CONNMARK: WriteSet = WriteSet { mark: false, connmark: true, zone: false };

    fn rule() -> impl Strategy<Value = Draft> {
        let values = proptest::collection::btree_set(0u128..3, 1..3);
        let condition = (any::<bool>(), values).prop_map(|(negated, values)| {
            let values: Intervals = values.into_iter().map(Interval::one).collect();
            (negated, values)
        });
        let conditions = proptest::collection::btree_map(0usize..4, condition, 0..3);
        let effect = prop_oneof![
            3 => Just((Effect::Target(Target::Return), WriteSet::NOTHING)),
            2 => Just((Effect::Target(Target::Drop), WriteSet::NOTHING)),
            2 => Just((Effect::Jump("reads".to_owned()), WriteSet::NOTHING)),
            1 => Just((Effect::Jump("counts".to_owned()), MARK)),
            1 => (0u32..3).prop_map(|value| (Effect::Target(Target::SetMark(Mark::whole(value))), MARK)),
            1 => Just((Effect::Target(Target::SetMark(Mark { value: 1, mask: 0 })), MARK)),
            1 => (0u32..3).prop_map(|value| (Effect::Target(Target::SetConnmark(Mark::whole(value))), CONNMARK)),
            1 => Just((Effect::Target(Target::SetConnmark(Mark { value: 1, mask: 0 })), CONNMARK)),
            1 => Just((Effect::Target(Target::SaveMark), CONNMARK)),
            1 => Just((Effect::Target(Target::RestoreMark), MARK)),
        ];
        (conditions, effect).prop_map(|(conditions, (effect, writes))| {
            let condition =
                |(at, (negated, values)): (usize, _)| Condition { field: FIELDS[at], negated, values };
            let conditions = conditions.into_iter().map(condition).collect();
            Draft { conditions, report: None, effect, writes, origin: None }
        })
    }

    /// What a chain does with a packet.
    #[derive(Debug, PartialEq)]
    struct Verdict<'a> {
        /// What it was at each jump; of equal ones in a row, the first.
        jumps: Vec<(&'a Effect, [u32; 4])>,
        end: Option<&'a Effect>,
        /// What it is then.
        packet: [u32; 4],
    }

    fn verdict(chain: &[Draft], mut packet: [u32; 4]) -> Verdict<'_> {
        let mut jumps = Vec::new();
        for draft in chain {
            let holds = |condition: &Condition| {
                let at = FIELDS.iter().position(|field| *field == condition.field).expect("a known field");
                condition.values.meets(&Intervals::one(packet[at].into())) != condition.negated
            };
            if !draft.conditions.iter().all(holds) {
                continue;
            }
            match &draft.effect {
                Effect::Target(Target::SetMark(mark)) => packet[2] = mark.set_in(packet[2]),
                Effect::Target(Target::SetConnmark(mark)) => packet[3] = mark.set_in(packet[3]),
                Effect::Target(Target::SaveMark) => packet[3] = packet[2],
                Effect::Target(Target::RestoreMark) => packet[2] = packet[3],
                Effect::Jump(name) => {
                    if jumps.last() != Some(&(&draft.effect, packet)) {
                        jumps.push((&draft.effect, packet));
                    }
                    packet[2] = if name == "counts" { (packet[2] + 1) & 3 } else { packet[2] };
                }
                end => return Verdict { jumps, end: Some(end), packet },
            }
        }
        Verdict { jumps, end: None, packet }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: testkit::scope::runs(2000, 500), ..ProptestConfig::default() })]

        #[test]
        fn a_shorter_chain_decides_the_same(chain in proptest::collection::vec(rule(), 0..12)) {
            let short = compact(chain.clone());
            prop_assert!(short.len() <= chain.len());
            for number in 0..256 {
                let packet = [number & 3, number >> 2 & 3, number >> 4 & 3, number >> 6];
                prop_assert_eq!(verdict(&chain, packet), verdict(&short, packet), "{:?}", packet);
            }
        }
    }
}
