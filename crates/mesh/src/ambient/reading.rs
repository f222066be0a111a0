//! Recognizes rules of ambient mode that carry no reason: ours in iptables, and those of Istio's node agent in iptables
//! and in nf_tables. None of them has a comment; the chain, the conditions and the target identify them.

use super::reason::Reason;
use crate::recognition::{Role, RuleContext, is_loopback};
use rules::field::Condition;
use rules::{Hook, Table};

pub(super) fn read(context: &RuleContext<'_>) -> Option<Reason> {
    let (summary, leads_on) = (context.summary, context.to.is_some());
    let is_one = |values: &Option<Condition>| values.as_ref().is_some_and(|values| !values.negated);
    match (context.table(), context.role) {
        (Some(Table::Mangle), _) => Some(Reason::ProxyToApplication),
        (Some(Table::Raw), _) => Some(Reason::DnsZone),
        (Some(Table::Nat), Role::Base(Hook::Prerouting)) if leads_on => Some(Reason::Arriving),
        (Some(Table::Nat), Role::Base(Hook::Output)) if leads_on => Some(Reason::Leaving),
        (Some(Table::Nat), Role::Inbound) if summary.in_interface.is_some() => Some(Reason::Machine),
        (Some(Table::Nat), Role::Inbound) if context.rule.action.captures() => Some(Reason::Inbound),
        (Some(Table::Nat), Role::Inbound) if is_one(&summary.source) => Some(Reason::Probe),
        (Some(Table::Nat), Role::Outbound) if context.rule.action.captures() => {
            Some(if is_one(&summary.destination_port) { Reason::Dns } else { Reason::Outbound })
        }
        (Some(Table::Nat), Role::Outbound) if is_one(&summary.destination) => Some(Reason::Probe),
        (Some(Table::Nat), Role::Outbound) if is_loopback(summary.out_interface.as_ref()) => {
            Some(Reason::OwnPod)
        }
        (Some(Table::Nat), Role::Outbound) if summary.mark.is_some() => Some(Reason::ProxyToApplication),
        _ => None,
    }
}
