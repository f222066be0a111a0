//! Rules of others that decide about packets before ours do, or beside them.

use super::live::live;
use crate::backend::{self, Kernel};
use rules::simulate::{At, View, ViewChain};
use rules::{Action, Family, Ownership, Policy, Target};

/// A chain of somebody else's that the kernel asks before ours, or perhaps before, and that sends packets elsewhere.
/// The first that does so is the only one: ours is not asked any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    pub family: Family,
    /// Chain and table, for people.
    pub place: String,
    /// Where the kernel calls it: the least first.
    pub priority: i32,
    /// The first rule there that sends packets elsewhere, or that nobody here understands.
    pub rule: String,
}

impl std::fmt::Display for Rival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { place, priority, rule, .. } = self;
        write!(
            f,
            "{place} (priority {priority}) may send packets elsewhere before our rules see them: {rule}"
        )
    }
}

/// Those of both families, each once. Where nothing but iptables' usual chains and ours does NAT, that is seen without
/// reading any rule.
///
/// # Errors
/// When something that is there can't be read.
pub fn rivals(kernel: &mut Kernel, owner: &Ownership) -> Result<Vec<Rival>, backend::Error> {
    if !kernel.has_foreign_nat()? {
        return Ok(Vec::new());
    }
    let mut found: Vec<Rival> = Vec::new();
    for family in Family::BOTH {
        let view = live(kernel, family, &|_| None)?;
        let more = rivals_in(&view, owner);
        found.extend(
            more.into_iter()
                .filter(|one| !found.iter().any(|known| known.place == one.place))
                .collect::<Vec<_>>(),
        );
    }
    Ok(found)
}

/// Those of one family.
pub(super) fn rivals_in(view: &View, owner: &Ownership) -> Vec<Rival> {
    let before = view.nat_before(|chain| is_ours(view, chain, owner)).into_iter();
    let rival = |chain: usize| {
        let at = view.find(chain, &translates)?;
        let held = &view.chains()[chain];
        let priority = held.base.map_or(0, |base| base.priority);
        Some(Rival { family: view.family(), place: place(held), priority, rule: told(view, at) })
    };
    before.filter_map(rival).collect()
}

/// The base chains of others that drop, each with the rule that does, or the policy.
pub(super) fn droppers(view: &View, owner: &Ownership) -> Vec<(String, String)> {
    let foreign = view.chains().iter().enumerate();
    let foreign = foreign.filter(|(_, held)| held.base.is_some() && !is_ours(view, held, owner));
    let dropper = |(chain, held): (usize, &ViewChain)| {
        let rule =
            view.find(chain, &|action| matches!(action, Action::Target(Target::Drop) | Action::Reject));
        // A chain of ours may be led to from a chain of iptables that everybody shares.
        let rule = rule.filter(|at| !is_owners(&view.chains()[at.chain].chain, owner));
        match (rule, held.policy) {
            (Some(at), _) => Some((place(held), told(view, at))),
            (None, Policy::Drop) => Some((place(held), "its policy, where no rule of it accepts".to_owned())),
            (None, Policy::Accept) => None,
        }
    };
    foreign.filter_map(dropper).collect()
}

fn is_ours(view: &View, held: &ViewChain, owner: &Ownership) -> bool {
    let leads_to_us = || {
        let mut led_to = held.rules.iter().filter_map(|rule| rule.leads_to);
        led_to.any(|chain| is_owners(&view.chains()[chain].chain, owner))
    };
    held.table == format!("inet {}", owner.table) || leads_to_us()
}

fn is_owners(chain: &str, owner: &Ownership) -> bool {
    chain.parse().is_ok_and(|chain| owner.owns_chain_named(&chain))
}

fn place(ViewChain { table, chain, .. }: &ViewChain) -> String {
    format!("chain {chain} of table {table}")
}

fn told(view: &View, at: At) -> String {
    view.rule(at).and_then(|rule| rule.text.clone()).unwrap_or_default()
}

/// Whether it may end what NAT asks of a packet.
fn translates(action: &Action) -> bool {
    match action {
        Action::Target(Target::Redirect(_) | Target::Drop)
        | Action::RedirectSamePort
        | Action::Destination { .. }
        | Action::Reject
        | Action::Unknown(_) => true,
        Action::Target(
            Target::Accept
            | Target::Return
            | Target::Jump(_)
            | Target::JumpForeign(_)
            | Target::Tproxy { .. }
            | Target::SetMark(_)
            | Target::SetConnmark(_)
            | Target::SaveMark
            | Target::RestoreMark
            | Target::SetZone(_)
            | Target::Nflog { .. }
            | Target::Log { .. },
        )
        | Action::Goto(_)
        | Action::Call { .. }
        | Action::Continue(_)
        | Action::Source(_)
        | Action::Notrack
        | Action::Marks(_)
        | Action::Zone(_) => false,
    }
}
