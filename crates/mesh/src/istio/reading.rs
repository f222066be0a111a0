//! Rules of the mesh's that do not say why they are there: ours in iptables, upstream's, and those of its native mode.
//!
//! The chain that a rule stands in, what it asks and what it does tell. A test holds that against the policy that wrote
//! the rules, for any configuration.

use super::limits::CAUTIONS;
use super::reason::{ROWS, Reason};
use crate::limit::Caution;
use crate::reason::{Reasons, Row};
use crate::recognition::summary::{FieldValues, RuleSummary};
use crate::recognition::{Kind, RecognizedRule, Role, RuleContext, captures, is_loopback, returns};
use crate::settings::Setting;
use rules::simulate::ViewChain;
use rules::{Action, Family, Hook, Target};
use std::collections::BTreeSet;

/// What is known of the mesh's rules.
pub(crate) struct Known;

impl Reasons for Known {
    fn rows(&self) -> &'static [Row] {
        ROWS
    }

    fn chains(&self) -> &'static [(&'static str, Role)] {
        &[
            ("ISTIO_INBOUND", Role::Inbound),
            ("ISTIO_OUTPUT", Role::Outbound),
            ("ISTIO_REDIRECT", Role::ToOutboundListener),
            ("ISTIO_IN_REDIRECT", Role::ToInboundListener),
            ("ISTIO_TPROXY", Role::ToInboundListener),
            ("ISTIO_OUTPUT_DNS", Role::Dns),
            ("ISTIO_DIVERT", Role::Divert),
            ("ISTIO_DROP", Role::Drop),
        ]
    }

    fn resolver(&self) -> &'static str {
        "the agent"
    }

    fn cautions(&self) -> &'static [Caution] {
        CAUTIONS
    }

    fn remedy_of_gap(&self, family: Family) -> &'static str {
        match family {
            Family::V4 => "name the pod's IPv4 address in --pod-ips when the rules are set",
            Family::V6 => "set the rules with --dual-stack, and with the address in --pod-ips if it is given",
        }
    }

    fn read(&self, met: &RuleContext<'_>) -> Option<crate::Reason> {
        read(met).map(Into::into)
    }

    /// Whoever reads a listing of these rules has upstream's beside it, and compares places and texts.
    fn tells_of_listings(&self) -> bool {
        false
    }

    fn setting(&self, reason: crate::Reason, met: &RuleContext<'_>) -> Option<Setting> {
        let by_owner = [Setting::ProxyUid, Setting::ProxyGid];
        (reason.settings() == by_owner).then(|| by_owner[usize::from(met.asks.gid.is_some())])
    }

    fn owns(&self, met: &RuleContext<'_>) -> bool {
        owns(met)
    }

    fn settle(&self, all: &mut [RecognizedRule<'_>]) {
        groups_of_the_proxy(all);
    }
}

/// Upstream's rules, which carry no comment: the forms that it writes, where something leads to its chains.
fn owns(met: &RuleContext<'_>) -> bool {
    let asks = met.asks;
    let is_capturing = matches!(met.kind(), Kind::Nat | Kind::Mangle);
    let is_one = |asked: &Option<FieldValues>| asked.as_ref().is_some_and(|asked| !asked.negated);
    let is_interface = (is_one(&asks.in_interface) || is_one(&asks.out_interface))
        && [&asks.source, &asks.destination, &asks.destination_port].iter().all(|asked| asked.is_none());
    is_capturing
        && match met.rule.action {
            Action::Target(Target::Return) if is_interface => {
                met.mesh_is_reached(true) || asks.more && met.mesh_is_reached(false)
            }
            Action::Target(Target::SaveMark | Target::RestoreMark) => asks.more && met.mesh_is_reached(false),
            Action::Target(Target::SetMark(_)) => {
                (asks.uid.is_some() || asks.gid.is_some()) && met.mesh_is_reached(false)
            }
            _ => false,
        }
}

fn read(met: &RuleContext<'_>) -> Option<Reason> {
    if met.kind() == Kind::Raw {
        return Some(Reason::Dns);
    }
    match met.role {
        Role::ToOutboundListener => Some(Reason::ToOutboundListener),
        Role::ToInboundListener => Some(Reason::ToInboundListener),
        Role::Dns => Some(Reason::Dns),
        Role::Divert => Some(Reason::TproxyMark),
        Role::Drop => Some(Reason::DropInvalid),
        Role::Inbound => inbound(met),
        Role::Outbound => outbound(met),
        Role::Base(hook) => base(met, hook),
        Role::Other => None,
    }
}

fn inbound(met: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { rule, asks, to, .. } = *met;
    if matches!(to, Some(Role::ToInboundListener | Role::Divert)) || captures(rule) {
        return Some(Reason::InboundPort);
    }
    if !returns(rule) {
        return None;
    }
    if let Some(ports) = &asks.destination_port {
        let is_tunnels = met.kind() == Kind::Nat && met.is_first() && ports.items.len() == 1;
        return Some(if is_tunnels { Reason::TunnelPort } else { Reason::ExcludedInboundPort });
    }
    match (&asks.source, is_loopback(asks.in_interface.as_ref()), asks.more) {
        (Some(_), ..) => Some(Reason::ProxyToApplication),
        (None, true, _) => Some(Reason::ApplicationLoopback),
        (None, false, true) => Some(Reason::TproxyMark),
        (None, false, false) => None,
    }
}

fn outbound(met: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { rule, asks, to, .. } = *met;
    match to {
        Some(Role::Dns) => return Some(Reason::Dns),
        Some(Role::ToInboundListener) => return Some(Reason::ProxyCallsOwnPod),
        Some(Role::ToOutboundListener) => {
            let is_of_ports = asks.destination_port.is_some();
            return Some(if is_of_ports { Reason::OutboundPort } else { Reason::OutboundNetwork });
        }
        _ => {}
    }
    if !returns(rule) {
        return None;
    }
    let owner = asks.uid.as_ref().or(asks.gid.as_ref());
    match (owner, &asks.destination, &asks.destination_port) {
        (Some(owner), ..) if owner.negated && is_loopback(asks.out_interface.as_ref()) => {
            Some(Reason::ApplicationLoopback)
        }
        (Some(owner), ..) if owner.negated => Some(Reason::OtherGroups),
        (Some(_), ..) => Some(Reason::ProxyOutbound),
        (None, Some(networks), _) => {
            let loopback = |item: &String| item.starts_with("127.") || item == "::1";
            let is_loopback = networks.items.iter().all(loopback);
            Some(if is_loopback { Reason::Loopback } else { Reason::ExcludedNetwork })
        }
        (None, None, Some(_)) => Some(Reason::ExcludedOutboundPort),
        (None, None, None) if asks.source.is_some() => Some(Reason::ProxyToApplication),
        // Of no group is anything captured.
        (None, None, None) if asks.out_interface.is_none() && !asks.more => Some(Reason::OtherGroups),
        (None, None, None) => None,
    }
}

fn base(met: &RuleContext<'_>, hook: Hook) -> Option<Reason> {
    let RuleContext { chain: held, rule, asks, to, .. } = *met;
    match (to, &rule.action) {
        (Some(Role::Inbound), _) => Some(Reason::InboundPort),
        (Some(Role::Outbound), _) => Some(Reason::Outbound),
        (Some(Role::ToOutboundListener), _) => Some(Reason::OutboundNetwork),
        (Some(Role::Dns), _) => Some(Reason::Dns),
        (Some(Role::Drop), _) | (None, Action::Target(Target::Drop)) => Some(Reason::DropInvalid),
        (None, Action::Target(Target::SaveMark | Target::RestoreMark)) => Some(Reason::TproxyMark),
        (None, Action::Target(Target::SetMark(_))) => Some(Reason::ProxyCallsOwnPod),
        (None, Action::Target(Target::Return)) if asks.more => Some(Reason::TproxyMark),
        (None, Action::Target(Target::Return)) => {
            let items = asks.in_interface.as_ref().or(asks.out_interface.as_ref())?;
            let twin = |other: &ViewChain| {
                other.table == held.table
                    && other.base.is_some_and(|base| base.hook == Hook::Output)
                    && other
                        .rules
                        .iter()
                        .any(|rule| RuleSummary::of(&rule.conditions).out_interface.as_ref() == Some(items))
            };
            let is_both_ways = hook == Hook::Output || met.view().chains().iter().any(twin);
            Some(if is_both_ways { Reason::ExcludedInterface } else { Reason::VmInterface })
        }
        _ => None,
    }
}

/// A group that is left alone is the proxy's if other rules of the proxy's name it.
fn groups_of_the_proxy(found: &mut [RecognizedRule<'_>]) {
    let names_proxy = |meant: &&RecognizedRule<'_>| {
        [Reason::ProxyCallsOwnPod, Reason::ApplicationLoopback]
            .map(|own| Some(own.into()))
            .contains(&meant.reason)
    };
    let of_proxy =
        found.iter().filter(names_proxy).filter_map(|meant| Some(meant.asks.gid.as_ref()?.items.clone()));
    let of_proxy: BTreeSet<String> = of_proxy.flatten().collect();
    for meant in found {
        let others = |asked: &FieldValues| !asked.items.iter().any(|group| of_proxy.contains(group));
        if meant.reason == Some(Reason::ProxyOutbound.into())
            && meant.rule.origin.is_none()
            && meant.asks.gid.as_ref().is_some_and(others)
        {
            meant.reason = Some(Reason::ExcludedGroup.into());
            meant.setting = Some(Setting::OwnerGroupsExclude);
        }
    }
}
