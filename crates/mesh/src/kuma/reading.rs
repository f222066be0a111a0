//! Rules of Kuma's in iptables. The comments of ours end with the reason's name. Those of upstream's are prose, or switched off.

use super::ownership::COMMENTS;
use super::settings::Kuma;
use crate::RuleReason;
use crate::recognition::RuleContext;
use crate::registry::Recognition;

pub(super) const RECOGNITION: Recognition = Recognition {
    special: |context| {
        let name = context.summary.comment.as_deref()?.strip_prefix(COMMENTS)?;
        RuleReason::named(&format!("kuma-{name}"))
    },
    setting: |reason, RuleContext { summary, rule, .. }| match reason.settings() {
        // The rule that captures all ports comes from no list of ports.
        [Kuma::InboundPortsInclude | Kuma::OutboundPortsInclude] if summary.ports().is_none() => None,
        [one] => Some(*one),
        // Where all DNS is captured, the rule names no server.
        [of_servers, of_all] if summary.udp && rule.action.captures() => {
            let has_server = summary.destination().is_some() || summary.source().is_some();
            Some(*if has_server { of_servers } else { of_all })
        }
        _ => None,
    },
    refine: |_| {},
};
