//! The ordered difference between what the kernel holds and what it should hold. Only what is ours is compared and touched:
//! chains of ours by their rules and order, our rules in other chains by their order and by what could decide before them.

use crate::{Chain, ChainName, ChainState, ListedRule, Ownership, State, Table, TableChange, Target};

/// The changes that bring `live` to `desired`, in the order in which to commit them, each one commit of one table. A table
/// that starts to capture goes before all others and one that stops goes after them, so that a connection that both states
/// capture is captured in between as well.
pub fn plan(live: &State, desired: &State, owner: &Ownership) -> Vec<TableChange> {
    changes(live, desired, owner, false)
}

/// As [`plan`], but makes everything again, also what is in place.
pub fn plan_forced(live: &State, desired: &State, owner: &Ownership) -> Vec<TableChange> {
    changes(live, desired, owner, true)
}

fn changes(live: &State, desired: &State, owner: &Ownership, force: bool) -> Vec<TableChange> {
    let mut changes: Vec<TableChange> = Table::LISTED
        .into_iter()
        .map(|table| table_change(live, desired, table, owner, force))
        .filter(|change| !change.is_empty())
        .collect();
    // `Less` where the table starts to capture, `Greater` where it stops.
    changes.sort_by_key(|change| captures(live, change.table).cmp(&captures(desired, change.table)));
    changes
}

/// The change that takes `change` back, given the state in which it was made.
fn inverse(before: &State, change: &TableChange, owner: &Ownership) -> TableChange {
    let table = change.table;
    let existed = |chain: &ChainName| before.chain(table, &Chain::User(chain.clone())).is_some();
    let old = |chain: &ChainName| (chain.clone(), before.lines(table, &Chain::User(chain.clone())).to_vec());
    let (changed, created): (Vec<_>, Vec<_>) =
        change.replace.iter().map(|(chain, _)| chain).partition(|chain| existed(chain));
    let mut hosts: Vec<&Chain> = change.delete.iter().map(|(chain, _)| chain).collect();
    hosts.dedup();
    TableChange {
        table,
        replace: changed.into_iter().chain(&change.remove).map(old).collect(),
        delete: change.insert.iter().map(|(chain, _, line)| (chain.clone(), line.clone())).collect(),
        insert: hosts
            .into_iter()
            .flat_map(|chain| {
                let lines = before.lines(table, chain).iter().enumerate();
                lines
                    .filter(|(_, line)| line.belongs_to(owner))
                    .map(|(index, line)| (chain.clone(), index + 1, line.clone()))
            })
            .collect(),
        remove: created.into_iter().cloned().collect(),
    }
}

/// The changes that undo those of `changes` that took effect between `old` and `now`, last first. A table
/// that is neither as it was nor as its change would make it is brought back as far as it is ours.
pub fn back(old: &State, now: &State, changes: &[TableChange], owner: &Ownership) -> Vec<TableChange> {
    let restored = |change: &TableChange| {
        let table = change.table;
        if now.same_table(old, table) {
            None
        } else if now.same_table(&old.after(change), table) {
            Some(inverse(old, change, owner))
        } else {
            Some(table_change(now, &old.part_of(owner), table, owner, false))
                .filter(|change| !change.is_empty())
        }
    };
    changes.iter().rev().filter_map(restored).collect()
}

/// True if our rules in a chain that is not ours are as desired.
pub fn in_place(live: &[ListedRule], desired: &[ListedRule], owner: &Ownership) -> bool {
    live.iter().filter(|line| line.belongs_to(owner)).eq(desired) && foreign_before(live, owner).is_none()
}

/// The first foreign rule that precedes a rule of ours and may decide packets.
pub fn foreign_before<'a>(lines: &'a [ListedRule], owner: &Ownership) -> Option<&'a ListedRule> {
    let last = lines.iter().rposition(|line| line.belongs_to(owner))?;
    lines[..last].iter().find(|line| !line.belongs_to(owner) && line.may_decide())
}

fn table_change(live: &State, desired: &State, table: Table, owner: &Ownership, force: bool) -> TableChange {
    let mut change = TableChange::none(table);
    for (chain, state) in desired.chains(table) {
        if let Chain::User(name) = chain
            && (force || live.chain(table, chain) != Some(state))
        {
            change.replace.push((name.clone(), state.lines.clone()));
        }
    }
    let settled = |chain: &Chain, live: &[ListedRule]| {
        let desired = if matches!(chain, Chain::Base(_)) { desired.lines(table, chain) } else { &[] };
        in_place(live, desired, owner) && !(force && live.iter().any(|line| line.belongs_to(owner)))
    };
    for (chain, ChainState { lines }) in live.chains(table) {
        match chain {
            Chain::User(name) if owner.owns_chain(chain) => {
                if desired.chain(table, chain).is_none() {
                    change.remove.push(name.clone());
                }
            }
            _ if settled(chain, lines) => {}
            _ => {
                let ours = lines.iter().filter(|line| line.belongs_to(owner));
                change.delete.extend(ours.map(|line| (chain.clone(), line.clone())));
            }
        }
    }
    for (chain, ChainState { lines }) in desired.chains(table) {
        if matches!(chain, Chain::Base(_)) && !settled(chain, live.lines(table, chain)) {
            let numbered = lines.iter().enumerate();
            change.insert.extend(numbered.map(|(index, line)| (chain.clone(), index + 1, line.clone())));
        }
    }
    change
}

fn captures(state: &State, table: Table) -> bool {
    let mut rules = state.chains(table).flat_map(|(_, chain)| &chain.lines).filter_map(ListedRule::typed);
    rules.any(|rule| matches!(rule.target, Target::Redirect(_) | Target::Tproxy { .. }))
}
