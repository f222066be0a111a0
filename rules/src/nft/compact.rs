//! Shortens a chain without changing its meaning, using three facts: rules with the same action whose conditions differ in one
//! field merge into one rule; a rule may move before another if no packet fulfils both, or if both have the same effect; a rule
//! is removable if earlier rules decide all its packets.
//!
//! A rule that writes a mark invalidates earlier knowledge of it: no simplification uses a field across such a rule.

use super::{Base, Effect, draft::Draft};
use crate::field::{Condition, Field};
use crate::{Family, Target, WriteSet};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Fields along which rules merge, longest lists first.
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

pub(super) fn compact(drafts: Vec<Draft>) -> Vec<Draft> {
    if drafts.len() < 2 {
        return drafts;
    }
    // The first pass shortens the input of the second, which is quadratic; the last merges rules that became neighbours.
    merge(ask_owners_first(decided(merge(drafts))))
}

fn merge(drafts: Vec<Draft>) -> Vec<Draft> {
    // In most chains, few fields have more than one condition. Merging along one field adds no condition on another.
    let conditions = drafts.iter().flat_map(|draft| &draft.conditions).filter(|condition| !condition.negated);
    let tested: Vec<Field> = conditions.map(|condition| condition.field).collect();
    let is_repeated = |field: &Field| tested.iter().filter(|tested| *tested == field).nth(1).is_some();
    FIELDS.into_iter().filter(is_repeated).fold(drafts, merge_along)
}

fn merge_along(drafts: Vec<Draft>, field: Field) -> Vec<Draft> {
    let fields = [field];
    let mut merger = Merger::of(&fields);
    for draft in drafts {
        match merger.partner(&draft) {
            Some((index, at)) => merger.absorb_later(index, draft.conditions[at].clone()),
            None => merger.push(draft),
        }
    }
    merger.finish()
}

/// Rules that merge along fields. Partners are found by their common part, because a list may produce thousands of rules.
struct Merger<'a> {
    fields: &'a [Field],
    drafts: Vec<Draft>,
    /// Each draft's values that are not yet in its conditions, in sets at least twice as long as the next: merging a list in any
    /// order takes little longer than sorting it.
    later: Vec<Vec<Condition>>,
    /// The last draft for each hash of a rule's common part.
    last: HashMap<u64, usize>,
    /// First of the trailing drafts with the same effect.
    alike_from: usize,
}

impl<'a> Merger<'a> {
    fn of(fields: &'a [Field]) -> Self {
        Self { fields, drafts: Vec::new(), later: Vec::new(), last: HashMap::new(), alike_from: 0 }
    }

    /// Indexes of the conditions along which a draft may merge.
    fn places(&self, draft: &Draft) -> impl Iterator<Item = usize> {
        let may_merge = |field: &&Field| **field != Field::Protocol || !needs_one_protocol(&draft.effect);
        let fields = self.fields.iter().filter(may_merge);
        fields.filter_map(|field| draft.conditions.iter().position(|c| c.field == *field && !c.negated))
    }

    fn kinds(&self, draft: &Draft) -> Vec<(usize, u64)> {
        let kind = |at: usize| {
            let mut hash = DefaultHasher::new();
            (at, &draft.conditions[..at], &draft.conditions[at + 1..]).hash(&mut hash);
            (&draft.effect, &draft.report, draft.origin).hash(&mut hash);
            (at, hash.finish())
        };
        self.places(draft).map(kind).collect()
    }

    fn partner(&self, draft: &Draft) -> Option<(usize, usize)> {
        let merges = |at: usize, index: usize| {
            let other = &self.drafts[index];
            let apart = || self.contradict(index, &other.conditions[at], &draft.conditions[at]);
            let commute = |index: usize| self.commute(index, draft);
            same_but(other, draft, at)
                && (is_repeatable(draft) || apart())
                && (is_repeatable(draft) && index >= self.alike_from
                    || (index + 1..self.drafts.len()).rev().all(commute))
        };
        let last = self.drafts.len().checked_sub(1)?;
        let neighbour = self.places(draft).find(|at| merges(*at, last)).map(|at| (last, at));
        let known =
            || self.kinds(draft).into_iter().filter_map(|(at, kind)| Some((*self.last.get(&kind)?, at)));
        neighbour.or_else(|| known().find(|(index, at)| merges(*at, *index)))
    }

    fn push(&mut self, draft: Draft) {
        let index = self.drafts.len();
        self.last.extend(self.kinds(&draft).into_iter().map(|(_, kind)| (kind, index)));
        if self.drafts.last().is_some_and(|last| !same_effect(last, &draft)) {
            self.alike_from = index;
        }
        self.drafts.push(draft);
        self.later.push(Vec::new());
    }

    /// Schedules a condition's values for addition to a draft.
    fn absorb_later(&mut self, index: usize, mut more: Condition) {
        let later = &mut self.later[index];
        if let Some(last) = later.last_mut().filter(|last| last.values.precedes(&more.values)) {
            return last.values.union(&more.values);
        }
        while let Some(last) =
            later.pop_if(|last| last.values.ranges().len() < 2 * more.values.ranges().len())
        {
            more.values.union(&last.values);
        }
        later.push(more);
    }

    fn finish(self) -> Vec<Draft> {
        let finished = self.drafts.into_iter().zip(self.later).map(|(mut draft, later)| {
            let grown = |c: &&mut Condition| {
                later.first().is_some_and(|l| (l.field, l.negated) == (c.field, c.negated))
            };
            if let Some(condition) = draft.conditions.iter_mut().find(grown) {
                let sets = [&condition.values].into_iter().chain(later.iter().map(|more| &more.values));
                condition.values = sets.flat_map(|set| set.ranges().iter().copied()).collect();
            }
            draft
        });
        finished.collect()
    }

    fn contradict(&self, index: usize, one: &Condition, other: &Condition) -> bool {
        let more =
            self.later[index].iter().filter(|more| (more.field, more.negated) == (one.field, one.negated));
        one.contradicts(other) && more.into_iter().all(|more| more.contradicts(other))
    }

    fn commute(&self, index: usize, b: &Draft) -> bool {
        commute(&self.drafts[index], b, |one, other| self.contradict(index, one, other))
    }
}

/// True for NAT and TPROXY: `nft` requires the port's protocol.
fn needs_one_protocol(effect: &Effect) -> bool {
    matches!(effect, Effect::Target(Target::Redirect(_) | Target::Tproxy { .. }))
}

/// True if the rules differ only in the values of condition `at`.
fn same_but(a: &Draft, b: &Draft, at: usize) -> bool {
    let (a_conditions, b_conditions) = (&a.conditions, &b.conditions);
    // Names are compared last, as that takes longest.
    a_conditions.len() == b_conditions.len()
        && (a_conditions[at].field, a_conditions[at].negated)
            == (b_conditions[at].field, b_conditions[at].negated)
        && a_conditions[..at] == b_conditions[..at]
        && a_conditions[at + 1..] == b_conditions[at + 1..]
        && a.origin == b.origin
        && same_effect(a, b)
}

fn same_effect(a: &Draft, b: &Draft) -> bool {
    (&a.effect, &a.report) == (&b.effect, &b.report)
}

/// True if two neighbours may swap. `contradict`: true if no packet fulfils both conditions.
fn commute(a: &Draft, b: &Draft, contradict: impl Fn(&Condition, &Condition) -> bool) -> bool {
    #[cfg(test)]
    crate::intervals::steps::count(1);
    let written = a.writes.union(b.writes);
    let mut steady = a.conditions.iter().filter(|condition| !condition.field.depends_on(written));
    same_effect(a, b) && is_repeatable(a)
        || steady.any(|one| b.conditions.iter().any(|other| contradict(one, other)))
}

/// True if a second execution has no effect.
fn is_repeatable(draft: &Draft) -> bool {
    match &draft.effect {
        Effect::Target(target) => target.is_idempotent(),
        Effect::Jump(_) => draft.writes == WriteSet::NOTHING,
        Effect::Goto(_) | Effect::None => true,
    }
}

/// Removes rules that no packet reaches. Merging owners meanwhile saves time: each rule is checked against all earlier rules.
fn decided(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut kept = Merger::of(&[Field::Uid, Field::Gid]);
    for draft in drafts {
        if is_decided(&draft, &kept.drafts) {
            continue;
        }
        match kept.partner(&draft) {
            Some((index, at)) => {
                kept.drafts[index].conditions[at].values.union(&draft.conditions[at].values);
            }
            None => kept.push(draft),
        }
    }
    kept.drafts
}

/// Moves a rule about owners before one that negates these owners, to drop the negation, which nf_tables lacks (see [`split`]).
fn ask_owners_first(mut drafts: Vec<Draft>) -> Vec<Draft> {
    let mut index = 0;
    while index < drafts.len() {
        match drafts[index].conditions.iter().position(is_negated_owner) {
            Some(at) if drop_negated_owner(&mut drafts, index, at) => {
                // Same index again: it may hold a moved rule, or a rule with another such condition.
            }
            Some(_) | None => index += 1,
        }
    }
    drafts
}

/// Removes condition `at` if no packet that fails it reaches the rule, perhaps after moving a later rule up; true if removed.
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
        if !tests_field
            || !drafts[index..later].iter().all(|passed| commute(passed, rule, Condition::contradicts))
        {
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

/// A condition that packets are known to fulfil, and the number of earlier writes to its field.
struct Fact {
    condition: Condition,
    time: usize,
}

/// True if earlier rules decide all the draft's packets. An earlier rule with one condition beyond the known facts decides the
/// packets that fulfil it. The remaining packets fail it: a new fact for checking other rules.
fn is_decided(draft: &Draft, earlier: &[Draft]) -> bool {
    let writes = earlier.iter().map(|rule| rule.writes).enumerate();
    let writers: Vec<_> = writes.filter(|(_, writes)| *writes != WriteSet::NOTHING).collect();
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
            let is_known = |c: &&Condition| {
                known.iter().any(|k| k.time == time(c.field, place) && k.condition.implies(c))
            };
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

/// True if no packet goes on to the next rule.
pub(super) fn decides(effect: &Effect) -> bool {
    match effect {
        Effect::Goto(_) => true,
        Effect::Target(Target::Tproxy { .. }) | Effect::Jump(_) | Effect::None => false,
        Effect::Target(target) => target.decides(),
    }
}

pub(super) fn is_negated_owner(condition: &Condition) -> bool {
    condition.negated && matches!(condition.field, Field::Uid | Field::Gid)
}

pub(super) type NamedChain = (String, Option<Base>, Vec<Draft>);

/// Splits a chain at negated conditions on the owner, such as `! --uid-owner 1337`. A packet without a socket (a reset, an ICMP
/// error, a forwarded one) has no owner: in iptables the condition holds (`owner_mt` in `xt_owner.c`); in nf_tables a rule with
/// any condition on the owner fails (`nft_meta_get_eval_skugid` in `nft_meta.c`). Before a rule with such a condition, packets of
/// these owners skip to the rules after it, which become another chain.
pub(super) fn split((name, base, drafts): NamedChain) -> Vec<NamedChain> {
    let mut done: Vec<NamedChain> = Vec::new();
    let mut part: NamedChain = (name.clone(), base, Vec::with_capacity(drafts.len()));
    let mut drafts = drafts.into_iter().peekable();
    while let Some(mut draft) = drafts.next() {
        let owners: Vec<Condition> = draft.conditions.extract_if(.., |c| is_negated_owner(c)).collect();
        if owners.is_empty() {
            part.2.push(draft);
            continue;
        }
        let mut with_owners = [&draft.conditions[..], &owners[..]].concat();
        with_owners.sort();
        let bare = Draft { report: None, writes: WriteSet::NOTHING, ..draft.clone() };
        // Rules with the same conditions, such as the two for TPROXY, are split off together.
        let mut same = vec![draft];
        while let Some(next) = drafts.next_if(|next| next.conditions == with_owners) {
            same.push(Draft { conditions: bare.conditions.clone(), ..next });
        }
        let rest = drafts.peek().map(|_| format!("{name}/{}", done.len() + 2));
        let is_end = bare.conditions.is_empty() && same.iter().any(|draft| decides(&draft.effect));
        let leave = rest.clone().map_or(Effect::Target(Target::Return), Effect::Goto);
        part.2.extend(owners.iter().map(|owner| {
            let mut conditions = [&bare.conditions[..], &[owner.opposite()]].concat();
            conditions.sort();
            Draft { conditions, effect: leave.clone(), ..bare.clone() }
        }));
        part.2.append(&mut same);
        if let Some(rest) = rest {
            if !is_end {
                part.2.push(Draft { conditions: Vec::new(), effect: leave, ..bare });
            }
            done.push(std::mem::replace(&mut part, (rest, None, Vec::new())));
        }
    }
    done.push(part);
    done
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

    #[derive(Debug, PartialEq)]
    struct Verdict<'a> {
        jumps: Vec<(&'a Effect, [u32; 4])>,
        end: Option<&'a Effect>,
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

    /// Rules of a list in pseudorandom order: `rules` creates one item's rules.
    fn listed(count: u32, rules: impl Fn(u128) -> Vec<Draft>) -> Vec<Draft> {
        (0..count).flat_map(|item| rules((item.wrapping_mul(0x9E37_79B1) >> 8).into())).collect()
    }

    #[test]
    fn ten_times_the_items_are_at_most_fifteen_times_the_work() {
        let draft = |tests: &[(Field, u128)], effect: &Effect, writes| {
            let tests = tests.iter().map(|(field, value)| Condition::is(*field, Intervals::one(*value)));
            Draft { conditions: tests.collect(), report: None, effect: effect.clone(), writes, origin: None }
        };
        let (pass, mark) = (Effect::Target(Target::Return), Effect::Target(Target::SetMark(Mark::whole(1))));
        let (nothing, jump) = (WriteSet::NOTHING, Effect::Jump("other".to_owned()));
        let kinds: [&dyn Fn(u128) -> Vec<Draft>; 4] = [
            &|item| vec![draft(&[(Field::InInterface, item)], &pass, nothing)],
            &|item| {
                [6, 17]
                    .map(|of| draft(&[(Field::Protocol, of), (Field::DestinationPort, item)], &pass, nothing))
                    .into()
            },
            &|item| {
                let port = (Field::DestinationPort, item);
                vec![draft(&[port, (Field::ConnState, 2)], &mark, MARK), draft(&[port], &jump, nothing)]
            },
            &|item| {
                [Family::V4, Family::V6]
                    .map(|of| draft(&[(Field::Destination(of), item)], &jump, nothing))
                    .into()
            },
        ];
        for (number, rules) in kinds.into_iter().enumerate() {
            let steps = |count| {
                let drafts = listed(count, rules);
                crate::intervals::steps::of(|| assert!(compact(drafts).len() <= 2))
            };
            let (few, many) = (steps(4_000), steps(40_000));
            assert!(many <= 15 * few, "kind {number}: {few} and {many}");
        }
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
