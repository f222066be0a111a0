//! Comparison of an iptables program's listing with the kernel's nf_tables rules. The program silently leaves out expressions
//! that iptables lacks: it prints `tcp dport { 80, 81 } drop` as a rule that drops everything. So a printed rule is used if the
//! kernel's rule has the same meaning, including iptables extensions; otherwise our own reader's version is used.

use super::bytecode::{EncodedRule, EncodedTable};
use super::lift::{self, Context};
use super::{expression::Expression, listed};
use crate::sys::header::{NF_DROP, NFTA_MATCH_NAME, NFTA_TARGET_NAME};
use crate::sys::message::{attribute, text};
use rules::nft::{self, Field, LiveRule, protocol_number};
use rules::{
    Action, Chain, Foreign, ListedChain, ListedCondition, ListedRule, Listing, Match, Negatable, Policy,
    PrintedRule, Protocol, Table, Target,
};

/// The rules of these tables, as printed where the kernel agrees. Omits other tables.
pub fn agreed(mut printed: Listing, tables: &[EncodedTable]) -> Listing {
    let interfaces = &listed::interfaces();
    let family = printed.family;
    let mut listing = Listing::empty(family);
    for table in tables {
        let Some(of) = Table::ALL.into_iter().find(|of| of.name() == table.name) else { continue };
        let context = Context { family: Some(family), table, interfaces };
        for chain in &table.chains {
            let Ok(name) = chain.name.parse::<Chain>() else { continue };
            let content = printed.chains.remove(&(of, name.clone())).unwrap_or_default();
            let is_paired = content.rules.len() == chain.rules.len();
            let mut printed = content.rules.into_iter().filter(|_| is_paired);
            let rule = |rule: &EncodedRule| match printed.next() {
                Some(listed) if agree(rule, &listed, &context) => listed,
                listed => as_read(lift::rule(rule, &context), listed),
            };
            let rules = chain.rules.iter().map(rule).collect();
            let drops = chain.base.as_ref().is_some_and(|base| base.policy == NF_DROP);
            let policy = if drops { Policy::Drop } else { Policy::Accept };
            listing.chains.insert((of, name), ListedChain { policy, rules });
        }
    }
    listing
}

/// A rule as our own reader decodes it. A rule that leads to a chain keeps its printed text, by which it is deleted.
fn as_read(rule: LiveRule, printed: Option<PrintedRule>) -> PrintedRule {
    let LiveRule { text, conditions, mut first, action, comment, .. } = rule;
    let action = match action {
        Action::Call { chain, returns } => match (chain.parse(), returns) {
            (Ok(chain), true) => Action::Target(Target::Jump(chain)),
            (Ok(chain), false) => Action::Goto(chain),
            (Err(_), _) => Action::Call { chain, returns },
        },
        action => action,
    };
    first.retain(|action| !action.surely_continues());
    let action = if first.is_empty() { action } else { Action::Unknown(text.clone()) };
    let hits = printed.as_ref().and_then(|listed| listed.hits);
    let text = match printed {
        Some(listed) if action.chain().is_some() => listed.text,
        _ => text,
    };
    let comment = (!comment.is_empty()).then_some(comment);
    let line =
        ListedRule::Foreign(Foreign { text: text.clone(), conditions, action, comment, is_inherited: false });
    PrintedRule { text, line, is_our_spelling: false, hits }
}

fn agree(rule: &EncodedRule, PrintedRule { line, text, .. }: &PrintedRule, context: &Context<'_>) -> bool {
    let modules =
        |kind: &'static str, name| rule.expressions.iter().filter_map(move |one| module(one, kind, name));
    let matches: Vec<&str> = modules("match", NFTA_MATCH_NAME).collect();
    let has_target = modules("target", NFTA_TARGET_NAME).next().is_some();
    let is_native = |one: &&Expression| {
        module(one, "match", NFTA_MATCH_NAME).or(module(one, "target", NFTA_TARGET_NAME)).is_none()
    };
    let native: Vec<Expression> = rule.expressions.iter().filter(is_native).cloned().collect();
    let logs = native.iter().any(|one| one.name() == "log");
    let native = lift::rule(&EncodedRule { expressions: native, userdata: Vec::new() }, context);
    let does_the_same = match (has_target, line.action()) {
        (true, action) => {
            native.action == Action::Continue(String::new())
                && native.first.is_empty()
                && is_extension(&action)
        }
        (false, Action::Target(target)) if target.is_report() => {
            logs && native.action == Action::Continue(String::new())
        }
        (false, action) => native.first.is_empty() && same_action(&native.action, &action),
    };
    // `state` is an older name of `conntrack`.
    let says =
        |name: &str| text.split(' ').any(|word| word == name || name == "conntrack" && word == "state");
    let are_printed = matches.iter().all(|name| says(name));
    does_the_same && are_printed && ask_the_same(&native.conditions, &line.conditions(), &matches, context)
}

fn module<'a>(expression: &'a Expression, kind: &str, attribute_of_name: u16) -> Option<&'a str> {
    match expression {
        Expression::Other { name, data } if name == kind => attribute(data, attribute_of_name).map(text),
        _ => None,
    }
}

fn is_extension(action: &Action) -> bool {
    match action {
        Action::Target(Target::Accept | Target::Drop | Target::Return) => false,
        Action::Target(target) => target.chain().is_none(),
        Action::Continue(text) => !text.is_empty(),
        Action::Goto(_) | Action::Call { .. } => false,
        Action::Reject
        | Action::RedirectSamePort
        | Action::Destination { .. }
        | Action::Source(_)
        | Action::Notrack
        | Action::UnknownMark(_)
        | Action::UnknownZone(_)
        | Action::Unknown(_) => true,
    }
}

fn same_action(native: &Action, printed: &Action) -> bool {
    match (native, printed) {
        (Action::Call { chain, returns: true }, Action::Target(Target::Jump(name)))
        | (Action::Call { chain, returns: false }, Action::Goto(name)) => chain == name.as_str(),
        (Action::Source(_), Action::Source(_)) => true,
        (Action::Unknown(_), _) => false,
        (native, printed) => native == printed,
    }
}

/// True if both sides have equal conditions, apart from extensions.
fn ask_the_same(
    native: &[ListedCondition],
    printed: &[ListedCondition],
    matches: &[&str],
    context: &Context<'_>,
) -> bool {
    let own = context.family.map(|family| ListedCondition::Nft(nft::Condition::family(family)));
    let mut left: Vec<&ListedCondition> = native.iter().filter(|one| Some(*one) != own.as_ref()).collect();
    let mut are_all_found = true;
    for condition in printed {
        let before = left.len();
        left.retain(|native| !is_same(native, condition));
        are_all_found &= left.len() < before
            || is_of_extension(condition, matches)
            || native.iter().any(|one| is_same(one, condition));
    }
    are_all_found && left.is_empty()
}

fn is_same(native: &ListedCondition, printed: &ListedCondition) -> bool {
    match (native, printed) {
        (ListedCondition::Nft(native), ListedCondition::Known(m)) => {
            m.condition().is_some_and(|printed| same_values(native, &printed))
        }
        // The printed condition has no number for other protocols.
        (ListedCondition::Nft(native), ListedCondition::Protocol(Negatable::Is(None))) => {
            let known = [Protocol::Tcp, Protocol::Udp].map(|one| u128::from(protocol_number(one)));
            let single = native.values.single().filter(|values| values.is_single());
            native.field == Field::Protocol
                && !native.negated
                && single.is_some_and(|one| !known.contains(&one.first))
        }
        (ListedCondition::Nft(native), ListedCondition::Protocol(Negatable::Not(Some(protocol)))) => {
            Match::Protocol(*protocol)
                .condition()
                .is_some_and(|printed| same_values(native, &nft::Condition { negated: true, ..printed }))
        }
        // Neither side has the limit's value.
        (ListedCondition::Unknown(native), ListedCondition::Unknown(printed)) => {
            native == "(limit)" && (printed == "-m limit" || printed.starts_with("--limit"))
        }
        (
            ListedCondition::TcpFlags { matches_syn, .. },
            ListedCondition::TcpFlags { matches_syn: printed, .. },
        ) => matches_syn == printed,
        _ => false,
    }
}

fn same_values(one: &nft::Condition, other: &nft::Condition) -> bool {
    (one.field, one.negated, one.values.joined()) == (other.field, other.negated, other.values.joined())
}

/// True if a printed condition may be one of these matches, or matches every packet.
fn is_of_extension(condition: &ListedCondition, matches: &[&str]) -> bool {
    let has = |name: &str| matches.contains(&name);
    match condition {
        ListedCondition::Known(Match::SourcePort(_) | Match::DestinationPort(_))
        | ListedCondition::TcpFlags { .. } => has("tcp") || has("udp"),
        ListedCondition::Known(Match::ConnState(_)) => has("conntrack") || has("state"),
        ListedCondition::Known(m) => m.field().is_none() || is_everything(m) || m.module().is_some_and(has),
        ListedCondition::DestinationLocal(_) => has("addrtype"),
        ListedCondition::Always(_) => true,
        ListedCondition::Unknown(_) => !matches.is_empty(),
        ListedCondition::Protocol(_) | ListedCondition::Nft(_) => false,
    }
}

fn is_everything(m: &Match) -> bool {
    match m {
        Match::Source(network) | Match::Destination(network) => {
            !network.is_negated() && network.value().is_everything()
        }
        _ => false,
    }
}
