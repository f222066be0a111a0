//! Rules as claims: which traffic a rule is about, what becomes of it, and whose traffic is the proxy's by that.

use mesh::reason::{Meaning, Phrase};
use mesh::recognition::summary::{RuleSummary, field_condition, items};
use mesh::recognition::{RecognizedRule, Role, recognized};
use mesh::settings::Setting;
use mesh::{Proxy, RuleReason};
use rules::field::{Condition, Field};
use rules::simulate::{View, ViewRule};
use rules::{Action, Gid, Mark, Origin, Port, PortRange, Target, TrafficEffect, Uid};
use std::borrow::Cow;

/// A rule that decides what becomes of a part of the traffic.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) meaning: Meaning,
    pub(super) reason: RuleReason,
    pub(super) setting: Option<Setting>,
    pub(super) items: Vec<String>,
    /// Where captured packets go, and whether unchanged.
    pub(super) listener: Option<Listener>,
    /// What the rule excludes by its own conditions.
    pub(super) exclusions: Vec<(Meaning, Vec<String>)>,
    pub(super) sentence: Phrase,
}

/// Where captured packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listener {
    pub(super) ports: PortRange,
    pub(super) is_transparent: bool,
}

/// The listener that a rule sends packets to, itself or by the chain that it leads to.
pub(super) fn listener(view: &View, recognized: &RecognizedRule<'_>) -> Option<Listener> {
    let of = |rule: &ViewRule| match &rule.action {
        Action::Target(Target::Tproxy { port, .. }) => {
            Some(Listener { ports: (*port).into(), is_transparent: true })
        }
        action => action.redirects_to().map(|ports| Listener { ports, is_transparent: false }),
    };
    let is_of_port = |rule: &ViewRule| {
        rule.conditions.iter().any(|condition| condition.field() == Some(Field::DestinationPort))
    };
    of(recognized.rule).or_else(|| {
        let chain = recognized.rule.leads_to?;
        // A rule for a port, such as DNS, may precede that for all others.
        let at = view.find(chain, &|rule| of(rule).is_some() && !is_of_port(rule));
        of(view.rule(at.or_else(|| view.find(chain, &|rule| of(rule).is_some()))?)?)
    })
}

/// What becomes of which traffic by a rule; `None` of rules on which others decide.
pub(super) fn claim(view: &View, recognized: &RecognizedRule<'_>) -> Option<Claim> {
    let reason = recognized.reason.filter(|_| recognized.is_reached)?;
    let (meaning, summary, origin) = (recognized.meaning()?, &recognized.summary, recognized.rule.origin?);
    let row = meaning.row();
    let is_captured = origin.effect == TrafficEffect::Captured;
    let listener = listener(view, recognized).filter(|_| is_captured);
    let decides = match meaning {
        // With TPROXY it matches a mark that another rule has set, and that one decides.
        Meaning::ApplicationLoopback => !summary.more,
        // The jump from the kernel's chain has the conditions; the mesh's chain drops all.
        Meaning::Dropped => matches!(recognized.role, Role::Base(_)),
        _ => !is_captured || listener.is_some(),
    };
    Some(Claim {
        meaning,
        reason,
        setting: recognized.setting,
        items: listed(origin, meaning, summary),
        listener,
        exclusions: if is_captured { exclusions(meaning, recognized) } else { Vec::new() },
        sentence: row.claim.filter(|_| decides)?,
    })
}

/// The items of the list that a rule is about, users and groups each with its noun.
fn listed(origin: Origin, meaning: Meaning, summary: &RuleSummary) -> Vec<String> {
    let noun = match origin.item {
        Some(Field::Uid) => "user ",
        Some(Field::Gid) => "group ",
        _ => "",
    };
    let ports = summary.destination_port.as_ref().filter(|_| meaning == Meaning::ExcludedOwner);
    let ports = ports.map(|ports| format!(": port {}", items(ports).join(","))).unwrap_or_default();
    let values = origin.item.and_then(|field| summary.values(field)).map(items);
    values.into_iter().flatten().map(|item| format!("{noun}{item}{ports}")).collect()
}

/// Exclusions by a capturing rule's own conditions.
fn exclusions(meaning: Meaning, recognized: &RecognizedRule<'_>) -> Vec<(Meaning, Vec<String>)> {
    let conditions = recognized.rule.conditions.iter().filter_map(field_condition);
    let exclusion = |condition: Cow<'_, Condition>| {
        let noun = if matches!(condition.field, Field::Mark(_)) { "mark " } else { "" };
        let texts = items(&condition).into_iter().map(|item| format!("{noun}{item}"));
        Some((meaning.exception(condition.field)?, texts.collect()))
    };
    conditions.filter(|condition| condition.negated).filter_map(exclusion).collect()
}

/// The proxy of a mesh by live rules: the users, the groups or the mark whose traffic they exclude, and a port
/// of tunnels that a capturing rule leaves out. Where it listens is not included.
pub fn proxy(view: &View) -> Proxy {
    let mut proxy = Proxy::default();
    for recognized in recognized(view).iter().filter(|recognized| recognized.is_reached) {
        let Some(meaning) = recognized.meaning() else { continue };
        for condition in recognized.rule.conditions.iter().filter_map(field_condition) {
            let single = condition.values.ranges().iter().filter(|range| range.is_single());
            let ids = single.filter_map(|range| u32::try_from(range.first).ok());
            let is_own = meaning == Meaning::ProxyOutbound && !condition.negated;
            match condition.field {
                Field::Uid if is_own => proxy.uids.extend(ids.filter_map(Uid::new)),
                Field::Gid if is_own => proxy.gids.extend(ids.filter_map(Gid::new)),
                field if condition.negated && meaning.exception(field) == Some(Meaning::TunnelPort) => {
                    let port = ids.filter_map(|port| Port::new(u16::try_from(port).ok()?)).next();
                    proxy.listeners.tunnel = proxy.listeners.tunnel.or(port);
                }
                Field::Mark(mask) if condition.negated && meaning.row().effect == TrafficEffect::Captured => {
                    proxy.mark = proxy.mark.or(ids.map(|value| Mark { value, mask }).next());
                }
                _ => {}
            }
        }
    }
    proxy
}
