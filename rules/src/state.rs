//! Content of one family's tables, foreign rules included: read from the kernel, or computed.

use crate::{Chain, ChainName, Hook, ListedRule, Match, Ownership, RuleSet, Table};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// By table and chain. An absent table and an empty one are equivalent.
    pub tables: BTreeMap<Table, BTreeMap<Chain, Vec<ListedRule>>>,
}

impl State {
    pub fn of(rules: &RuleSet) -> Self {
        let mut state = Self::default();
        for table in Table::LISTED {
            for (chain, statements) in rules.chains(table) {
                let lines = statements.iter().map(|s| ListedRule::Typed(s.rule.canonical()));
                state.tables.entry(table).or_default().insert(chain, lines.collect());
            }
        }
        state
    }

    pub fn chain(&self, table: Table, chain: &Chain) -> Option<&Vec<ListedRule>> {
        self.tables.get(&table)?.get(chain)
    }

    pub fn lines(&self, table: Table, chain: &Chain) -> &[ListedRule] {
        self.chain(table, chain).map_or(&[], |lines| lines)
    }

    pub fn chains(&self, table: Table) -> impl Iterator<Item = (&Chain, &Vec<ListedRule>)> {
        self.tables.get(&table).into_iter().flatten()
    }

    pub(crate) fn base_chains(&self, table: Table) -> impl Iterator<Item = (Hook, &Vec<ListedRule>)> {
        self.chains(table).filter_map(|(chain, lines)| match chain {
            Chain::Base(hook) => Some((*hook, lines)),
            Chain::User(_) => None,
        })
    }

    pub fn holds_any_of(&self, owner: &Ownership) -> bool {
        self.tables
            .values()
            .flatten()
            .any(|(chain, lines)| owner.owns_chain(chain) || lines.iter().any(|line| line.belongs_to(owner)))
    }

    #[must_use]
    pub fn part_of(&self, owner: &Ownership) -> Self {
        let mut state = Self::default();
        for (table, chains) in &self.tables {
            for (chain, lines) in chains {
                let lines: Vec<ListedRule> = match chain {
                    _ if owner.owns_chain(chain) => lines.clone(),
                    Chain::Base(_) => lines.iter().filter(|line| line.belongs_to(owner)).cloned().collect(),
                    Chain::User(_) => continue,
                };
                state.tables.entry(*table).or_default().insert(chain.clone(), lines);
            }
        }
        state
    }

    /// True if a table is equal in both states; base chains without rules do not count.
    pub fn same_table(&self, other: &Self, table: Table) -> bool {
        self.filled(table).eq(other.filled(table))
    }

    fn filled(&self, table: Table) -> impl Iterator<Item = (&Chain, &Vec<ListedRule>)> {
        self.chains(table).filter(|(chain, lines)| matches!(chain, Chain::User(_)) || !lines.is_empty())
    }

    /// True if `nat`'s base chains lead to the owner's chains, and no owner's rule in them has a comment.
    pub(crate) fn is_uncommented(&self, owner: &Ownership) -> bool {
        let lines = self.base_chains(Table::Nat).flat_map(|(_, lines)| lines).filter_map(ListedRule::typed);
        let mut owned = lines.filter(|rule| owner.owns_rule(rule)).peekable();
        owned.peek().is_some()
            && owned.all(|rule| !rule.matches.iter().any(|m| matches!(m, Match::Comment(_))))
    }

    /// The state as one owner sees it: without other owners' conflicting chains, rules that lead to those chains, and rules that
    /// another owner inherits.
    #[must_use]
    pub fn seen_by(&self, owner: &Ownership) -> Self {
        let (mut state, is_uncommented) = (self.clone(), self.is_uncommented(owner));
        for (table, chains) in &mut state.tables {
            let is_of_namesake = |chain: &ChainName| {
                let chain = Chain::User(chain.clone());
                owner.owns_chain(&chain) && !self.is_owned(*table, &chain, owner)
            };
            let is_of_another_owner = |line: &ListedRule| match (line, owner.predecessor) {
                _ if !line.is_inherited() => line.action().chain().is_some_and(is_of_namesake),
                (_, None) => true,
                (ListedRule::Foreign(foreign), Some(known)) => {
                    !known.may_have_made(&foreign.text, is_uncommented)
                }
                (ListedRule::Typed(rule) | ListedRule::Inherited(rule), Some(known)) => {
                    !known.logs(rule) && !known.may_have_made(&rule.to_string(), is_uncommented)
                }
            };
            chains.retain(|chain, _| !matches!(chain, Chain::User(name) if is_of_namesake(name)));
            chains.values_mut().for_each(|lines| lines.retain(|line| !is_of_another_owner(line)));
        }
        state
    }

    /// Inherits the rules that are inherited in `known`, another reading of the same tables.
    pub(crate) fn inherit(&mut self, known: &Self) {
        for (table, chains) in &mut self.tables {
            for (chain, lines) in chains {
                for (line, known) in lines.iter_mut().zip(known.lines(*table, chain)) {
                    if known.is_inherited() {
                        *line = known.clone();
                    }
                }
            }
        }
    }

    pub fn is_owned(&self, table: Table, chain: &Chain, owner: &Ownership) -> bool {
        let exists = |name: &str| self.chains(table).any(|(other, _)| other.as_str() == name);
        matches!(chain, Chain::User(name) if owner.owns_chain_among(name.as_str(), &exists))
    }

    /// Describes evidence that the owner captures here, even in a state read for another owner.
    pub fn evidence_of(&self, owner: &Ownership) -> Option<String> {
        // Most capturing chains are in `nat`.
        [Table::Nat].into_iter().chain(Table::ALL).find_map(|table| {
            self.evidence_in(table, owner).map(|evidence| format!("{evidence} of table {table}"))
        })
    }

    /// Like [`Self::evidence_of`], in one table.
    pub fn evidence_in(&self, table: Table, owner: &Ownership) -> Option<String> {
        let marked = |line: &ListedRule| match line {
            ListedRule::Typed(rule) => owner.owns_comments_of(rule),
            ListedRule::Foreign(foreign) => {
                foreign.comment.as_ref().is_some_and(|comment| owner.owns_comment(comment))
            }
            ListedRule::Inherited(_) => false,
        };
        let mut owned = self.chains(table).filter(|(chain, _)| self.is_owned(table, chain, owner));
        let by_rule = || {
            let (chain, _) = self.chains(table).find(|(_, lines)| lines.iter().any(marked))?;
            Some(format!("a rule in chain {chain}"))
        };
        owned.next().map(|(chain, _)| format!("chain {chain}")).or_else(by_rule)
    }

    /// True for any program's rules, or a user-defined chain without rules.
    pub fn holds_rules(&self) -> bool {
        self.tables.keys().any(|table| self.filled(*table).next().is_some())
    }

    pub fn count_of(&self, owner: &Ownership) -> usize {
        let chains = self.tables.values().flatten();
        let of_chain = |(chain, lines): (&Chain, &Vec<ListedRule>)| {
            lines.iter().filter(|line| owner.owns_chain(chain) || line.belongs_to(owner)).count()
        };
        chains.map(of_chain).sum()
    }

    #[must_use]
    pub fn after(&self, change: &TableChange) -> Self {
        let mut state = self.clone();
        let chains = state.tables.entry(change.table).or_default();
        for (chain, line) in &change.delete {
            // Of equal rules, the first is deleted.
            if let Some(lines) = chains.get_mut(chain)
                && let Some(place) = lines.iter().position(|one| one == line)
            {
                lines.remove(place);
            }
        }
        for (chain, lines) in &change.replace {
            chains.insert(Chain::User(chain.clone()), lines.clone());
        }
        for (chain, number, line) in &change.insert {
            let lines = chains.entry(chain.clone()).or_default();
            lines.insert((number - 1).min(lines.len()), line.clone());
        }
        for chain in &change.remove {
            chains.remove(&Chain::User(chain.clone()));
        }
        state
    }
}

/// Changes to a table, applied in field order, in one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableChange {
    pub table: Table,
    /// Our chains to create, or to refill with these rules.
    pub replace: Vec<(ChainName, Vec<ListedRule>)>,
    /// Our rules to delete from other owners' chains, by text: a number could mean another rule by then.
    pub delete: Vec<(Chain, ListedRule)>,
    /// Our rules to insert into base chains at these positions, counted from 1.
    pub insert: Vec<(Chain, usize, ListedRule)>,
    pub remove: Vec<ChainName>,
}

impl TableChange {
    pub fn none(table: Table) -> Self {
        Self { table, replace: Vec::new(), delete: Vec::new(), insert: Vec::new(), remove: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.replace.is_empty() && self.delete.is_empty() && self.insert.is_empty() && self.remove.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Family, ownership::tests::OWNER, parse};

    #[test]
    fn evidence_prefers_a_chain_of_nat() {
        let evidence =
            |rules: &str| parse::save(rules, Family::V4, &OWNER).expect("a listing").evidence_of(&OWNER);
        let mangle = "*mangle\n:PREROUTING ACCEPT [0:0]\n:ISTIO_DIVERT - [0:0]\nCOMMIT\n";
        let nat = "*nat\n:OUTPUT ACCEPT [0:0]\n:ISTIO_OUTPUT - [0:0]\nCOMMIT\n";
        let raw = "*raw\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -p udp -m comment --comment \"sidecar-init\" -j CT --zone 1\nCOMMIT\n";
        let of_nat = Some("chain ISTIO_OUTPUT of table nat");
        assert_eq!(evidence(&[raw, mangle, nat].concat()).as_deref(), of_nat);
        assert_eq!(evidence(mangle).as_deref(), Some("chain ISTIO_DIVERT of table mangle"));
        assert_eq!(evidence(raw).as_deref(), Some("a rule in chain OUTPUT of table raw"));
        assert_eq!(evidence("*nat\n:OUTPUT ACCEPT [0:0]\n:KUBE-X - [0:0]\nCOMMIT\n"), None);
    }
}
