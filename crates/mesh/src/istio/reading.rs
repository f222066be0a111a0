//! Recognizes the mesh's rules that carry no reason: ours in iptables, upstream's, and those of its native mode.
//!
//! The chain, the conditions and the target identify them. A test compares that with the policy that wrote
//! the rules, for any configuration.

use super::defaults::TUNNEL_PORT;
use super::reason::Reason;
use crate::RuleReason;
use crate::recognition::summary::{RuleSummary, items};
use crate::recognition::{RecognizedRule, Role, RuleContext, is_loopback};
use crate::registry::Recognition;
use crate::settings::Setting;
use rules::field::{Condition, Intervals};
use rules::simulate::ViewRule;
use rules::{Action, Hook, Table, Target};

pub(super) const RECOGNITION: Recognition = Recognition {
    reason: |context| read(context).map(Into::into),
    setting: |reason, context| {
        let by_owner = [Setting::ProxyUid, Setting::ProxyGid];
        (reason.settings() == by_owner).then(|| by_owner[usize::from(context.summary.gid.is_some())])
    },
    refine: groups_of_the_proxy,
};

fn read(context: &RuleContext<'_>) -> Option<Reason> {
    if context.table() == Some(Table::Raw) {
        return Some(Reason::Dns);
    }
    match context.role {
        // Istio 1.8 and 1.9 part TCP DNS there.
        Role::ToOutboundListener if context.summary.destination_port.is_some() => Some(Reason::Dns),
        Role::ToOutboundListener => Some(Reason::ToOutboundListener),
        Role::ToInboundListener => Some(Reason::ToInboundListener),
        Role::Dns => Some(Reason::Dns),
        Role::Divert => Some(Reason::TproxyMark),
        Role::Drop => Some(Reason::DropInvalid),
        Role::Inbound => inbound(context),
        Role::Outbound => outbound(context),
        Role::Base(hook) => base(context, hook),
        Role::Other => None,
    }
}

fn inbound(context: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { rule, summary, to, .. } = *context;
    if matches!(to, Some(Role::ToInboundListener | Role::Divert)) || rule.action.captures() {
        return Some(Reason::InboundPort);
    }
    if !rule.action.passes() {
        return None;
    }
    if let Some(ports) = &summary.destination_port {
        // Of the proxy's calls to its own pod, those to the tunnel are not redirected; until 1.9 they were, and only the usual
        // port shows that it is the tunnel's.
        let of_proxy = |rule: &ViewRule| RuleSummary::of(&rule.conditions).destination_port;
        let mut of_proxy = context.view().chains().iter().flat_map(|chain| &chain.rules).filter_map(of_proxy);
        let is_alone =
            context.table() == Some(Table::Nat) && context.is_first() && ports.values.single().is_some();
        let is_tunnels = ports.values == Intervals::one(TUNNEL_PORT.number().into())
            || of_proxy.any(|but| but.negated && ports.values.within(&but.values));
        return Some(match is_alone && is_tunnels {
            true => Reason::TunnelPort,
            false => Reason::ExcludedInboundPort,
        });
    }
    match (&summary.source, is_loopback(summary.in_interface.as_ref()), summary.more) {
        (Some(_), ..) => Some(Reason::ProxyToApplication),
        (None, true, _) => Some(Reason::ApplicationLoopback),
        (None, false, true) => Some(Reason::TproxyMark),
        (None, false, false) => None,
    }
}

fn outbound(context: &RuleContext<'_>) -> Option<Reason> {
    let RuleContext { rule, summary, to, .. } = *context;
    match to {
        Some(Role::Dns) => return Some(Reason::Dns),
        Some(Role::ToInboundListener) => return Some(Reason::ProxyCallsOwnPod),
        Some(Role::ToOutboundListener) => {
            let is_of_ports = summary.destination_port.is_some();
            return Some(if is_of_ports { Reason::OutboundPort } else { Reason::OutboundNetwork });
        }
        _ => {}
    }
    if !rule.action.passes() {
        return None;
    }
    let owner = summary.uid.as_ref().or(summary.gid.as_ref());
    match (owner, &summary.destination, &summary.destination_port) {
        (Some(owner), ..) if owner.negated && is_loopback(summary.out_interface.as_ref()) => {
            Some(Reason::ApplicationLoopback)
        }
        (Some(owner), ..) if owner.negated => Some(Reason::OtherGroups),
        (Some(_), ..) => Some(Reason::ProxyOutbound),
        (None, Some(networks), _) => {
            let loopback = |item: &String| item.starts_with("127.") || item == "::1";
            let is_loopback = items(networks).iter().all(loopback);
            Some(if is_loopback { Reason::Loopback } else { Reason::ExcludedNetwork })
        }
        (None, None, Some(_)) => Some(Reason::ExcludedOutboundPort),
        (None, None, None) if summary.source.is_some() => Some(Reason::ProxyToApplication),
        // Written where the list of captured groups is empty.
        (None, None, None) if summary.out_interface.is_none() && !summary.more => Some(Reason::OtherGroups),
        (None, None, None) => None,
    }
}

fn base(context: &RuleContext<'_>, hook: Hook) -> Option<Reason> {
    let RuleContext { rule, summary, to, .. } = *context;
    match (to, &rule.action) {
        (Some(Role::Inbound), _) => Some(Reason::InboundPort),
        (Some(Role::Outbound), _) => Some(Reason::Outbound),
        (Some(Role::ToOutboundListener), _) => Some(Reason::OutboundNetwork),
        (Some(Role::Dns), _) => Some(Reason::Dns),
        // Istio 1.7 to 1.9 had no chain for DNS.
        (None, action) if summary.udp => {
            Some(if action.passes() { Reason::ProxyOutbound } else { Reason::Dns })
        }
        (Some(Role::Drop), _) | (None, Action::Target(Target::Drop)) => Some(Reason::DropInvalid),
        (None, Action::Target(Target::SaveMark | Target::RestoreMark)) => Some(Reason::TproxyMark),
        (None, Action::Target(Target::SetMark(_))) if summary.source.is_some() => {
            Some(Reason::ProxyToApplication)
        }
        (None, Action::Target(Target::SetMark(_))) => Some(Reason::ProxyCallsOwnPod),
        (None, Action::Target(Target::Return)) if summary.more => Some(Reason::TproxyMark),
        (None, Action::Target(Target::Return)) => {
            let items = summary.in_interface.as_ref().or(summary.out_interface.as_ref())?;
            let is_both_ways = hook == Hook::Output || context.leave_by(items);
            Some(if is_both_ways { Reason::ExcludedInterface } else { Reason::VmInterface })
        }
        _ => None,
    }
}

/// An excluded group is the proxy's if other rules of the proxy's name it.
fn groups_of_the_proxy(found: &mut [RecognizedRule<'_>]) {
    let names_proxy = |recognized: &&RecognizedRule<'_>| {
        [Reason::ProxyCallsOwnPod, Reason::ApplicationLoopback]
            .map(|own| Some(own.into()))
            .contains(&recognized.reason)
    };
    let of_proxy = found
        .iter()
        .filter(names_proxy)
        .filter_map(|recognized| Some(recognized.summary.gid.as_ref()?.values.ranges().to_vec()));
    let of_proxy: Intervals = of_proxy.flatten().collect();
    for recognized in found {
        let others = |groups: &Condition| !groups.values.meets(&of_proxy);
        if recognized.reason == Some(Reason::ProxyOutbound.into())
            && recognized.rule.origin.is_none()
            && RuleReason::of_comment(&recognized.rule.comment).is_none()
            && recognized.summary.gid.as_ref().is_some_and(others)
        {
            recognized.reason = Some(Reason::ExcludedGroup.into());
            recognized.setting = Some(Setting::OwnerGroupsExclude);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Mesh;
    use crate::recognition::recognized;
    use rules::simulate::View;
    use rules::{Family, parse};

    /// The owner of a rule in a chain of the kernel's, which only its form shows.
    fn owner(mesh_rules: &str, table: &str, rule: &str) -> Option<Mesh> {
        let tables = ["raw", "mangle", "nat", "filter"].map(|name| {
            let of_mesh = if name == "nat" { mesh_rules } else { "" };
            let added = if name == table { rule } else { "" };
            let chain = rule.split(' ').nth(1).expect("a chain");
            format!("*{name}\n:{chain} ACCEPT [0:0]\n:ISTIO_INBOUND - [0:0]\n{of_mesh}\n{added}\nCOMMIT\n")
        });
        let view = View::of_listing(parse::listing(&tables.concat(), Family::V4).expect("a listing"));
        let is_added = |found: &&crate::recognition::RecognizedRule<'_>| {
            found.chain.table == table && found.rule.leads_to.is_none()
        };
        recognized(&view).iter().find(is_added).map(|found| found.mesh)
    }

    #[test]
    fn rules_without_comments_are_the_meshs_by_their_form() {
        let reached = ":PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -j ISTIO_INBOUND";
        let owned = [
            ("nat", "-A OUTPUT -o net1 -j RETURN"),
            ("nat", "-A PREROUTING -i vm0 -j RETURN"),
            ("mangle", "-A OUTPUT -o lo -p tcp -m mark --mark 0x539 -j RETURN"),
            ("mangle", "-A OUTPUT -p tcp -m connmark --mark 0x539 -j CONNMARK --restore-mark"),
            ("mangle", "-A PREROUTING -p tcp -m mark --mark 0x539 -j CONNMARK --save-mark"),
            (
                "mangle",
                "-A OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m owner --uid-owner 1337 -j MARK --set-xmark 0x53a",
            ),
            (
                "mangle",
                "-A OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m owner --gid-owner 1337 -j MARK --set-xmark 0x53a",
            ),
        ];
        for (table, rule) in owned {
            assert_eq!(owner(reached, table, rule), Some(Mesh::Istio), "{table}: {rule}");
            assert_eq!(owner("", table, rule), None, "without the mesh, {table}: {rule}");
        }
        for (table, rule) in [
            ("filter", "-A OUTPUT -o net1 -j RETURN"),
            ("filter", "-A OUTPUT -p tcp -m connmark --mark 0x539 -j CONNMARK --restore-mark"),
            ("mangle", "-A OUTPUT -o net1 -j RETURN"),
            ("nat", "-A OUTPUT ! -o net1 -j RETURN"),
            ("nat", "-A OUTPUT -j RETURN"),
            ("nat", "-A OUTPUT -o net1 -j ACCEPT"),
            ("nat", "-A OUTPUT -d 10.0.0.0/8 -o net1 -j RETURN"),
            ("nat", "-A OUTPUT -s 10.0.0.0/8 -o net1 -j RETURN"),
            ("nat", "-A OUTPUT -o net1 -p tcp -m tcp --dport 22 -j RETURN"),
            ("mangle", "-A PREROUTING -m conntrack --ctstate INVALID -j DROP"),
            ("mangle", "-A PREROUTING -i lo -m mark --mark 0x539 -j RETURN"),
            ("mangle", "-A OUTPUT -p tcp -j CONNMARK --restore-mark"),
            ("mangle", "-A OUTPUT -o lo -p tcp -j MARK --set-xmark 0x53a"),
        ] {
            assert_eq!(owner(reached, table, rule), None, "{table}: {rule}");
        }
    }
}
