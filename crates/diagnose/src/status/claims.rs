//! Rules as claims: which traffic a rule speaks of, what it says becomes of it, and whose traffic is the proxy's by that.

use mesh::reason::{About, Effect, Meaning, Phrase};
use mesh::recognition::summary::{FieldValues, RuleSummary};
use mesh::recognition::{RecognizedRule, Role, recognized};
use mesh::settings::Setting;
use mesh::{Proxy, Reason};
use rules::simulate::View;
use rules::{Action, Mark, PortRange, Target};
use std::str::FromStr;

/// A rule that says what becomes of a part of the traffic.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// What becomes of it.
    pub(super) effect: Effect,
    pub(super) direction: &'static str,
    pub(super) meaning: Meaning,
    pub(super) reason: Reason,
    pub(super) setting: Option<Setting>,
    pub(super) items: Vec<String>,
    /// Where captured packets go, and whether unchanged.
    pub(super) listener: Option<Listener>,
    /// What the rule leaves alone in the same breath.
    pub(super) spared: Vec<Spared>,
    pub(super) sentence: Phrase,
}

/// What a rule that captures leaves alone.
#[derive(Clone, Debug)]
pub(super) struct Spared {
    pub(super) direction: &'static str,
    pub(super) items: Vec<String>,
    pub(super) sentence: Phrase,
}

/// Where captured packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listener {
    pub(super) ports: PortRange,
    pub(super) is_transparent: bool,
}

/// The listener that a rule sends packets to, itself or by the chain that it leads to.
pub(super) fn listener(view: &View, meant: &RecognizedRule<'_>) -> Option<Listener> {
    let of = |action: &Action| match action {
        Action::Target(Target::Redirect(ports)) => Some(Listener { ports: *ports, is_transparent: false }),
        Action::Target(Target::Tproxy { port, .. }) => {
            Some(Listener { ports: (*port).into(), is_transparent: true })
        }
        _ => None,
    };
    of(&meant.rule.action).or_else(|| {
        let at = view.find(meant.rule.leads_to?, &|action| of(action).is_some())?;
        of(&view.rule(at)?.action)
    })
}

/// What a rule says becomes of which traffic; `None` of rules on which others decide.
pub(super) fn claim(view: &View, meant: &RecognizedRule<'_>) -> Option<Claim> {
    let reason = meant.reason.filter(|_| meant.is_reached)?;
    let (meaning, asks) = (meant.meaning()?, &meant.asks);
    let row = meaning.row();
    let is_captured = row.effect == Effect::Captured;
    let listener = listener(view, meant).filter(|_| is_captured);
    let decides = match meaning {
        // The mark of another rule, and a chain of its own, decide.
        Meaning::ApplicationLoopback => !asks.more,
        Meaning::Dropped => matches!(meant.role, Role::Base(_)),
        _ => !is_captured || listener.is_some(),
    };
    Some(Claim {
        effect: row.effect,
        direction: row.direction,
        meaning,
        reason,
        setting: meant.setting,
        items: items(row.about, is_captured, asks),
        listener,
        spared: if is_captured { spared(row.direction, asks) } else { Vec::new() },
        sentence: row.claim.filter(|_| decides)?,
    })
}

/// The items of the list that a rule is about. What a rule that captures does not ask for is no item of its list.
fn items(about: About, is_captured: bool, asks: &RuleSummary) -> Vec<String> {
    let asked = match about {
        About::Nothing => None,
        About::Destination => asks.destination.as_ref(),
        About::Source => asks.source.as_ref(),
        About::Port => asks.destination_port.as_ref(),
        About::Interface => asks.in_interface.as_ref().or(asks.out_interface.as_ref()),
        About::Owner => return owners(asks),
        About::OwnerAndPorts => {
            let ports =
                asks.destination_port.as_ref().map(|asked| format!(": port {}", asked.items.join(",")));
            let ports = ports.unwrap_or_default();
            return owners(asks).into_iter().map(|owner| format!("{owner}{ports}")).collect();
        }
    };
    asked.filter(|asked| !(is_captured && asked.negated)).map(|asked| asked.items.clone()).unwrap_or_default()
}

/// What a rule that captures leaves alone by its own words.
fn spared(direction: &'static str, asks: &RuleSummary) -> Vec<Spared> {
    let but = |asked: &Option<FieldValues>| {
        asked.as_ref().filter(|asked| asked.negated).map(|asked| asked.items.clone())
    };
    let tunnel = but(&asks.destination_port).filter(|_| direction == "inbound").map(|items| Spared {
        direction: "inbound",
        items,
        sentence: Phrase { before: "port ", after: ": the mesh's tunnel", ..Phrase::default() },
    });
    let own = but(&asks.mark).map(|marks| Spared {
        direction: "outbound",
        items: marks.iter().map(|mark| format!("mark {mark}")).collect(),
        sentence: Phrase { before: "the proxy's own connections: ", ..Phrase::default() },
    });
    tunnel.into_iter().chain(own).collect()
}

/// Users and groups, each with its noun.
fn owners(asks: &RuleSummary) -> Vec<String> {
    let named = |noun: &str, asked: &Option<FieldValues>| {
        asked.iter().flat_map(|asked| &asked.items).map(|id| format!("{noun} {id}")).collect::<Vec<_>>()
    };
    [named("user", &asks.uid), named("group", &asks.gid)].concat()
}

/// What live rules say of the proxy of a mesh: the users, the groups or the mark whose traffic they exclude. Where it listens
/// is not asked.
pub fn proxy(view: &View) -> Proxy {
    let claims: Vec<Claim> = recognized(view).iter().filter_map(|meant| claim(view, meant)).collect();
    proxy_of(&claims)
}

/// The same by what was claimed.
pub(super) fn proxy_of(claims: &[Claim]) -> Proxy {
    let own = claims.iter().filter(|claim| claim.meaning == Meaning::ProxyOutbound);
    let items: Vec<&String> = own.flat_map(|claim| &claim.items).collect();
    let spared = claims.iter().flat_map(|claim| &claim.spared).flat_map(|spared| &spared.items);
    Proxy {
        uids: all(items.iter().copied(), "user "),
        gids: all(items.iter().copied(), "group "),
        mark: all::<Mark>(spared, "mark ").first().copied(),
        ..Proxy::default()
    }
}

/// The values behind a noun.
fn all<'a, T: FromStr>(items: impl Iterator<Item = &'a String>, noun: &str) -> Vec<T> {
    items.filter_map(|item| item.strip_prefix(noun)?.parse().ok()).collect()
}
