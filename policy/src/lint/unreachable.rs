//! Rules that nothing reaches, told by the items that made them.

use super::change::{Change, Item};
use super::judge::Judge;
use super::{Code, Finding, Idle};
use crate::istio::Reason;
use rules::shadow::shadowed;
use rules::{Match, Negatable, Origin, Rule};

/// Rules that nothing reaches, if an item of a list made them that can be left out.
pub(super) fn check(judge: &mut Judge<'_>) -> Vec<Idle> {
    let mut found: Vec<Idle> = Vec::new();
    let Judge { rules, work, .. } = judge;
    for rules in rules {
        for shadowed in shadowed(rules.rules(), work) {
            let (Some(origin), Some(by)) = (shadowed.rule.origin, shadowed.by.origin) else { continue };
            if origin == by && shadowed.rule.rule == shadowed.by.rule {
                continue;
            }
            let Some(change) = made_by(origin, &shadowed.rule.rule) else { continue };
            let finding = finding(origin, &change.item, &shadowed.rule.rule, &shadowed.by.rule, by);
            found.push(Idle { finding, change });
        }
    }
    found
}

fn finding(origin: Origin, item: &Item, rule: &Rule, first: &Rule, by: Origin) -> Finding {
    let text = rules::render::iptables::rule;
    let option = by.option_text();
    let otherwise = match by.option {
        "" => String::new(),
        _ if by.option == origin.option => String::new(),
        _ => format!("; if it was meant to count, take it out of {option}"),
    };
    Finding::warning(
        Code::Unreachable,
        &origin.option_text(),
        format!("the rule `{}` is never reached: `{}` ({option}) comes first", text(rule), text(first)),
        format!("drop {item}{otherwise}"),
    )
}

/// The change that leaves out what made the rule.
fn made_by(origin: Origin, rule: &Rule) -> Option<Change> {
    let reason = Reason::named(origin.name)?;
    let [setting] = reason.settings() else { return None };
    let item = rule.matches.iter().find_map(|m| match (reason, m) {
        (Reason::ExcludedNetwork | Reason::OutboundNetwork, Match::Destination(Negatable::Is(cidr))) => {
            Some(Item::Network(*cidr))
        }
        (
            Reason::OutboundPort
            | Reason::ExcludedOutboundPort
            | Reason::InboundPort
            | Reason::ExcludedInboundPort,
            Match::DestinationPort(Negatable::Is(range)),
        ) => Some(Item::Ports(*range)),
        (
            Reason::ExcludedInterface | Reason::VmInterface,
            Match::InInterface(Negatable::Is(name)) | Match::OutInterface(Negatable::Is(name)),
        ) => Some(Item::Interface(name.clone())),
        (Reason::ExcludedGroup, Match::GidOwner(Negatable::Is(gid))) => Some(Item::Group(*gid)),
        _ => None,
    })?;
    Some(Change::without(*setting, item))
}
