//! Recognizes rules of ambient mode that carry no reason: ours in iptables, and those of Istio's node agent in iptables
//! and in nf_tables. None of them has a comment; the chain, the conditions and the target identify them.

use super::limits::LIMITS;
use super::reason::{ROWS, Reason};
use crate::limit::Limit;
use crate::policy::Reasons;
use crate::reason::Row;
use crate::recognition::summary::FieldValues;
use crate::recognition::{Kind, Role, RuleContext, captures, is_loopback};
use rules::Family;
use rules::Hook;

/// What is known of the mesh's rules.
pub(crate) struct Known;

impl Reasons for Known {
    fn rows(&self) -> &'static [Row] {
        ROWS
    }

    fn chains(&self) -> &'static [(&'static str, Role)] {
        &[
            ("ISTIO_PRERT", Role::Inbound),
            ("ISTIO_PREROUTING", Role::Inbound),
            ("ISTIO_OUTPUT", Role::Outbound),
        ]
    }

    fn remedy_of_gap(&self, family: Family) -> &'static str {
        match family {
            Family::V4 => "set the rules again: those of ambient mode always capture IPv4",
            Family::V6 => "set the rules with --ipv6",
        }
    }

    fn read(&self, context: &RuleContext<'_>) -> Option<crate::Reason> {
        read(context).map(Into::into)
    }

    fn resolver(&self) -> &'static str {
        "ztunnel"
    }

    fn limits(&self) -> &'static [Limit] {
        LIMITS
    }
}

fn read(context: &RuleContext<'_>) -> Option<Reason> {
    let (summary, leads_on) = (context.summary, context.to.is_some());
    let is_one = |values: &Option<FieldValues>| values.as_ref().is_some_and(|values| !values.negated);
    match (context.kind(), context.role) {
        (Kind::Mangle, _) => Some(Reason::ProxyToApplication),
        (Kind::Raw, _) => Some(Reason::DnsZone),
        (Kind::Nat, Role::Base(Hook::Prerouting)) if leads_on => Some(Reason::Arriving),
        (Kind::Nat, Role::Base(Hook::Output)) if leads_on => Some(Reason::Leaving),
        (Kind::Nat, Role::Inbound) if summary.in_interface.is_some() => Some(Reason::Machine),
        (Kind::Nat, Role::Inbound) if captures(context.rule) => Some(Reason::Inbound),
        (Kind::Nat, Role::Inbound) if is_one(&summary.source) => Some(Reason::Probe),
        (Kind::Nat, Role::Outbound) if captures(context.rule) => {
            Some(if is_one(&summary.destination_port) { Reason::Dns } else { Reason::Outbound })
        }
        (Kind::Nat, Role::Outbound) if is_one(&summary.destination) => Some(Reason::Probe),
        (Kind::Nat, Role::Outbound) if is_loopback(summary.out_interface.as_ref()) => Some(Reason::OwnPod),
        (Kind::Nat, Role::Outbound) if summary.mark.is_some() => Some(Reason::ProxyToApplication),
        _ => None,
    }
}
