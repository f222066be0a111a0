//! Recognizes rules of linkerd in iptables, ours and upstream's alike, by the chain, the conditions and the target.
//! The comments agree; a rule that lost its own is recognized all the same.

use super::reason::Reason;
use crate::recognition::{Role, RuleContext, is_loopback};
use rules::Hook;

pub(super) fn read(context: &RuleContext<'_>) -> Option<Reason> {
    let summary = context.summary;
    let has_ports = summary.destination_port.is_some();
    match (context.role, context.rule.action.captures(), context.rule.action.passes()) {
        (Role::Base(Hook::Prerouting), ..) if context.to == Some(Role::Inbound) => Some(Reason::Inbound),
        (Role::Base(Hook::Output), ..) if context.to == Some(Role::Outbound) => Some(Reason::Outbound),
        (Role::Inbound, true, _) if has_ports => Some(Reason::InboundPort),
        (Role::Inbound, true, _) => Some(Reason::ToInboundListener),
        (Role::Inbound, _, true) if summary.source.is_some() => Some(Reason::IgnoredSubnet),
        (Role::Inbound, _, true) if has_ports => Some(Reason::IgnoredInboundPort),
        (Role::Outbound, true, _) => Some(Reason::ToOutboundListener),
        (Role::Outbound, _, true) if summary.uid.is_some() => Some(Reason::ProxyUser),
        (Role::Outbound, _, true) if summary.gid.is_some() => Some(Reason::ProxyGroup),
        (Role::Outbound, _, true) if has_ports => Some(Reason::IgnoredOutboundPort),
        (Role::Outbound, _, true) if is_loopback(summary.out_interface.as_ref()) => Some(Reason::Loopback),
        _ => None,
    }
}
