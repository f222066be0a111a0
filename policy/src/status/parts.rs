//! What becomes of traffic, part by part, as the rules say: captured, left alone, dropped.

use super::reading::{Meant, Role};
use super::{Seen, word};
use crate::istio::Reason;
use crate::settings::Setting;
use rules::simulate::View;
use rules::{Action, ByFamily, Family, PortRange, Target};
use serde::Serialize;

/// A part of the traffic, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// `outbound`, `inbound`, `dns`, or `both` ways.
    pub direction: &'static str,
    /// The sentence; of a long list, its first items.
    pub text: String,
    /// All items of the list that it is about: ports, networks, users.
    pub items: Vec<String>,
    /// The option that says so, where one does.
    pub option: Option<String>,
    /// The name of the rules, as comments and log lines have it; `None` of what no rule is about.
    #[serde(rename = "rule")]
    pub reason: Option<&'static str>,
    /// The port of the listener that gets it, the first of a range.
    pub port: Option<u16>,
    /// The last port of a range.
    pub last_port: Option<u16>,
    /// Whether it gets the packets as they were sent (TPROXY), and not redirected (REDIRECT).
    #[serde(rename = "transparent")]
    pub is_transparent: Option<bool>,
    pub families: Vec<&'static str>,
    #[serde(skip)]
    sentence: Sentence,
}

/// A sentence around a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sentence {
    before: &'static str,
    /// Instead of the list, where there is none.
    all: &'static str,
    after: &'static str,
}

/// How many items of a list a sentence shows.
const SHOWN: usize = 6;

impl Part {
    pub(super) fn is_of(&self, family: Family) -> bool {
        self.families.contains(&word(family))
    }
}

/// All parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) captured: Vec<Part>,
    pub(super) left_alone: Vec<Part>,
    pub(super) dropped: Vec<Part>,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Captured,
    Passing,
    Dropped,
}

/// A rule that says what becomes of a part of the traffic.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) fate: Fate,
    pub(super) direction: &'static str,
    pub(super) reason: Reason,
    pub(super) setting: Option<Setting>,
    pub(super) items: Vec<String>,
    /// Where captured packets go, and whether unchanged.
    pub(super) listener: Option<Listener>,
    sentence: Sentence,
}

/// Where captured packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listener {
    pub(super) ports: PortRange,
    pub(super) is_transparent: bool,
}

/// The listener that a rule sends packets to, itself or by the chain that it leads to.
pub(super) fn listener(view: &View, meant: &Meant<'_>) -> Option<Listener> {
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

/// What a rule says becomes of which traffic; `None` of rules that only lead on.
pub(super) fn claim(view: &View, meant: &Meant<'_>) -> Option<Claim> {
    let reason = meant.reason.filter(|_| meant.is_reached)?;
    let asks = &meant.asks;
    let items = |asked: &Option<super::asks::Asked>| asked.as_ref().map(|asked| asked.items.clone());
    let listener = listener(view, meant);
    let (fate, direction, sentence, found) = match reason {
        Reason::OutboundNetwork if asks.in_interface.is_some() && listener.is_some() => {
            let sentence = ("what virtual machines send by ", "", "goes to the proxy");
            (Fate::Captured, "outbound", sentence, items(&asks.in_interface))
        }
        Reason::OutboundNetwork if listener.is_some() => {
            let sentence = ("TCP to ", "TCP to all other destinations", "goes to the proxy");
            (Fate::Captured, "outbound", sentence, items(&asks.destination))
        }
        Reason::OutboundPort if listener.is_some() => {
            let sentence = ("TCP to port ", "", "goes to the proxy");
            (Fate::Captured, "outbound", sentence, items(&asks.destination_port))
        }
        // A connection that is known is no new part of the traffic.
        Reason::InboundPort if meant.role == Role::Inbound && !asks.more && listener.is_some() => {
            let sentence = ("TCP to port ", "TCP to all other ports", "goes to the proxy");
            (Fate::Captured, "inbound", sentence, items(&asks.destination_port))
        }
        Reason::Dns if meant.role == Role::Dns && listener.is_some() => {
            let sentence = ("DNS queries to ", "DNS queries to every server", "go to the agent");
            (Fate::Captured, "dns", sentence, items(&asks.destination))
        }
        Reason::ProxyCallsOwnPod if listener.is_some() => {
            let sentence = ("calls of the proxy (", "", ") to its own pod come in through the proxy");
            (Fate::Captured, "inbound", sentence, owner(meant))
        }
        Reason::ExcludedOutboundPort => {
            (Fate::Passing, "outbound", ("port ", "", ""), items(&asks.destination_port))
        }
        Reason::ExcludedNetwork => (Fate::Passing, "outbound", ("to ", "", ""), items(&asks.destination)),
        Reason::ProxyOutbound => {
            (Fate::Passing, "outbound", ("the proxy's own connections: ", "", ""), owner(meant))
        }
        Reason::ExcludedGroup => (Fate::Passing, "outbound", ("", "", ""), owner(meant)),
        Reason::OtherGroups => {
            (Fate::Passing, "outbound", ("every group but ", "every group", ""), owner(meant))
        }
        Reason::Loopback => {
            (Fate::Passing, "outbound", ("loopback, ", "loopback", ""), items(&asks.destination))
        }
        Reason::ApplicationLoopback if !asks.more => {
            (Fate::Passing, "outbound", ("", "calls of the application to its own pod", ""), None)
        }
        Reason::ProxyToApplication => {
            (Fate::Passing, "inbound", ("", "what the proxy hands to the application", ""), None)
        }
        Reason::ExcludedInboundPort => {
            (Fate::Passing, "inbound", ("port ", "", ""), items(&asks.destination_port))
        }
        Reason::TunnelPort => {
            (Fate::Passing, "inbound", ("port ", "", ": the mesh's tunnel"), items(&asks.destination_port))
        }
        Reason::ExcludedInterface => {
            let names = items(&asks.in_interface).or_else(|| items(&asks.out_interface));
            (Fate::Passing, "both", ("interface ", "", ""), names)
        }
        Reason::VmInterface => {
            let sentence = ("", "", ": a virtual machine's, which inbound rules leave alone");
            (Fate::Passing, "inbound", sentence, items(&asks.in_interface))
        }
        Reason::DropInvalid if matches!(meant.role, Role::Base(_)) => {
            (Fate::Dropped, "inbound", ("", "packets that belong to no connection", ""), None)
        }
        _ => return None,
    };
    let (before, all, after) = sentence;
    let sentence = Sentence { before, all, after };
    let listener = listener.filter(|_| fate == Fate::Captured);
    let items = found.unwrap_or_default();
    Some(Claim { fate, direction, reason, setting: meant.setting, items, listener, sentence })
}

/// Users and groups, each with what it is.
fn owner(meant: &Meant<'_>) -> Option<Vec<String>> {
    let named = |noun: &str, asked: &Option<super::asks::Asked>| {
        asked.iter().flat_map(|asked| &asked.items).map(|id| format!("{noun} {id}")).collect::<Vec<_>>()
    };
    Some([named("user", &meant.asks.uid), named("group", &meant.asks.gid)].concat())
}

/// The parts that the rules of both families make, and what none of them is about.
pub(super) fn told(seen: &Seen<'_>, meant: &ByFamily<Vec<Meant<'_>>>) -> Told {
    let mut told = Told::default();
    for (family, meant) in meant.iter() {
        let view = seen.views.get(family);
        let claims: Vec<Claim> = meant.iter().filter_map(|meant| claim(view, meant)).collect();
        let captured: Vec<&Claim> = claims.iter().filter(|claim| claim.fate == Fate::Captured).collect();
        if captured.is_empty() {
            continue;
        }
        for rest in rests(&captured) {
            add(&mut told.left_alone, family, None, rest);
        }
        for claim in &claims {
            let list = match claim.fate {
                Fate::Captured => &mut told.captured,
                Fate::Passing => &mut told.left_alone,
                Fate::Dropped => &mut told.dropped,
            };
            add(list, family, Some(claim), (claim.direction, claim.sentence));
        }
    }
    for list in [&mut told.captured, &mut told.left_alone, &mut told.dropped] {
        list.iter_mut().for_each(|part| part.text = sentence(part));
        // Stable: within a direction in the order of the rules, and what no rule is about last.
        list.sort_by_key(|part| (place(part.direction), part.reason.is_none()));
    }
    told
}

fn place(direction: &str) -> usize {
    ["outbound", "inbound", "dns", "both"].iter().position(|known| *known == direction).unwrap_or(usize::MAX)
}

/// What no rule is about.
fn rests(captured: &[&Claim]) -> Vec<(&'static str, Sentence)> {
    let of = |reason: Reason| captured.iter().filter(move |claim| claim.reason == reason);
    let whole = |reason: Reason| of(reason).any(|claim| claim.items.is_empty());
    let any_dns = of(Reason::Dns).next().is_some();
    let rest = |direction, all| (direction, Sentence { all, ..Sentence::default() });
    let outbound = if whole(Reason::OutboundNetwork) {
        if any_dns { "all but TCP and DNS" } else { "all but TCP: UDP and DNS, too" }
    } else if of(Reason::OutboundNetwork).next().is_some() || of(Reason::OutboundPort).next().is_some() {
        "everything else"
    } else {
        "everything: nothing captures what the pod sends"
    };
    let mut rests = vec![rest("outbound", outbound)];
    if !whole(Reason::InboundPort) {
        let any = of(Reason::InboundPort).next().is_some();
        let all = if any { "all other ports" } else { "everything: nothing captures what comes in" };
        rests.push(rest("inbound", all));
    } else {
        rests.push(rest("inbound", "all but TCP"));
    }
    rests
}

/// Adds a claim to the part that says the same, of whatever family.
fn add(list: &mut Vec<Part>, family: Family, claim: Option<&Claim>, said: (&'static str, Sentence)) {
    let (direction, sentence) = said;
    let option = claim.and_then(|claim| claim.setting).map(option);
    let reason = claim.map(|claim| claim.reason.name());
    let listener = claim.and_then(|claim| claim.listener);
    let port = listener.map(|listener| listener.ports.first().number());
    let last_port =
        listener.map(|listener| listener.ports.last().number()).filter(|last| Some(*last) != port);
    let is_transparent = listener.map(|listener| listener.is_transparent);
    let items = claim.map(|claim| claim.items.clone()).unwrap_or_default();
    // What is said of the proxy's users and groups is one thing, whichever of two options said it.
    let is_shared = claim.is_some_and(|claim| claim.reason.settings().len() > 1);
    let same = |part: &&mut Part| {
        let is_same = (part.sentence, &part.reason) == (sentence, &reason);
        let goes_there =
            (part.port, part.last_port, part.is_transparent) == (port, last_port, is_transparent);
        let joins = part.items.is_empty() == items.is_empty() && (is_shared || part.option == option);
        is_same && goes_there && joins
    };
    if let Some(part) = list.iter_mut().find(same) {
        for item in items {
            if !part.items.contains(&item) {
                part.items.push(item);
            }
        }
        if !part.is_of(family) {
            part.families.push(word(family));
        }
        let known = part.option.get_or_insert_default();
        match option {
            Some(more) if !known.split(", ").any(|one| one == more) => {
                let comma = if known.is_empty() { "" } else { ", " };
                known.push_str(&format!("{comma}{more}"));
            }
            _ => {}
        }
        part.option.take_if(|known| known.is_empty());
        return;
    }
    let families = vec![word(family)];
    list.push(Part {
        direction,
        text: String::new(),
        items,
        option,
        reason,
        port,
        last_port,
        is_transparent,
        families,
        sentence,
    });
}

/// The option as people write it: its letter, or else its name.
pub(super) fn option(setting: Setting) -> String {
    let row = setting.row();
    row.short.map_or_else(|| row.option(), |letter| format!("-{letter}"))
}

fn sentence(part: &Part) -> String {
    let Sentence { before, all, after } = part.sentence;
    let subject = match part.items.as_slice() {
        [] => all.to_owned(),
        items if items.len() > 1 => format!("{}{}", before.replace("port ", "ports "), shown(items)),
        items => format!("{before}{}", shown(items)),
    };
    let mut text = match after {
        "" => subject,
        after if after.starts_with([':', ')']) => format!("{subject}{after}"),
        after => format!("{subject} {after}"),
    };
    if let Some(port) = part.port {
        let last = part.last_port.map(|last| format!("-{last}")).unwrap_or_default();
        text.push_str(&format!(" at port {port}{last}"));
    }
    if part.is_transparent == Some(true) {
        text.push_str(", as it is");
    }
    text
}

/// The first items of a list, and how many more there are.
pub(super) fn shown(items: &[String]) -> String {
    match items.len().checked_sub(SHOWN) {
        None | Some(0) => items.join(", "),
        Some(more) => format!("{} and {more} more", items[..SHOWN].join(", ")),
    }
}
