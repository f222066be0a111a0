//! Rules as claims: which traffic a rule speaks of, and what it says becomes of it.

use super::parts::Sentence;
use mesh::Reason;
use mesh::reason::{Effect, Meaning};
use mesh::recognition::summary::{FieldValues, RuleSummary};
use mesh::recognition::{RecognizedRule, Role, captures, returns};
use mesh::settings::Setting;
use rules::simulate::View;
use rules::{Action, PortRange, Target};

/// A rule that says what becomes of a part of the traffic.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// What becomes of it.
    pub(super) effect: Effect,
    pub(super) direction: &'static str,
    pub(super) reason: Reason,
    pub(super) setting: Option<Setting>,
    pub(super) items: Vec<String>,
    /// Where captured packets go, and whether unchanged.
    pub(super) listener: Option<Listener>,
    /// What the rule leaves alone in the same breath.
    pub(super) spared: Vec<Spared>,
    pub(super) sentence: Sentence,
}

/// What a rule that captures leaves alone.
#[derive(Clone, Debug)]
pub(super) struct Spared {
    pub(super) direction: &'static str,
    pub(super) items: Vec<String>,
    pub(super) sentence: Sentence,
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

/// What a rule says becomes of which traffic; `None` of rules that only lead on.
pub(super) fn claim(view: &View, meant: &RecognizedRule<'_>) -> Option<Claim> {
    let reason = meant.reason.filter(|_| meant.is_reached)?;
    let asks = &meant.asks;
    let items = |asked: &Option<FieldValues>| asked.as_ref().map(|asked| asked.items.clone());
    let listener = listener(view, meant);
    let (effect, direction) = reason.meaning().effect();
    let direction = match reason.meaning() {
        Meaning::ExcludedSource if asks.source.is_none() => "outbound",
        Meaning::ProxyOutbound if asks.udp => "dns",
        _ => direction,
    };
    let (sentence, found) = match reason.meaning() {
        // What only leads on says nothing of its own.
        Meaning::OutboundNetwork | Meaning::OutboundPort | Meaning::Machine if listener.is_none() => {
            return None;
        }
        Meaning::Machine | Meaning::OutboundNetwork if asks.in_interface.is_some() => {
            let sentence = ("what virtual machines send by ", "", "goes to the proxy");
            (sentence, items(&asks.in_interface))
        }
        Meaning::OutboundNetwork => {
            let sentence = ("TCP to ", "TCP to all other destinations", "goes to the proxy");
            // Of who is loopback anyway nothing is said.
            let destination = asks.destination.as_ref().filter(|asked| !asked.negated);
            (sentence, destination.map(|asked| asked.items.clone()))
        }
        Meaning::OutboundPort => {
            let sentence = ("TCP to port ", "TCP to all other destinations", "goes to the proxy");
            (sentence, items(&asks.destination_port))
        }
        Meaning::InboundPort if !matches!(meant.role, Role::Base(_)) && listener.is_some() => {
            let sentence = ("TCP to port ", "TCP to all other ports", "goes to the proxy");
            let ports = asks.destination_port.as_ref().filter(|asked| !asked.negated);
            (sentence, ports.map(|asked| asked.items.clone()))
        }
        Meaning::Dns if captures(meant.rule) => {
            let sentence = ("DNS queries to ", "DNS queries to every server", "go to");
            let servers = asks.destination.as_ref().filter(|asked| !asked.negated);
            (sentence, servers.map(|asked| asked.items.clone()))
        }
        Meaning::MachineDns if captures(meant.rule) => {
            let sentence = ("DNS queries of virtual machines by ", "", "go to");
            (sentence, items(&asks.in_interface))
        }
        Meaning::ProxyCallsOwnPod if listener.is_some() => {
            let sentence = ("calls of the proxy (", "", ") to its own pod come in through the proxy");
            (sentence, owner(meant))
        }
        Meaning::ExcludedOutboundPort => (("port ", "", ""), items(&asks.destination_port)),
        Meaning::ExcludedDestination => (("to ", "", ""), items(&asks.destination)),
        Meaning::ExcludedSource => match &asks.source {
            None => (("to ", "", ""), items(&asks.destination)),
            from => (("from ", "", ""), items(from)),
        },
        Meaning::ProxyOutbound if asks.udp => (("the proxy's own queries: ", "", ""), owner(meant)),
        Meaning::ProxyOutbound => (("the proxy's own connections: ", "", ""), owner(meant)),
        Meaning::ExcludedOwner => {
            let ports = items(&asks.destination_port).map(|ports| format!(": port {}", ports.join(",")));
            let ports = ports.unwrap_or_default();
            let owners = owner(meant).into_iter().flatten().map(|owner| format!("{owner}{ports}"));
            (("", "", ""), Some(owners.collect()))
        }
        Meaning::OtherOwners => (("every group but ", "every group", ""), owner(meant)),
        Meaning::Loopback => (("loopback, ", "loopback", ""), items(&asks.destination)),
        Meaning::ApplicationLoopback if !asks.more => {
            (("", "calls of the application to its own pod", ""), None)
        }
        Meaning::ProxyToApplication if returns(meant.rule) => {
            (("", "what the proxy hands to the application", ""), None)
        }
        Meaning::ExcludedDns => (("", "DNS queries over TCP, but for the proxy's", ""), None),
        Meaning::ExcludedInboundPort => (("port ", "", ""), items(&asks.destination_port)),
        Meaning::TunnelPort => (("port ", "", ": the mesh's tunnel"), items(&asks.destination_port)),
        Meaning::ExcludedInterface => {
            let names = items(&asks.in_interface).or_else(|| items(&asks.out_interface));
            (("interface ", "", ""), names)
        }
        Meaning::MachineInterface => {
            let sentence = ("", "", ": a virtual machine's, which inbound rules leave alone");
            (sentence, items(&asks.in_interface))
        }
        Meaning::Dropped if matches!(meant.role, Role::Base(_)) => {
            (("", "packets that belong to no connection", ""), None)
        }
        // Nothing is captured then, which what no rule is about says.
        Meaning::InboundOff | Meaning::OutboundOff => return None,
        Meaning::InboundPort
        | Meaning::Dns
        | Meaning::MachineDns
        | Meaning::ProxyCallsOwnPod
        | Meaning::Machine
        | Meaning::ToOutboundListener
        | Meaning::ToInboundListener
        | Meaning::ProxyToApplication
        | Meaning::ApplicationLoopback
        | Meaning::Outbound
        | Meaning::Inbound
        | Meaning::KnownConnection
        | Meaning::DnsZone
        | Meaning::Dropped
        | Meaning::Log => return None,
    };
    let (before, all, after) = sentence;
    let whom = if after == "go to" { reason.mesh().reasons().resolver() } else { "" };
    let sentence = Sentence { before, all, after, whom };
    let listener = listener.filter(|_| effect == Effect::Captured);
    let spared = if effect == Effect::Captured { spared(direction, asks) } else { Vec::new() };
    let items = found.unwrap_or_default();
    Some(Claim { effect, direction, reason, setting: meant.setting, items, listener, spared, sentence })
}

/// What a rule that captures leaves alone by its own words.
fn spared(direction: &'static str, asks: &RuleSummary) -> Vec<Spared> {
    let but = |asked: &Option<FieldValues>| {
        asked.as_ref().filter(|asked| asked.negated).map(|asked| asked.items.clone())
    };
    let tunnel = but(&asks.destination_port).filter(|_| direction == "inbound").map(|items| Spared {
        direction: "inbound",
        items,
        sentence: Sentence { before: "port ", after: ": the mesh's tunnel", ..Sentence::default() },
    });
    let own = but(&asks.mark).map(|marks| Spared {
        direction: "outbound",
        items: marks.iter().map(|mark| format!("mark {mark}")).collect(),
        sentence: Sentence { before: "the proxy's own connections: ", ..Sentence::default() },
    });
    tunnel.into_iter().chain(own).collect()
}

/// Users and groups, each with what it is.
fn owner(meant: &RecognizedRule<'_>) -> Option<Vec<String>> {
    let named = |noun: &str, asked: &Option<FieldValues>| {
        asked.iter().flat_map(|asked| &asked.items).map(|id| format!("{noun} {id}")).collect::<Vec<_>>()
    };
    Some([named("user", &meant.asks.uid), named("group", &meant.asks.gid)].concat())
}
