//! The steps of a change, in order, and the way back. iptables commits table by table, so a change takes several steps, ordered
//! so that every state between them captures at least the traffic that both old and new states capture.

use super::compare::DesiredState;
use crate::backend::nftables::bytecode::EncodedTable;
use crate::backend::{BackendName, CommitStep, Contents, Snapshot, Variant, nftables};
use rules::routing::{Object, RoutingEntry};
use rules::{Family, Mark, Ownership, State, Table, TableChange, bridge, inheritance::Inheritance, plan};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Steps from the live to the desired state: first the prerequisites of rules, then rules, then removals of unused objects. While
/// both captures exist, guards keep them from taking the same packet. `force` sets everything again.
pub fn steps(before: &Snapshot, desired: &DesiredState, force: bool) -> Vec<CommitStep> {
    let Inheritance { inherited, joined, .. } = before.inheritance(&desired.owner);
    let mut steps = adoption(before, &inherited);
    let missing = desired.routes.iter().filter(|object| !before.has(object));
    steps.extend(missing.copied().map(CommitStep::Add));
    steps.extend(Migration::between(before, desired, force).steps);
    let adopted = inherited.iter().map(|route| route.object);
    let ours: BTreeSet<Object> = before.routes.iter().copied().chain(adopted).collect();
    let leftover = ours.iter().rev().filter(|object| !desired.routes.contains(object));
    steps.extend(leftover.chain(&before.duplicates).copied().map(CommitStep::Remove));
    steps.extend(change_of_hands(before, desired, &joined));
    let unlistable =
        before.unlistable.iter().filter(|(_, unlistable)| unlistable.holds_any_of(&desired.owner));
    let unlistable: BTreeSet<(Family, Table)> = unlistable.map(|(place, _)| *place).collect();
    if !unlistable.is_empty() {
        steps.push(CommitStep::CleanUnlistable(unlistable));
    }
    // Neither this nor the previous step can be undone. A single transaction fails less easily, so this comes last.
    let tables: Vec<String> = before.inherited_tables(&desired.owner).map(str::to_owned).collect();
    if !tables.is_empty() {
        steps.push(CommitStep::RemoveTables(tables));
    }
    // If there is nothing else to do, inherited routing keeps its protocol, the evidence of inheritance.
    let only_adopts =
        |step: &CommitStep| matches!(step, CommitStep::Adopt(object) if desired.routes.contains(object));
    if joined.is_empty() && steps.iter().all(only_adopts) {
        steps.clear();
    }
    steps
}

/// Gives inherited routing to the owner first, desired or not: an interrupted run may lose the evidence of its provenance. A
/// replacement adds the owner's policy rule before removing the other.
fn adoption(before: &Snapshot, inherited: &BTreeSet<RoutingEntry>) -> Vec<CommitStep> {
    let objects: BTreeSet<Object> = inherited.iter().map(|route| route.object).collect();
    let adopted = objects.into_iter().filter(|object| !before.routes.contains(object)).map(CommitStep::Adopt);
    let is_rule = |route: &&RoutingEntry| matches!(route.object, Object::Rule { .. });
    adopted.chain(inherited.iter().filter(is_rule).copied().map(CommitStep::RemoveInherited)).collect()
}

/// Routing of the joined owners: adopts desired entries, removes other entries. Comes last: all earlier steps can be rolled back.
fn change_of_hands(
    before: &Snapshot,
    desired: &DesiredState,
    joined: &BTreeSet<RoutingEntry>,
) -> Vec<CommitStep> {
    let is_desired = |object: &Object| desired.routes.contains(object);
    let objects: BTreeSet<Object> = joined.iter().map(|route| route.object).collect();
    let adopted = objects.into_iter().filter(|object| is_desired(object) && !before.routes.contains(object));
    let is_removed =
        |route: &&RoutingEntry| matches!(route.object, Object::Rule { .. }) || !is_desired(&route.object);
    adopted
        .map(CommitStep::Adopt)
        .chain(joined.iter().rev().filter(is_removed).copied().map(CommitStep::RemoveInherited))
        .collect()
}

struct Migration<'a> {
    owner: &'a Ownership,
    now: Cow<'a, Snapshot>,
    steps: Vec<CommitStep>,
}

impl<'a> Migration<'a> {
    fn between(before: &'a Snapshot, desired: &'a DesiredState, force: bool) -> Self {
        let mut migration = Self { owner: &desired.owner, now: Cow::Borrowed(before), steps: Vec::new() };
        let bridge = Bridge::between(before, desired);
        if bridge.is_needed() {
            for contents in before.all_contents() {
                let contents = contents.part_of(&desired.owner);
                let guarded = bridge.guarded(&contents);
                if *guarded != contents {
                    migration.migrate_backend(contents.backend(), Some(&guarded), false);
                }
            }
            for table in before.joined() {
                let guarded = bridge.table(table);
                if guarded != *table {
                    migration
                        .push(CommitStep::Nftables { live: Some(table.clone()), desired: Some(guarded) });
                }
            }
        }
        let kept = desired.contents.as_ref();
        if let Some(contents) = kept {
            migration.migrate_backend(contents.backend(), Some(&bridge.guarded(contents)), force);
        }
        migration.after_in_flight(|migration| {
            let is_removed =
                |backend: &BackendName| kept.is_none_or(|contents| contents.backend() != *backend);
            BackendName::ALL.into_iter().filter(is_removed).for_each(|backend| match (backend, kept) {
                // Tables left empty by the last rule are removed too.
                (BackendName::IPTABLES_NFT, None | Some(Contents::Nftables(_))) => migration.clear(),
                _ => migration.migrate_backend(backend, None, false),
            });
            for table in migration.now.joined().cloned().collect::<Vec<_>>() {
                migration.push(CommitStep::Nftables { live: Some(table), desired: None });
            }
        });
        if let Some(contents) = kept {
            migration.after_in_flight(|migration| {
                migration.migrate_backend(contents.backend(), Some(contents), false);
            });
        }
        migration
    }

    /// Removes the owner's rules, and tables left empty, from iptables (nft).
    fn clear(&mut self) {
        let mut families = Vec::new();
        for family in Family::BOTH {
            let live = self.now.iptables(Variant::Nft, family);
            let changes = plan::plan(&live, &State::default(), self.owner, false);
            if !changes.is_empty() {
                families.push((family, changes));
            }
        }
        if !families.is_empty() {
            self.push(CommitStep::Clear(families));
        }
    }

    fn migrate_backend(&mut self, backend: BackendName, contents: Option<&Contents>, force: bool) {
        match backend {
            BackendName::Iptables(variant) => {
                let state = |family| contents.map_or_else(State::default, |content| content.state(family));
                self.iptables(variant, state, force);
            }
            BackendName::Nftables => self.nftables(contents.and_then(Contents::table), force),
        }
    }

    fn push(&mut self, step: CommitStep) {
        self.now.to_mut().apply(&step);
        self.steps.push(step);
    }

    fn iptables(&mut self, variant: Variant, desired: impl Fn(Family) -> State, force: bool) {
        let mut later = Vec::new();
        for family in Family::BOTH {
            let (live, desired) = (self.now.iptables(variant, family), desired(family));
            let mut changes = plan::plan(&live, &desired, self.owner, force);
            let count = count_before_handover(&changes, &live, &desired, self.owner);
            later.push((family, changes.split_off(count)));
            self.tables(variant, family, changes);
        }
        self.after_in_flight(|migration| {
            later.into_iter().for_each(|(family, left)| migration.tables(variant, family, left));
        });
    }

    fn tables(&mut self, variant: Variant, family: Family, changes: Vec<TableChange>) {
        if !changes.is_empty() {
            self.push(CommitStep::Iptables { variant, family, changes });
        }
    }

    fn nftables(&mut self, desired: Option<&EncodedTable>, force: bool) {
        let live = self.now.nftables();
        if nftables::same(live, desired) && !(force && desired.is_some()) {
            return;
        }
        // `mangle` rules affect packets in `nat`, so neither may change before the other.
        let both =
            live.zip(desired).and_then(|(live, desired)| match (hands_over(live), hands_over(desired)) {
                (true, false) => Some(nftables::both(live, desired.clone())),
                (false, true) => Some(nftables::both(desired, live.clone())),
                (true, true) | (false, false) => None,
            });
        match both {
            Some(both) => {
                self.table(Some(&both));
                self.after_in_flight(|migration| migration.table(desired));
            }
            None => self.table(desired),
        }
    }

    /// Makes the owner's table equal to `desired`, or replaces another owner's table with it in the same transaction.
    fn table(&mut self, desired: Option<&EncodedTable>) {
        let captures_alike =
            |table: &&EncodedTable| desired.is_some_and(|desired| !hands_over(desired)) && !hands_over(table);
        let live = self.now.nftables().or_else(|| self.now.joined().find(captures_alike)).cloned();
        self.push(CommitStep::Nftables { live, desired: desired.cloned() });
    }

    /// Appends steps that come after packets in flight have left the old rules.
    fn after_in_flight(&mut self, further: impl FnOnce(&mut Self)) {
        let so_far = self.steps.len();
        further(self);
        if 0 < so_far && so_far < self.steps.len() {
            self.steps.insert(so_far, CommitStep::WaitForInFlight);
        }
    }
}

/// Number of changes before another table captures inbound packets: TPROXY is in `mangle`, REDIRECT in `nat`.
fn count_before_handover(changes: &[TableChange], live: &State, desired: &State, owner: &Ownership) -> usize {
    let (live, takes) = (live.part_of(owner), |change: &&TableChange| change.table != Table::Raw);
    let differs =
        live.holds_rules() && desired.holds_rules() && is_transparent(&live) != is_transparent(desired);
    match differs && changes.iter().filter(takes).count() > 1 {
        true => changes.iter().rposition(|change| takes(&change)).unwrap_or(changes.len()),
        false => changes.len(),
    }
}

/// Steps from `now` back to `before`: undoes each attempted step that took effect, the last one first.
pub(super) fn way_back(
    before: &Snapshot,
    now: &Snapshot,
    attempted: &[CommitStep],
    owner: &Ownership,
) -> Vec<CommitStep> {
    // Joined owners get back their routing. Inherited routing has no protocol, and comes back as the owner's.
    let others: Vec<Ownership> = owner.others().collect();
    let theirs = others.iter().flat_map(|other| before.routes_of(other)).copied();
    let lost: Vec<RoutingEntry> = theirs.filter(|route| !now.routes_of_others.contains(route)).collect();
    let inherited = attempted.iter().filter_map(|step| match step {
        CommitStep::RemoveInherited(RoutingEntry { object, .. }) | CommitStep::Adopt(object) => Some(*object),
        _ => None,
    });
    let there: BTreeSet<Object> = before.routes.iter().copied().chain(inherited).collect();
    let mut now = now.clone();
    lost.iter().for_each(|route| now.apply(&CommitStep::GiveBack(*route)));
    let missing = there.iter().filter(|object| !now.has(object)).copied();
    let mut back: Vec<CommitStep> =
        lost.into_iter().map(CommitStep::GiveBack).chain(missing.map(CommitStep::Add)).collect();
    for (index, step) in attempted.iter().enumerate().rev() {
        for (variant, family, changes) in step.changes().into_iter().rev() {
            let mut undone = Vec::new();
            let mut earlier = states(before, &attempted[..=index], variant, family);
            earlier.pop();
            for change in changes.iter().rev() {
                let live = now.iptables(variant, family);
                let old = earlier.last().expect("one for each change");
                // If this change has not taken effect, an earlier one may have.
                if !earlier.iter().any(|state| state.same_table(&live, change.table)) {
                    let known = old.after(change).same_table(&live, change.table);
                    let to = if known { old } else { &earlier[0] };
                    let made = plan::back(to, &live, std::slice::from_ref(change), owner);
                    let after = made.iter().fold(live, |state, change| state.after(change));
                    now.set_iptables(variant, family, after);
                    undone.extend(made);
                }
                earlier.pop();
            }
            if !undone.is_empty() {
                back.push(CommitStep::Iptables { variant, family, changes: undone });
            }
        }
        if let CommitStep::Nftables { live, desired } = step
            && took_effect(&now, live.as_ref(), desired.as_ref())
            && live != desired
        {
            let step = CommitStep::Nftables { live: desired.clone(), desired: live.clone() };
            now.apply(&step);
            back.push(step);
        }
    }
    if attempted.iter().any(|step| matches!(step, CommitStep::Nftables { .. })) {
        let own = (now.nftables().cloned(), before.nftables().cloned());
        let joined =
            before.tables_joined.iter().map(|(name, old)| (now.table_named(name).cloned(), old.clone()));
        let differ = joined.chain([own]).filter(|(live, desired)| live != desired);
        back.extend(differ.map(|(live, desired)| CommitStep::Nftables { live, desired }));
    }
    let is_new = |object: &&Object| {
        !before.routes.contains(object) && (!before.others_have(object) || now.others_have(object))
    };
    back.extend(now.routes.iter().filter(is_new).copied().map(CommitStep::Remove));
    back
}

fn took_effect(now: &Snapshot, live: Option<&EncodedTable>, desired: Option<&EncodedTable>) -> bool {
    let is_there = |table: &EncodedTable| nftables::same(now.table_named(&table.name), Some(table));
    let is_gone = |table: &EncodedTable| now.table_named(&table.name).is_none();
    match (live, desired) {
        (Some(live), Some(desired)) if live.name != desired.name => is_gone(live) && is_there(desired),
        (_, Some(desired)) => is_there(desired),
        (Some(live), None) => is_gone(live),
        (None, None) => true,
    }
}

fn states(before: &Snapshot, steps: &[CommitStep], variant: Variant, family: Family) -> Vec<State> {
    let mut states = vec![before.iptables(variant, family)];
    for (v, f, changes) in steps.iter().flat_map(CommitStep::changes) {
        for change in changes.iter().filter(|_| (v, f) == (variant, family)) {
            let after = states.last().map(|state| state.after(change));
            states.extend(after);
        }
    }
    states
}

/// TPROXY marks of a change's live and desired rules together, by backend and nf_tables table.
struct Bridge {
    marks: BTreeMap<(BackendName, String), BTreeSet<Mark>>,
    owner: Ownership,
}

impl Bridge {
    fn between(before: &Snapshot, desired_state: &DesiredState) -> Self {
        let (mut marks, owner) = (BTreeMap::<_, BTreeSet<Mark>>::new(), desired_state.owner);
        let desired = desired_state.contents.iter().map(Cow::Borrowed);
        for contents in before.contents_with_joined().chain(desired) {
            let table = contents.table().map(|table| table.name.clone()).unwrap_or_default();
            marks.entry((contents.backend(), table)).or_default().extend(contents.marks(&owner));
        }
        Self { marks, owner }
    }

    fn is_needed(&self) -> bool {
        self.marks.values().any(|marks| !marks.is_empty())
    }

    fn guarded<'a>(&self, contents: &'a Contents) -> Cow<'a, Contents> {
        if !self.is_needed() {
            return Cow::Borrowed(contents);
        }
        let backend = contents.backend();
        Cow::Owned(contents.map(|state| self.state(backend, state.clone()), |table| self.table(table)))
    }

    /// The guarded nf_tables table. Its `mangle` rules precede iptables' rules, but may see another table's marks.
    fn table(&self, table: &EncodedTable) -> EncodedTable {
        let is_nftables = |backend: BackendName| backend == BackendName::Nftables;
        let marks = self.marks_of(|backend, _| !hands_over(table) || !is_nftables(backend));
        let others = self.marks_of(|backend, name| is_nftables(backend) && name != table.name);
        nftables::guarded(table.clone(), &marks, &others)
    }

    fn state(&self, backend: BackendName, state: State) -> State {
        let is_transparent = is_transparent(&state);
        let elsewhere = self.marks_of(|other, _| other != backend);
        let state = bridge::guarded(state, Table::Mangle, &elsewhere, &self.owner);
        match is_transparent {
            true => state,
            false => bridge::guarded(state, Table::Nat, &self.marks_of(|_, _| true), &self.owner),
        }
    }

    fn marks_of(&self, is_included: impl Fn(BackendName, &str) -> bool) -> BTreeSet<Mark> {
        let included = self.marks.iter().filter(|((backend, table), _)| is_included(*backend, table));
        included.flat_map(|(_, marks)| marks).copied().collect()
    }
}

fn is_transparent(state: &State) -> bool {
    !bridge::marks(state).is_empty()
}

fn hands_over(table: &EncodedTable) -> bool {
    !nftables::marks(table).is_empty()
}
