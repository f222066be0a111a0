//! Ordered difference between live and desired rules. A plan compares and changes only our objects: our chains by their rules and
//! order, our rules in other chains by their order and by foreign rules that could decide before them.

use crate::{Chain, ChainName, ListedRule, Ownership, State, Table, TableChange, Target};

/// Changes that bring `live` to `desired`, in commit order, each one commit of one table. A table that starts to capture comes
/// first and one that stops comes last, so a connection captured in both states stays captured in between. `force` also rewrites
/// rules already in place.
pub fn plan(live: &State, desired: &State, owner: &Ownership, force: bool) -> Vec<TableChange> {
    let changes = Table::LISTED.map(|table| table_change(live, desired, table, owner, force)).into_iter();
    let mut changes: Vec<TableChange> = changes.filter(|change| !change.is_empty()).collect();
    changes.sort_by_key(|change| captures(live, change.table).cmp(&captures(desired, change.table)));
    changes
}

/// Reverses `change`, given the state before it.
fn inverse(before: &State, change: &TableChange, owner: &Ownership) -> TableChange {
    let table = change.table;
    let existed = |chain: &ChainName| before.chain(table, &Chain::User(chain.clone())).is_some();
    let old = |chain: &ChainName| (chain.clone(), before.lines(table, &Chain::User(chain.clone())).to_vec());
    let (changed, created): (Vec<_>, Vec<_>) =
        change.replace.iter().map(|(chain, _)| chain).partition(|chain| existed(chain));
    let mut hosts: Vec<&Chain> = change.delete.iter().map(|(chain, _)| chain).collect();
    hosts.dedup();
    let places = hosts.into_iter().flat_map(|chain| {
        before.lines(table, chain).iter().zip(1..).map(move |(line, number)| (chain, number, line))
    });
    let owned = places.filter(|(.., line)| line.belongs_to(owner));
    TableChange {
        table,
        replace: changed.into_iter().chain(&change.remove).map(old).collect(),
        delete: change.insert.iter().map(|(chain, _, line)| (chain.clone(), line.clone())).collect(),
        insert: owned.map(|(chain, number, line)| (chain.clone(), number, line.clone())).collect(),
        remove: created.into_iter().cloned().collect(),
    }
}

/// Inverts the `changes` that took effect between `old` and `now`, last first; in tables that others changed too, only our rules.
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

pub fn in_place(live: &[ListedRule], desired: &[ListedRule], owner: &Ownership) -> bool {
    live.iter().filter(|line| line.belongs_to(owner)).eq(desired) && foreign_before(live, owner).is_none()
}

pub fn foreign_before<'a>(lines: &'a [ListedRule], owner: &Ownership) -> Option<&'a ListedRule> {
    let last = lines.iter().rposition(|line| line.belongs_to(owner))?;
    lines[..last].iter().find(|line| !line.belongs_to(owner) && !line.action().surely_continues())
}

fn table_change(live: &State, desired: &State, table: Table, owner: &Ownership, force: bool) -> TableChange {
    let mut change = TableChange::none(table);
    for (chain, lines) in desired.chains(table) {
        if let Chain::User(name) = chain
            && (force || live.chain(table, chain) != Some(lines))
        {
            change.replace.push((name.clone(), lines.clone()));
        }
    }
    let settled = |chain: &Chain, live: &[ListedRule]| {
        in_place(live, desired.lines(table, chain), owner)
            && !(force && live.iter().any(|line| line.belongs_to(owner)))
    };
    for (chain, lines) in live.chains(table) {
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
    for (chain, lines) in desired.chains(table) {
        if matches!(chain, Chain::Base(_)) && !settled(chain, live.lines(table, chain)) {
            let numbered = lines.iter().cloned().zip(1..);
            change.insert.extend(numbered.map(|(line, number)| (chain.clone(), number, line)));
        }
    }
    change
}

fn captures(state: &State, table: Table) -> bool {
    let mut rules = state.chains(table).flat_map(|(_, lines)| lines).filter_map(ListedRule::typed);
    rules.any(|rule| matches!(rule.target, Target::Redirect(_) | Target::Tproxy { .. }))
}
