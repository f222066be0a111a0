//! Rules as claims: which traffic a rule is about, what becomes of it, and whose traffic is the proxy's by that.

use mesh::reason::{Meaning, Phrase};
use mesh::recognition::summary::{RuleSummary, field_condition};
use mesh::recognition::{RecognizedRule, Role, recognized};
use mesh::settings::Setting;
use mesh::{Proxy, RuleReason};
use rules::field::Field;
use rules::simulate::{View, ViewRule};
use rules::{Action, Mark, Origin, PortRange, Target, TrafficEffect};
use std::str::FromStr;

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
        items: items(origin, meaning, summary),
        listener,
        exclusions: if is_captured { exclusions(meaning, recognized) } else { Vec::new() },
        sentence: row.claim.filter(|_| decides)?,
    })
}

/// The items of the list that a rule is about, users and groups each with its noun.
fn items(origin: Origin, meaning: Meaning, summary: &RuleSummary) -> Vec<String> {
    let noun = match origin.item {
        Some(Field::Uid) => "user ",
        Some(Field::Gid) => "group ",
        _ => "",
    };
    let ports = summary.destination_port.as_ref().filter(|_| meaning == Meaning::ExcludedOwner);
    let ports = ports.map(|values| format!(": port {}", values.items.join(","))).unwrap_or_default();
    let items = origin.item.and_then(|field| summary.values(field)).map(|values| values.items.iter());
    items.into_iter().flatten().map(|item| format!("{noun}{item}{ports}")).collect()
}

/// Exclusions by a capturing rule's own conditions.
fn exclusions(meaning: Meaning, recognized: &RecognizedRule<'_>) -> Vec<(Meaning, Vec<String>)> {
    let conditions = recognized.rule.conditions.iter().filter_map(field_condition);
    let fields = conditions.filter(|condition| condition.negated).map(|condition| condition.field);
    let exclusion = |field: Field| {
        let noun = if matches!(field, Field::Mark(_)) { "mark " } else { "" };
        let items = recognized.summary.values(field)?.items.iter().map(|item| format!("{noun}{item}"));
        Some((meaning.exception(field)?, items.collect()))
    };
    fields.filter_map(exclusion).collect()
}

/// What live rules show of the proxy of a mesh: the users, the groups or the mark whose traffic they exclude. Where it listens
/// is not included.
pub fn proxy(view: &View) -> Proxy {
    let claims: Vec<Claim> =
        recognized(view).iter().filter_map(|recognized| claim(view, recognized)).collect();
    proxy_of(&claims)
}

/// The same by what was claimed.
pub(super) fn proxy_of(claims: &[Claim]) -> Proxy {
    let own = claims.iter().filter(|claim| claim.meaning == Meaning::ProxyOutbound);
    let items: Vec<&String> = own.flat_map(|claim| &claim.items).collect();
    let exclusions = claims.iter().flat_map(|claim| &claim.exclusions).flat_map(|(_, items)| items);
    Proxy {
        uids: all(items.iter().copied(), "user "),
        gids: all(items.iter().copied(), "group "),
        mark: all::<Mark>(exclusions, "mark ").first().copied(),
        ..Proxy::default()
    }
}

/// The values after a noun.
fn all<'a, T: FromStr>(items: impl Iterator<Item = &'a String>, noun: &str) -> Vec<T> {
    items.filter_map(|item| item.strip_prefix(noun)?.parse().ok()).collect()
}
