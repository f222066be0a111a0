//! Rules of others that decide about packets before ours do, or beside them.

use super::live::live;
use crate::backend::{self, Kernel};
use rules::simulate::{At, View, ViewChain};
use rules::{Action, Family, Ownership, Policy, Target};

/// A chain of somebody else's that the kernel asks before ours, or perhaps before, and that sends packets elsewhere.
/// The first that does so is the only one: ours is not asked any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrecedingRule {
    pub family: Family,
    /// Chain and table, for people.
    pub place: String,
    /// Whose it is, where it is of one that the owner is joined with.
    pub of: Option<&'static str>,
    /// Where the kernel calls it: the least first.
    pub priority: i32,
    /// The first rule there that sends packets elsewhere, or that nobody here understands.
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

/// Those of both families, each once: of all but the owner alone, and by name of whoever it is joined with. Where nothing
/// but iptables' usual chains and ours does NAT, that is seen without reading any rule.
///
/// # Errors
/// When something that is there can't be read.
pub fn preceding_rules(kernel: &mut Kernel, owner: &Ownership) -> Result<Vec<PrecedingRule>, backend::Error> {
    if !kernel.has_foreign_nat()? {
        return Ok(Vec::new());
    }
    let mut found: Vec<PrecedingRule> = Vec::new();
    for family in Family::BOTH {
        let view = live(kernel, family, &|_| None)?;
        let more = preceding_rules_in(&view, owner);
        found.extend(
            more.into_iter()
                .filter(|one| !found.iter().any(|known| known.place == one.place))
                .collect::<Vec<_>>(),
        );
    }
    Ok(found)
}

/// Those of one family.
pub(super) fn preceding_rules_in(view: &View, owner: &Ownership) -> Vec<PrecedingRule> {
    let before = view.nat_before(|chain| is_of(view, chain, &owner.alone())).into_iter();
    let preceding = |chain: usize| {
        let at = view.find(chain, &translates)?;
        let held = &view.chains()[chain];
        let priority = held.base.map_or(0, |base| base.priority);
        let of = owner.others().find(|other| is_of(view, held, other)).map(|other| other.name);
        Some(PrecedingRule {
            family: view.family(),
            place: place(held),
            of,
            priority,
            rule: text_of(view, at),
        })
    };
    before.filter_map(preceding).collect()
}

/// The base chains that drop and are not the owner's, nor of whoever it is joined with, each with the rule that does, or
/// the policy.
pub(super) fn droppers(view: &View, owner: &Ownership) -> Vec<(String, String)> {
    let foreign = view.chains().iter().enumerate();
    let foreign = foreign.filter(|(_, held)| held.base.is_some() && !is_of(view, held, owner));
    let dropper = |(chain, held): (usize, &ViewChain)| {
        let rule =
            view.find(chain, &|action| matches!(action, Action::Target(Target::Drop) | Action::Reject));
        // A chain of ours may be led to from a chain of iptables that everybody shares.
        let rule = rule.filter(|at| !owns_chain(view, &view.chains()[at.chain], owner));
        match (rule, held.policy) {
            (Some(at), _) => Some((place(held), text_of(view, at))),
            (None, Policy::Drop) => Some((place(held), "its policy, where no rule of it accepts".to_owned())),
            (None, Policy::Accept) => None,
        }
    };
    foreign.filter_map(dropper).collect()
}

/// Whether a chain that the kernel calls is an owner's, or of whoever it is joined with: by its table, or because it leads
/// to their chains.
fn is_of(view: &View, held: &ViewChain, owner: &Ownership) -> bool {
    let leads_there = || {
        let mut led_to = held.rules.iter().filter_map(|rule| rule.leads_to);
        led_to.any(|chain| owns_chain(view, &view.chains()[chain], owner))
    };
    held.table.strip_prefix("inet ").is_some_and(|name| owner.owns_table(name)) || leads_there()
}

fn owns_chain(view: &View, held: &ViewChain, owner: &Ownership) -> bool {
    let stands =
        |name: &str| view.chains().iter().any(|other| other.table == held.table && other.chain == name);
    owner.owns_chain_among(&held.chain, &stands)
}

fn place(ViewChain { table, chain, .. }: &ViewChain) -> String {
    format!("chain {chain} of table {table}")
}

fn text_of(view: &View, at: At) -> String {
    view.rule(at).and_then(|rule| rule.text.clone()).unwrap_or_default()
}

/// Whether it may end what NAT asks of a packet.
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
