//! Rules of linkerd's in iptables: the chain that a rule stands in, what it asks and what it does tell why it is there, of
//! ours and upstream's alike. The comments say the same; a rule that lost its own is read all the same.

use super::reason::{ROWS, Reason};
use crate::reason::{Reasons, Row};
use crate::recognition::{Role, RuleContext, captures, is_loopback, returns};
use rules::Family;
use rules::Hook;

/// What is known of the mesh's rules.
pub(crate) struct Known;

impl Reasons for Known {
    fn rows(&self) -> &'static [Row] {
        ROWS
    }

    fn chains(&self) -> &'static [(&'static str, Role)] {
        &[("PROXY_INIT_REDIRECT", Role::Inbound), ("PROXY_INIT_OUTPUT", Role::Outbound)]
    }

    fn remedy_of_gap(&self, family: Family) -> &'static str {
        match family {
            Family::V4 => "set the rules again: those of linkerd always capture IPv4",
            Family::V6 => "set the rules with --ipv6",
        }
    }

    fn read(&self, met: &RuleContext<'_>) -> Option<crate::Reason> {
        read(met).map(Into::into)
    }
}

fn read(met: &RuleContext<'_>) -> Option<Reason> {
    let asks = met.asks;
    let has_ports = asks.destination_port.is_some();
    match (met.role, captures(met.rule), returns(met.rule)) {
        (Role::Base(Hook::Prerouting), ..) if met.to == Some(Role::Inbound) => Some(Reason::Inbound),
        (Role::Base(Hook::Output), ..) if met.to == Some(Role::Outbound) => Some(Reason::Outbound),
        (Role::Inbound, true, _) if has_ports => Some(Reason::InboundPort),
        (Role::Inbound, true, _) => Some(Reason::ToInboundListener),
        (Role::Inbound, _, true) if asks.source.is_some() => Some(Reason::IgnoredSubnet),
        (Role::Inbound, _, true) if has_ports => Some(Reason::IgnoredInboundPort),
        (Role::Outbound, true, _) => Some(Reason::ToOutboundListener),
        (Role::Outbound, _, true) if asks.uid.is_some() => Some(Reason::ProxyUser),
        (Role::Outbound, _, true) if asks.gid.is_some() => Some(Reason::ProxyGroup),
        (Role::Outbound, _, true) if has_ports => Some(Reason::IgnoredOutboundPort),
        (Role::Outbound, _, true) if is_loopback(asks.out_interface.as_ref()) => Some(Reason::Loopback),
        _ => None,
    }
}
