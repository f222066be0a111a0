//! Recognizes rules that carry no reason, where their form shows it in Istio alone.

use super::defaults::TUNNEL_PORT;
use super::reason::Reason;
use crate::RuleReason;
use crate::recognition::summary::RuleSummary;
use crate::recognition::{RecognizedRule, Role, RuleContext};
use crate::registry::Recognition;
use crate::settings::Setting;
use rules::Table;
use rules::field::{Condition, Field, Intervals};
use rules::simulate::ViewRule;

pub(super) const RECOGNITION: Recognition = Recognition {
    special: tunnel,
    setting: |reason, context| match reason.settings() {
        [of_user, of_group] => {
            Some(*if context.summary.values(Field::Gid).is_some() { of_group } else { of_user })
        }
        all => all.first().copied(),
    },
    refine: groups_of_the_proxy,
};

/// Of the proxy's calls to its own pod, those to the tunnel are not redirected; until 1.9 they were, and only the usual port shows
/// that it is the tunnel's.
fn tunnel(context: &RuleContext<'_>) -> Option<RuleReason> {
    let ports = &context.summary.ports()?.values;
    let is_alone = context.table() == Some(Table::Nat) && context.is_first() && ports.single().is_some();
    if !is_alone || context.role != Role::Inbound || !context.rule.action.passes() {
        return None;
    }
    let of_proxy = |rule: &ViewRule| RuleSummary::of(&rule.conditions).ports().cloned();
    let mut of_proxy = context.view().chains().iter().flat_map(|chain| &chain.rules).filter_map(of_proxy);
    let is_tunnels = *ports == Intervals::one(TUNNEL_PORT.number().into())
        || of_proxy.any(|but| but.negated && ports.within(&but.values));
    is_tunnels.then_some(Reason::TunnelPort.into())
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
        .filter_map(|recognized| Some(recognized.summary.values(Field::Gid)?.values.ranges().to_vec()));
    let of_proxy: Intervals = of_proxy.flatten().collect();
    for recognized in found {
        let others = |groups: &Condition| !groups.values.meets(&of_proxy);
        if recognized.reason == Some(Reason::ProxyOutbound.into())
            && recognized.rule.origin.is_none()
            && RuleReason::of_comment(&recognized.rule.comment).is_none()
            && recognized.summary.values(Field::Gid).is_some_and(others)
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
