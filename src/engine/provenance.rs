//! Provenance of rules: the owner, its predecessor, or another mesh; and other programs' rules before the owner's.

use super::rule_index::live;
use crate::backend::{self, Contents, Kernel, Snapshot};
use rules::simulate::{At, View, ViewChain};
use rules::{Action, Chain, Family, ListedRule, Ownership, Policy, State, Target, inheritance, render};
use rules::{Pattern, Proof};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Owner,
    /// The owner or its predecessor: if no rule needs a comment, both write equal rules.
    Either,
    Predecessor,
}

/// Names of predecessors, including joined owners', whose rules other programs may make too.
pub fn predecessors(owner: &Ownership) -> String {
    let is_doubtful = |pattern: &Pattern| pattern.proof != Proof::NoComments;
    let makes_rules = inheritance::predecessors(owner).filter(|one| one.patterns.iter().any(is_doubtful));
    let names: Vec<&str> = makes_rules.map(|predecessor| predecessor.name).collect();
    if names.is_empty() { "no known program".to_owned() } else { names.join(", ") }
}

/// Makers of an owner's rules in iptables tables, each with the families and number of its rules.
pub(super) fn makers(contents: &Contents, owner: &Ownership) -> Vec<(Maker, Vec<Family>, usize)> {
    let mut found: Vec<(Maker, Vec<Family>, usize)> = Vec::new();
    for (family, state) in contents.states() {
        let state = state.seen_by(owner);
        let Some(maker) = maker_of(&state, owner) else { continue };
        let count = state.count_of(owner);
        match found.iter_mut().find(|(known, ..)| *known == maker) {
            Some((_, families, rules)) => {
                families.push(family);
                *rules += count;
            }
            None => found.push((maker, vec![family], count)),
        }
    }
    found
}

fn maker_of(state: &State, owner: &Ownership) -> Option<Maker> {
    let base = state.tables.values().flatten().filter(|(chain, _)| matches!(chain, Chain::Base(_)));
    let lines: Vec<&ListedRule> = base.flat_map(|(_, lines)| lines).collect();
    if lines.iter().any(|line| line.is_inherited()) {
        Some(Maker::Predecessor)
    } else if lines.iter().any(|line| matches!(line, ListedRule::Typed(rule) if owner.has_comment_in(rule))) {
        Some(Maker::Owner)
    } else {
        state.holds_any_of(owner).then_some(Maker::Either)
    }
}

/// Rules and routing that cleaning keeps: other programs make equal rules, or only the routing protocol is the owner's.
pub fn doubtful(snapshot: &Snapshot, owner: &Ownership) -> Vec<String> {
    let mut found = Vec::new();
    for contents in snapshot.all_contents() {
        let backend = contents.backend();
        for (family, state) in contents.states() {
            found.extend(inheritance::doubtful(state, owner).map(|(table, hook, line)| {
                let rule = render::iptables::appended(&Chain::Base(hook), line);
                format!("{family} {table} ({backend}): {rule}")
            }));
        }
    }
    found.extend(snapshot.inheritance(owner).doubtful.iter().map(|route| route.object.to_string()));
    let unexpected = snapshot.unexpected.iter();
    found.extend(unexpected.map(|what| format!("{what}, of routing protocol {}", owner.protocol)));
    found
}

/// Evidence, in the rules of a packet's path, of other capturing owners.
pub fn other_captures(view: &View, owner: &Ownership) -> BTreeSet<String> {
    let known = |content: &ViewChain| {
        let ViewChain { table, chain, .. } = content;
        let is_in = |tables: &[&str]| table.strip_prefix("inet ").is_some_and(|name| tables.contains(&name));
        if let Some(predecessor) = owner.predecessor.filter(|predecessor| is_in(predecessor.tables)) {
            return Some(format!("table {table} belongs to {} (native mode)", predecessor.name));
        }
        owner.others().find_map(|other| {
            let is_its_table =
                is_in(&[other.table]) || other.predecessor.is_some_and(|one| is_in(one.tables));
            let is_its_chain = || owns_chain(view, content, &other);
            match is_its_table {
                true => Some(format!("table {table} belongs to {}", other.name)),
                false => {
                    is_its_chain().then(|| format!("chain {chain} of {table} belongs to {}", other.name))
                }
            }
        })
    };
    view.chains().iter().filter_map(known).collect()
}

pub fn remedy_of(Ownership { mesh, opt_out, .. }: &Ownership) -> String {
    format!("sidecar-init clean --mesh {mesh} removes it; to prevent its return: {opt_out}")
}

/// Descriptions of other programs' chains that may precede ours and redirect packets, which ends NAT for a connection. Each chain
/// is listed once. If only iptables' standard chains and ours do NAT, no rule is read.
pub fn preceding_rules(kernel: &mut Kernel, owner: &Ownership) -> Result<Vec<String>, backend::Error> {
    let mut found: Vec<(String, String)> = Vec::new();
    if kernel.has_foreign_nat()? {
        for family in Family::BOTH {
            let mut more = preceding_rules_in(&live(kernel, family)?, owner);
            more.retain(|(place, _)| !found.iter().any(|(known, _)| known == place));
            found.extend(more);
        }
    }
    Ok(found.into_iter().map(|(_, text)| text).collect())
}

/// Chains, each with a description of its first rule that redirects packets or is not understood.
pub(super) fn preceding_rules_in(view: &View, owner: &Ownership) -> Vec<(String, String)> {
    let before = view.nat_before(|chain| is_of(view, chain, &owner.alone())).into_iter();
    let preceding = |chain: usize| {
        let rule = text_of(view, view.find(chain, &|rule| rule.does(translates))?);
        let content = &view.chains()[chain];
        let (place, priority) = (place(content), content.base.map_or(0, |base| base.priority));
        let of = owner.others().find(|other| is_of(view, content, other));
        let of = of.map(|other| format!(", of {},", other.name)).unwrap_or_default();
        let text = format!(
            "{place} (priority {priority}){of} may send packets elsewhere before our rules see them: {rule}"
        );
        Some((place, text))
    };
    before.filter_map(preceding).collect()
}

/// Other programs' base chains that drop, each with the dropping rule or policy.
pub(super) fn droppers(view: &View, owner: &Ownership) -> Vec<(String, String)> {
    let foreign = view.chains().iter().enumerate();
    let foreign = foreign.filter(|(_, content)| content.base.is_some() && !is_of(view, content, owner));
    let dropper = |(chain, content): (usize, &ViewChain)| {
        let rule = view.find(chain, &|rule| {
            rule.does(|action| matches!(action, Action::Target(Target::Drop) | Action::Reject))
        });
        // A shared iptables chain may lead to one of our chains.
        let rule = rule.filter(|at| !owns_chain(view, &view.chains()[at.chain], owner));
        match (rule, content.policy) {
            (Some(at), _) => Some((place(content), text_of(view, at))),
            (None, Policy::Drop) => Some((place(content), "its policy, if no rule accepts".to_owned())),
            (None, Policy::Accept) => None,
        }
    };
    foreign.filter_map(dropper).collect()
}

/// True if a base chain's table belongs to the owner or a joined owner, or a rule jumps to their chains.
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

/// True if the action may decide a connection's NAT, so the kernel calls no further NAT chain.
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
