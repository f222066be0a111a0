//! Rules of Kuma's in iptables. The comments of ours end with the reason's name. Those of upstream's are prose, or switched
//! off: there the chain, the conditions and the target identify them.

use super::defaults::DOCKER_CHAIN;
use super::ownership::COMMENTS;
use super::reason::Reason;
use super::settings::Kuma;
use crate::RuleReason;
use crate::recognition::{Role, RuleContext};
use crate::registry::Recognition;
use rules::{ListedCondition, Match, Table};

pub(super) const RECOGNITION: Recognition = Recognition {
    reason: |context| {
        let named = || {
            let name = context.summary.comment.as_deref()?.strip_prefix(COMMENTS)?;
            RuleReason::named(&format!("kuma-{name}"))
        };
        named().or_else(|| by_form(context).map(Into::into))
    },
    // Where all DNS is captured, the rule names no server.
    setting: |_, context| {
        let of_servers = context.summary.destination.is_some() || context.summary.source.is_some();
        let setting = if of_servers { Kuma::RedirectDns } else { Kuma::CaptureAllDns };
        (context.summary.udp && context.rule.action.captures()).then_some(setting)
    },
    // The rule that captures all ports comes from no list of ports, though it has the same reason.
    refine: |all| {
        let lists = [Reason::InboundPort, Reason::OutboundPort].map(RuleReason::from);
        for recognized in all {
            if recognized.summary.destination_port.is_none()
                && recognized.reason.is_some_and(|one| lists.contains(&one))
            {
                recognized.setting = None;
            }
        }
    },
};

fn by_form(context: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { summary, rule, to, .. } = *context;
    match (context.table(), context.role) {
        (Some(Table::Raw), _) => Some(Reason::DnsZone),
        (Some(Table::Mangle), _) => Some(Reason::DropInvalid),
        (Some(Table::Nat), Role::Base(_)) => match to {
            Some(Role::Inbound) => Some(Reason::Inbound),
            Some(Role::Outbound) => Some(Reason::Outbound),
            _ => base(context),
        },
        (Some(Table::Nat), Role::ToInboundListener) => Some(Reason::ToInboundListener),
        (Some(Table::Nat), Role::ToOutboundListener) => Some(Reason::ToOutboundListener),
        (Some(Table::Nat), Role::Inbound) if to == Some(Role::ToInboundListener) => Some(Reason::InboundPort),
        (Some(Table::Nat), Role::Inbound) if rule.action.passes() => {
            Some(match (&summary.source, &summary.destination_port) {
                (Some(_), _) => Reason::ExcludedSource,
                (None, Some(_)) => Reason::ExcludedInboundPort,
                (None, None) => Reason::InboundOff,
            })
        }
        (Some(Table::Nat), Role::Outbound) => outbound(context),
        _ => None,
    }
}

/// In the chains that the kernel calls.
fn base(context: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { summary, rule, .. } = *context;
    if rule.action.captures() {
        return Some(match (&summary.in_interface, summary.udp) {
            (Some(_), true) => Reason::VirtualNetworkDns,
            (Some(_), false) => Reason::VirtualNetwork,
            (None, _) => Reason::Dns,
        });
    }
    // A user's ports are a list, that of DNS is alone.
    let is_list =
        rule.conditions.iter().any(|one| matches!(one, ListedCondition::Known(Match::DestinationPorts(_))));
    let is_dockers = rule.leads_to.is_some_and(|chain| context.view().chains()[chain].chain == DOCKER_CHAIN);
    match (&summary.uid, &summary.destination) {
        (Some(uid), _) if is_dockers && !uid.negated => Some(Reason::ProxyDns),
        _ if !rule.action.passes() => None,
        (Some(uid), _) if uid.negated => Some(Reason::DnsOverTcp),
        (Some(_), _) if is_list => Some(Reason::ExcludedUser),
        (Some(_), _) => Some(Reason::ProxyDns),
        (None, Some(_)) => Some(Reason::ExcludedDestination),
        (None, None) => None,
    }
}

fn outbound(context: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { summary, rule, to, .. } = *context;
    match to {
        Some(Role::ToInboundListener) => return Some(Reason::ProxyCallsOwnPod),
        Some(Role::ToOutboundListener) => return Some(Reason::OutboundPort),
        _ if !rule.action.passes() => return None,
        _ => {}
    }
    Some(match (&summary.source, &summary.uid, &summary.destination, &summary.destination_port) {
        (Some(_), ..) => Reason::ProxyToApplication,
        (None, Some(uid), ..) if uid.negated => Reason::ApplicationLoopback,
        (None, Some(_), ..) => Reason::ProxyOutbound,
        (None, None, Some(_), _) => Reason::Loopback,
        (None, None, None, Some(_)) => Reason::ExcludedOutboundPort,
        (None, None, None, None) => Reason::OutboundOff,
    })
}
