//! Rules of other programs that decide about packets before ours do, or beside them.

use super::rule_index::live;
use crate::backend::{self, Kernel};
use rules::simulate::{At, View, ViewChain};
use rules::{Action, Family, Ownership, Policy, Target};

/// A chain of another program that the kernel calls before ours, or perhaps before, and that sends packets elsewhere.
/// Once a NAT chain has decided about a connection, the kernel calls no other, so ours would not be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrecedingRule {
    pub family: Family,
    /// Chain and table, as text.
    pub place: String,
    /// The joined owner that the chain belongs to.
    pub of: Option<&'static str>,
    /// The kernel calls the least first.
    pub priority: i32,
    /// The first rule there that sends packets elsewhere, or that is not understood.
    pub rule: String,
}

impl std::fmt::Display for PrecedingRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { place, of, priority, rule, .. } = self;
        let of = of.map(|name| format!(", of {name},")).unwrap_or_default();
        write!(
            f,
            "{place} (priority {priority}){of} may send packets elsewhere before our rules see them: {rule}"
        )
    }
}

/// Of both families, each place once, with those of joined owners. Where only iptables' usual chains and ours do NAT, no
/// rule is read.
pub fn preceding_rules(kernel: &mut Kernel, owner: &Ownership) -> Result<Vec<PrecedingRule>, backend::Error> {
    if !kernel.has_foreign_nat()? {
        return Ok(Vec::new());
    }
    let mut found: Vec<PrecedingRule> = Vec::new();
    for family in Family::BOTH {
        let view = live(kernel, family)?;
        let more = preceding_rules_in(&view, owner);
        found.extend(
            more.into_iter()
                .filter(|one| !found.iter().any(|known| known.place == one.place))
                .collect::<Vec<_>>(),
        );
    }
    Ok(found)
}

pub(super) fn preceding_rules_in(view: &View, owner: &Ownership) -> Vec<PrecedingRule> {
    let before = view.nat_before(|chain| is_of(view, chain, &owner.alone())).into_iter();
    let preceding = |chain: usize| {
        let at = view.find(chain, &|rule| rule.does(translates))?;
        let content = &view.chains()[chain];
        let priority = content.base.map_or(0, |base| base.priority);
        let of = owner.others().find(|other| is_of(view, content, other)).map(|other| other.name);
        Some(PrecedingRule {
            family: view.family(),
            place: place(content),
            of,
            priority,
            rule: text_of(view, at),
        })
    };
    before.filter_map(preceding).collect()
}

/// The base chains that drop and belong neither to the owner nor to a joined one, each with the rule that does, or
/// the policy.
pub(super) fn droppers(view: &View, owner: &Ownership) -> Vec<(String, String)> {
    let foreign = view.chains().iter().enumerate();
    let foreign = foreign.filter(|(_, content)| content.base.is_some() && !is_of(view, content, owner));
    let dropper = |(chain, content): (usize, &ViewChain)| {
        let rule = view.find(chain, &|rule| {
            rule.does(|action| matches!(action, Action::Target(Target::Drop) | Action::Reject))
        });
        // A shared chain of iptables may lead to a chain of ours.
        let rule = rule.filter(|at| !owns_chain(view, &view.chains()[at.chain], owner));
        match (rule, content.policy) {
            (Some(at), _) => Some((place(content), text_of(view, at))),
            (None, Policy::Drop) => {
                Some((place(content), "its policy, where no rule of it accepts".to_owned()))
            }
            (None, Policy::Accept) => None,
        }
    };
    foreign.filter_map(dropper).collect()
}

/// True for a base chain of an owner or of a joined one: by its table, or because it leads to their chains.
fn is_of(view: &View, content: &ViewChain, owner: &Ownership) -> bool {
    let leads_there = || {
        let mut led_to = content.rules.iter().filter_map(|rule| rule.leads_to);
        led_to.any(|chain| owns_chain(view, &view.chains()[chain], owner))
    };
    content.table.strip_prefix("inet ").is_some_and(|name| owner.owns_table(name)) || leads_there()
}

fn owns_chain(view: &View, content: &ViewChain, owner: &Ownership) -> bool {
    let exists =
        |name: &str| view.chains().iter().any(|other| other.table == content.table && other.chain == name);
    owner.owns_chain_among(&content.chain, &exists)
}

fn place(ViewChain { table, chain, .. }: &ViewChain) -> String {
    format!("chain {chain} of table {table}")
}

fn text_of(view: &View, at: At) -> String {
    view.rule(at).and_then(|rule| rule.text.clone()).unwrap_or_default()
}

/// True if the action may decide about a connection's NAT, so that the kernel calls no further NAT chain.
fn translates(action: &Action) -> bool {
    matches!(
        action,
        Action::Target(Target::Redirect(_) | Target::Drop)
            | Action::RedirectSamePort
            | Action::Destination { .. }
            | Action::Reject
            | Action::Unknown(_)
    )
}
