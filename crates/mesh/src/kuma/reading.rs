//! Rules of Kuma's in iptables. The comments of ours end with the reason's name. Those of upstream's are prose, or switched
//! off: there the chain, what a rule asks and what it does tell.

use super::ownership::COMMENTS;
use super::reason::{ROWS, Reason};
use super::settings::Kuma;
use crate::finding::Code;
use crate::limit::Caution;
use crate::reason::{Reasons, Row};
use crate::recognition::{Kind, RecognizedRule, Role, RuleContext, captures, returns};
use crate::settings::Setting;
use rules::Family;
use rules::{Condition, Match};

/// What is known of the mesh's rules.
pub(crate) struct Known;

impl Reasons for Known {
    fn rows(&self) -> &'static [Row] {
        ROWS
    }

    fn chains(&self) -> &'static [(&'static str, Role)] {
        &[
            ("KUMA_MESH_INBOUND", Role::Inbound),
            ("KUMA_MESH_OUTBOUND", Role::Outbound),
            ("KUMA_MESH_INBOUND_REDIRECT", Role::ToInboundListener),
            ("KUMA_MESH_OUTBOUND_REDIRECT", Role::ToOutboundListener),
        ]
    }

    fn cautions(&self) -> &'static [Caution] {
        &[Caution {
            code: Code::InvalidPackets,
            is_warning: false,
            setting: Kuma::DropInvalid,
            applies: |facts| facts.lets_invalid_in(),
            text: "is off: one packet outside its connection's window resets a captured connection",
            remedy: "give {--drop-invalid-packets}",
        }]
    }

    fn remedy_of_gap(&self, family: Family) -> &'static str {
        match family {
            Family::V4 => "set the rules again: those of Kuma always capture IPv4",
            Family::V6 => "set the rules with --ip-family-mode dualstack",
        }
    }

    fn read(&self, met: &RuleContext<'_>) -> Option<crate::Reason> {
        read(met).map(Into::into)
    }

    fn setting(&self, _reason: crate::Reason, met: &RuleContext<'_>) -> Option<Setting> {
        // Of all servers none is named.
        let of_servers = met.asks.destination.is_some() || met.asks.source.is_some();
        (met.asks.udp && captures(met.rule)).then_some(if of_servers {
            Kuma::RedirectDns
        } else {
            Kuma::CaptureAllDns
        })
    }

    /// A list of ports has not made the rule that captures all of them.
    fn settle(&self, all: &mut [RecognizedRule<'_>]) {
        let lists = [Reason::InboundPort, Reason::OutboundPort].map(crate::Reason::from);
        for meant in all {
            if meant.asks.destination_port.is_none() && meant.reason.is_some_and(|one| lists.contains(&one)) {
                meant.setting = None;
            }
        }
    }
}

fn read(met: &RuleContext<'_>) -> Option<Reason> {
    let named = || Reason::named(&format!("kuma-{}", met.asks.comment.as_deref()?.strip_prefix(COMMENTS)?));
    named().or_else(|| by_form(met))
}

fn by_form(met: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { asks, rule, to, .. } = *met;
    match (met.kind(), met.role) {
        (Kind::Raw, _) => Some(Reason::DnsZone),
        (Kind::Mangle, _) => Some(Reason::DropInvalid),
        (Kind::Nat, Role::Base(_)) => match to {
            Some(Role::Inbound) => Some(Reason::Inbound),
            Some(Role::Outbound) => Some(Reason::Outbound),
            _ => base(met),
        },
        (Kind::Nat, Role::ToInboundListener) => Some(Reason::ToInboundListener),
        (Kind::Nat, Role::ToOutboundListener) => Some(Reason::ToOutboundListener),
        (Kind::Nat, Role::Inbound) if to == Some(Role::ToInboundListener) => Some(Reason::InboundPort),
        (Kind::Nat, Role::Inbound) if returns(rule) => Some(match (&asks.source, &asks.destination_port) {
            (Some(_), _) => Reason::ExcludedSource,
            (None, Some(_)) => Reason::ExcludedInboundPort,
            (None, None) => Reason::InboundOff,
        }),
        (Kind::Nat, Role::Outbound) => outbound(met),
        _ => None,
    }
}

/// In the chains that the kernel calls.
fn base(met: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { asks, rule, .. } = *met;
    if captures(rule) {
        return Some(match (&asks.in_interface, asks.udp) {
            (Some(_), true) => Reason::VirtualNetworkDns,
            (Some(_), false) => Reason::VirtualNetwork,
            (None, _) => Reason::Dns,
        });
    }
    // A user's ports are a list, that of DNS stands alone.
    let is_list =
        rule.conditions.iter().any(|one| matches!(one, Condition::Known(Match::DestinationPorts(_))));
    match (&asks.uid, &asks.destination) {
        _ if !returns(rule) => None,
        (Some(uid), _) if uid.negated => Some(Reason::DnsOverTcp),
        (Some(_), _) if is_list => Some(Reason::ExcludedUser),
        (Some(_), _) => Some(Reason::ProxyDns),
        (None, Some(_)) => Some(Reason::ExcludedDestination),
        (None, None) => None,
    }
}

fn outbound(met: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { asks, rule, to, .. } = *met;
    match to {
        Some(Role::ToInboundListener) => return Some(Reason::ProxyCallsOwnPod),
        Some(Role::ToOutboundListener) => return Some(Reason::OutboundPort),
        _ if !returns(rule) => return None,
        _ => {}
    }
    Some(match (&asks.source, &asks.uid, &asks.destination, &asks.destination_port) {
        (Some(_), ..) => Reason::ProxyToApplication,
        (None, Some(uid), ..) if uid.negated => Reason::ApplicationLoopback,
        (None, Some(_), ..) => Reason::ProxyOutbound,
        (None, None, Some(_), _) => Reason::Loopback,
        (None, None, None, Some(_)) => Reason::ExcludedOutboundPort,
        (None, None, None, None) => Reason::OutboundOff,
    })
}
