//! Meanings of rules by their forms: chain, conditions and target show the effect, independent of the mesh.

use super::summary::{RuleSummary, items};
use super::{Role, RuleContext, is_loopback};
use crate::RuleReason;
use crate::mesh::Mesh;
use crate::reason::Meaning;
use rules::field::{Condition, Field};
use rules::{Action, Hook, ListedCondition, Match, Table, Target};

pub(super) fn reason(mesh: Mesh, context: &RuleContext<'_>) -> Option<RuleReason> {
    let reasons = mesh.entry().reasons;
    let of_meaning = |meaning: &Meaning| reasons.iter().find(|reason| reason.meaning() == *meaning);
    meanings(context).iter().find_map(of_meaning).copied()
}

/// Possible meanings, the most special first: a mesh has reasons for some of them.
fn meanings(context: &RuleContext<'_>) -> &'static [Meaning] {
    match (context.table(), context.role) {
        (Some(Table::Raw), _) => &[Meaning::DnsZone, Meaning::Dns],
        (Some(Table::Nat | Table::Mangle), role) => match role {
            Role::Base(hook) => base(context, hook),
            Role::Inbound => inbound(context),
            Role::Outbound => outbound(context),
            // Istio 1.8 and 1.9 branch on TCP DNS there.
            Role::ToOutboundListener if context.summary.ports().is_some() => &[Meaning::Dns],
            Role::ToOutboundListener => &[Meaning::ToOutboundListener],
            Role::ToInboundListener => &[Meaning::ToInboundListener],
            Role::Dns => &[Meaning::Dns],
            Role::Divert => &[Meaning::KnownConnection],
            Role::Drop => &[Meaning::Dropped],
            Role::Other => &[],
        },
        _ => &[],
    }
}

fn is_one(values: Option<&Condition>) -> bool {
    values.is_some_and(|values| !values.negated)
}

fn owner(summary: &RuleSummary) -> Option<&Condition> {
    summary.values(Field::Uid).or_else(|| summary.values(Field::Gid))
}

fn inbound(context: &RuleContext<'_>) -> &'static [Meaning] {
    let RuleContext { rule, summary, to, .. } = *context;
    let is_from_loopback = is_loopback(summary.values(Field::InInterface));
    let is_from_interface = summary.values(Field::InInterface).is_some() && !is_from_loopback;
    if matches!(to, Some(Role::ToInboundListener | Role::Divert)) || rule.action.captures() {
        return if is_from_interface { &[Meaning::VirtualMachine] } else { &[Meaning::InboundPort] };
    }
    if !rule.action.passes() {
        return &[];
    }
    match (summary.ports(), summary.source()) {
        (Some(_), _) => &[Meaning::ExcludedInboundPort],
        (None, Some(source)) if source.negated => &[],
        (None, Some(_)) => &[Meaning::ExcludedSource, Meaning::ProxyToApplication],
        (None, None) if is_from_loopback => &[Meaning::ApplicationLoopback],
        (None, None) if is_from_interface => &[Meaning::VirtualMachine],
        (None, None) if summary.more => &[Meaning::KnownConnection],
        (None, None) => &[Meaning::InboundOff],
    }
}

fn outbound(context: &RuleContext<'_>) -> &'static [Meaning] {
    let RuleContext { rule, summary, to, .. } = *context;
    let has_ports = is_one(summary.ports());
    match to {
        Some(Role::Dns) => return &[Meaning::Dns],
        Some(Role::ToInboundListener) => return &[Meaning::ProxyCallsOwnPod],
        Some(Role::ToOutboundListener) if has_ports => return &[Meaning::OutboundPort],
        Some(Role::ToOutboundListener) => return &[Meaning::OutboundNetwork, Meaning::OutboundPort],
        _ if rule.action.captures() && has_ports => return &[Meaning::Dns, Meaning::OutboundNetwork],
        _ if rule.action.captures() => return &[Meaning::OutboundNetwork],
        _ if !rule.action.passes() => return &[],
        _ => {}
    }
    let is_to_loopback = is_loopback(summary.values(Field::OutInterface));
    match (owner(summary), summary.source(), summary.destination()) {
        (Some(owner), ..) if owner.negated && is_to_loopback => &[Meaning::ApplicationLoopback],
        (Some(owner), ..) if owner.negated => &[Meaning::OtherOwners],
        (Some(_), ..) => &[Meaning::ProxyOutbound],
        (None, Some(_), _) => &[Meaning::ProxyToApplication],
        (None, None, Some(networks)) if !networks.negated => {
            let is_loopback = |item: &String| item.starts_with("127.") || item == "::1";
            match items(networks).iter().all(is_loopback) {
                true => &[Meaning::Loopback],
                false => &[Meaning::ExcludedDestination, Meaning::ExcludedSource],
            }
        }
        _ if has_ports => &[Meaning::ExcludedOutboundPort],
        _ if summary.more => &[],
        _ if is_to_loopback => &[Meaning::ApplicationLoopback, Meaning::Loopback],
        (None, None, None) if summary.values(Field::OutInterface).is_none() => {
            // An empty list of captured groups excludes all.
            &[Meaning::OutboundOff, Meaning::OtherOwners]
        }
        _ => &[],
    }
}

fn base(context: &RuleContext<'_>, hook: Hook) -> &'static [Meaning] {
    let RuleContext { rule, summary, to, .. } = *context;
    let owner = owner(summary);
    match (to, &rule.action) {
        (Some(Role::Inbound), _) if hook == Hook::Prerouting => &[Meaning::Inbound, Meaning::InboundPort],
        (Some(Role::Outbound), _) if hook == Hook::Output => &[Meaning::Outbound],
        (Some(Role::ToOutboundListener), _) => &[Meaning::OutboundNetwork],
        (Some(Role::Dns), _) => &[Meaning::Dns],
        (Some(Role::Drop), _) => &[Meaning::Dropped],
        (None, Action::Target(Target::Drop)) if context.table() == Some(Table::Mangle) => &[Meaning::Dropped],
        (None, Action::Target(Target::SaveMark | Target::RestoreMark)) => &[Meaning::KnownConnection],
        (None, Action::Target(Target::SetMark(_))) if summary.source().is_some() => {
            &[Meaning::ProxyToApplication]
        }
        (None, Action::Target(Target::SetMark(_))) => &[Meaning::ProxyCallsOwnPod],
        (None, action) if action.captures() && summary.values(Field::InInterface).is_some() => {
            match summary.udp {
                true => &[Meaning::VirtualMachineDns],
                false => &[Meaning::VirtualMachine],
            }
        }
        // Istio 1.7 to 1.9 had no chain for DNS, and rewrote the source of the replies.
        (None, action) if action.captures() || matches!(action, Action::Source(_)) => &[Meaning::Dns],
        (None, action) if action.passes() => base_exclusion(context, hook),
        // A chain of Docker answers it.
        (None, _) if rule.leads_to.is_some() && is_one(owner) => &[Meaning::ProxyDns],
        _ => &[],
    }
}

fn base_exclusion(context: &RuleContext<'_>, hook: Hook) -> &'static [Meaning] {
    let RuleContext { rule, summary, .. } = *context;
    // A user's ports are a list; the port of DNS is a single one.
    let is_list = |one: &ListedCondition| matches!(one, ListedCondition::Known(Match::DestinationPorts(_)));
    let interfaces = summary.values(Field::InInterface).or_else(|| summary.values(Field::OutInterface));
    match (owner(summary), interfaces) {
        (Some(owner), _) if owner.negated => &[Meaning::ExcludedDns],
        (Some(_), _) if rule.conditions.iter().any(is_list) => &[Meaning::ExcludedOwner],
        (Some(_), _) => &[Meaning::ProxyDns, Meaning::ProxyOutbound],
        (None, _) if summary.destination().is_some() => &[Meaning::ExcludedDestination],
        (None, _) if summary.more => &[Meaning::KnownConnection],
        (None, Some(interfaces)) if hook == Hook::Output || context.leave_by(interfaces) => {
            &[Meaning::ExcludedInterface]
        }
        (None, Some(_)) => &[Meaning::VirtualMachineInterface],
        (None, None) => &[],
    }
}
