//! Laws of the rule model, tested with random values.
//!
//! Single functions' results are tested beside the functions; these laws hold for all inputs: text and model are equivalent,
//! plans reach their goal and change no other program's rules, and no text becomes a value that could end an argument or a line.

mod arbitrary;
mod atlas;
mod catalogue;
mod foreign;
mod inheritance;
mod small;
mod verdicts;
mod words;

use arbitrary::{ANY, EVERYBODY, OURS, OWNER, checked, desired, line, live, range};
use proptest::{
    collection::vec,
    prelude::*,
    strategy::ValueTree,
    test_runner::{TestCaseResult, TestRunner},
};
use rules::{
    Chain, Checked, Family, ListedRule, Match, PortRange, PortSet, Rule, RuleSet, State, Table, TableChange,
    Target,
    check::check,
    drift, number, parse, plan,
    render::iptables::{appended, change, restore},
};
use std::collections::BTreeSet;
use testkit::scope;

fn listing(state: &State) -> String {
    let mut text = String::new();
    for (table, chains) in &state.tables {
        text.push_str(&format!("*{table}\n"));
        chains.keys().for_each(|chain| text.push_str(&format!(":{chain} - [0:0]\n")));
        for (chain, lines) in chains {
            lines.iter().for_each(|line| text.push_str(&format!("{}\n", appended(chain, line))));
        }
        text.push_str("COMMIT\n");
    }
    text
}

fn after(state: &State, changes: &[TableChange]) -> State {
    changes.iter().fold(state.clone(), |state, change| state.after(change))
}

fn same(one: &State, other: &State) -> bool {
    Table::ALL.into_iter().all(|table| one.same_table(other, table))
}

fn foreign(state: &State) -> Vec<(Table, Chain, Vec<ListedRule>)> {
    let chains = state.tables.iter().flat_map(|(table, chains)| chains.iter().map(move |c| (table, c)));
    chains
        .filter(|(_, (chain, _))| !OWNER.owns_chain(chain))
        .map(|(table, (chain, state))| {
            let lines = state.iter().filter(|line| !line.belongs_to(&OWNER));
            (*table, chain.clone(), lines.cloned().collect())
        })
        .filter(|(_, chain, lines): &(_, _, Vec<ListedRule>)| {
            matches!(chain, Chain::User(_)) || !lines.is_empty()
        })
        .collect()
}

fn ports(ranges: &[PortRange]) -> Vec<bool> {
    let mut intended = vec![false; 1 << 16];
    for range in ranges {
        intended[usize::from(range.first().number())..=usize::from(range.last().number())].fill(true);
    }
    intended
}

/// A plan may create, fill and remove our chains, and insert and delete our rules elsewhere.
fn touches_only_ours(change: &TableChange) -> bool {
    change
        .replace
        .iter()
        .map(|(chain, _)| chain)
        .chain(&change.remove)
        .all(|chain| OWNER.owns_chain_named(chain))
        && change.delete.iter().all(|(chain, line)| !OWNER.owns_chain(chain) && line.belongs_to(&OWNER))
        && change
            .insert
            .iter()
            .all(|(chain, _, line)| matches!(chain, Chain::Base(_)) && line.belongs_to(&OWNER))
}

fn captures(state: &State, table: Table) -> bool {
    let mut rules = state.chains(table).flat_map(|(_, lines)| lines).filter_map(ListedRule::typed);
    rules.any(|rule| matches!(rule.target, Target::Redirect(_) | Target::Tproxy { .. }))
}

fn check_plan(live: &State, desired: &State, changes: &[TableChange]) -> TestCaseResult {
    prop_assert!(changes.iter().all(touches_only_ours), "{changes:#?}");
    let then = after(live, changes);
    prop_assert!(same(&then.part_of(&OWNER), &desired.part_of(&OWNER)));
    prop_assert_eq!(foreign(&then), foreign(live));
    prop_assert_eq!(plan::plan(&then, desired, &OWNER, false), []);
    // Tables that start to capture come first, tables that stop last.
    let order = |change: &TableChange| match (captures(live, change.table), captures(desired, change.table)) {
        (false, true) => 0,
        (true, false) => 2,
        (true, true) | (false, false) => 1,
    };
    prop_assert!(changes.is_sorted_by_key(order), "{changes:#?}");
    for step in changes {
        let rules: usize = step.replace.iter().map(|(_, lines)| lines.len() + 1).sum();
        let lines = rules + step.delete.len() + step.insert.len() + 2 * step.remove.len();
        prop_assert_eq!(change(step).lines().count(), lines + 2, "a rule is a line");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scope::runs(256, 64)))]

    #[test]
    fn previews_read_back_as_their_rule_sets(rules in prop_oneof![checked(ANY), checked(OURS)]) {
        let read = parse::restore(&restore(&rules), rules.rules().family);
        let mut made = rules.rules().clone();
        // The text is sorted by table; statements of different tables are independent.
        made.statements.sort_by_key(|statement| statement.table.name());
        prop_assert_eq!(read, Ok(made));
    }

    #[test]
    fn listings_read_back_as_their_states(rules in prop_oneof![checked(ANY), checked(OURS)]) {
        let state = State::of(rules.rules());
        prop_assert_eq!(parse::save(&listing(&state), rules.rules().family, &EVERYBODY), Ok(state));
    }

    #[test]
    fn listings_with_foreign_rules_read_back(state in live()) {
        prop_assert_eq!(parse::save(&listing(&state), Family::V4, &OWNER), Ok(state));
    }

    #[test]
    fn counters_of_a_listing_have_no_effect(state in live()) {
        let counted = listing(&state).replace("\n-A ", "\n[12:3456] -A ");
        prop_assert_eq!(parse::save(&counted, Family::V4, &OWNER), Ok(state));
    }

    #[test]
    fn the_canonical_form_is_canonical(rules in checked(ANY)) {
        for statement in &rules.rules().statements {
            let canonical = statement.rule.canonical();
            prop_assert_eq!(&canonical.canonical(), &canonical);
        }
    }

    #[test]
    fn canonical_rules_pass_the_check(rules in checked(ANY)) {
        let RuleSet { family, mut statements } = rules.rules().clone();
        statements.iter_mut().for_each(|statement| statement.rule = statement.rule.canonical());
        prop_assert_eq!(check(RuleSet { family, statements }, &EVERYBODY).map(drop), Ok(()));
    }

    #[test]
    fn a_state_holds_rules_where_a_listing_shows_any(state in live()) {
        let chains = || state.tables.values().flatten();
        let lines = chains().map(|(_, held)| held.len()).sum::<usize>();
        let users = chains().filter(|(chain, _)| matches!(chain, Chain::User(_))).count();
        prop_assert_eq!(state.holds_rules(), lines + users > 0);
        let read = parse::listing(&listing(&state), Family::V4).expect("a listing");
        prop_assert_eq!(read.holds_rules(), state.holds_rules());
        let others: usize = foreign(&state).iter().map(|(.., lines)| lines.len()).sum();
        prop_assert_eq!(state.count_of(&OWNER), lines - others);
        prop_assert!(state.holds_any_of(&OWNER) || state.count_of(&OWNER) == 0);
    }

    #[test]
    fn desired_state_needs_no_plan(state in desired()) {
        prop_assert_eq!(plan::plan(&state, &state, &OWNER, false), []);
    }

    #[test]
    fn plan_reaches_the_desired_state_and_keeps_foreign_rules(live in live(), desired in desired()) {
        check_plan(&live, &desired, &plan::plan(&live, &desired, &OWNER, false))?;
        check_plan(&live, &desired, &plan::plan(&live, &desired, &OWNER, true))?;
    }

    #[test]
    fn empty_plan_removes_all_owned_rules(live in live()) {
        let changes = plan::plan(&live, &State::default(), &OWNER, false);
        check_plan(&live, &State::default(), &changes)?;
        prop_assert!(!after(&live, &changes).holds_any_of(&OWNER));
    }

    #[test]
    fn every_change_can_be_undone(live in live(), desired in desired(), again in any::<bool>()) {
        let changes = plan::plan(&live, &desired, &OWNER, again);
        for done in 0..=changes.len() {
            let now = after(&live, &changes[..done]);
            let back = plan::back(&live, &now, &changes, &OWNER);
            prop_assert!(same(&after(&now, &back), &live), "after {done} of {changes:#?}\nback {back:#?}");
        }
    }

    #[test]
    fn only_the_owned_part_of_a_changed_table_is_undone(
        live in desired(), desired in desired(),
    ) {
        let changes = plan::plan(&live, &desired, &OWNER, false);
        let mut now = after(&live, &changes);
        for chains in now.tables.values_mut() {
            for (_, lines) in chains.iter_mut().filter(|(chain, _)| !OWNER.owns_chain(chain)) {
                lines.push(line("-p icmp -j ACCEPT"));
            }
        }
        let then = after(&now, &plan::back(&live, &now, &changes, &OWNER));
        prop_assert!(same(&then.part_of(&OWNER), &live.part_of(&OWNER)));
        prop_assert_eq!(foreign(&then), foreign(&now));
    }

    #[test]
    fn drift_equals_a_plan_with_changes(live in live(), desired in desired()) {
        for (live, desired) in [(&live, &desired), (&live, &live.part_of(&OWNER)), (&desired, &desired)] {
            let nothing_to_do = plan::plan(live, desired, &OWNER, false).is_empty();
            prop_assert_eq!(drift::drift(live, desired, &OWNER).is_empty(), nothing_to_do);
        }
    }

    #[test]
    fn packing_keeps_exactly_the_ports(ranges in vec(range(), 0..40)) {
        let packs = PortSet::pack(ranges.iter().copied());
        let all: Vec<PortRange> = packs.iter().flat_map(PortSet::ranges).copied().collect();
        prop_assert_eq!(ports(&all), ports(&ranges));
        for pack in &packs {
            let slots: usize = pack.ranges().iter().map(|range| if range.is_single() { 1 } else { 2 }).sum();
            prop_assert!((1..=PortSet::SLOTS).contains(&slots));
        }
        prop_assert_eq!(all, number::merge(ranges));
    }
}

/// Exhaustive, so that a new kind of match fails to compile here.
fn kind(condition: &Match) -> usize {
    match condition {
        Match::Source(_) => 0,
        Match::Destination(_) => 1,
        Match::InInterface(_) => 2,
        Match::OutInterface(_) => 3,
        Match::Protocol(_) => 4,
        Match::SourcePort(_) => 5,
        Match::DestinationPort(_) => 6,
        Match::DestinationPorts(_) => 7,
        Match::UidOwner(_) => 8,
        Match::GidOwner(_) => 9,
        Match::ConnState(_) => 10,
        Match::Mark(_) => 11,
        Match::Connmark(_) => 12,
        Match::Comment(_) => 13,
        Match::ProtocolModule(_) => 14,
    }
}

fn effect(target: &Target) -> usize {
    match target {
        Target::Accept => 0,
        Target::Drop => 1,
        Target::Return => 2,
        Target::Jump(_) => 3,
        Target::JumpForeign(_) => 13,
        Target::Redirect(_) => 4,
        Target::Tproxy { .. } => 5,
        Target::SetMark(_) => 6,
        Target::SetConnmark(_) => 11,
        Target::SaveMark => 7,
        Target::RestoreMark => 8,
        Target::SetZone(_) => 9,
        Target::Nflog { .. } => 10,
        Target::Log { .. } => 12,
    }
}

#[test]
fn the_strategies_make_every_condition_and_every_target() {
    let mut runner = TestRunner::deterministic();
    let (mut kinds, mut effects) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..300 {
        if kinds.len() + effects.len() == 15 + 14 {
            break;
        }
        let made: Checked = checked(OURS).new_tree(&mut runner).expect("a rule set").current();
        for Rule { matches, target } in made.rules().statements.iter().map(|statement| &statement.rule) {
            kinds.extend(matches.iter().map(kind));
            effects.insert(effect(target));
        }
    }
    assert_eq!(kinds, (0..15).collect());
    assert_eq!(effects, (0..14).collect());
}
