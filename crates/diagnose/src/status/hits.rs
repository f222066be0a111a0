//! What rules have counted, in groups that mean the same.

use super::parts::{option, shown};
use super::word;
use mesh::Reason;
use mesh::reason::{Effect, Meaning};
use mesh::recognition::{RecognizedRule, Role, captures, returns};
use rules::{ByFamily, Hits};
use serde::Serialize;

/// Rules of one meaning, and what they have counted together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hit {
    /// The mesh whose rules they are, as `--mesh` takes it.
    pub mesh: &'static str,
    /// The name of the rules, as comments and log lines have it.
    #[serde(rename = "rule")]
    pub reason: &'static str,
    /// `captured`, `left_alone`, `dropped`, or `led_on` to other rules.
    pub fate: &'static str,
    /// In words.
    pub text: String,
    pub option: Option<String>,
    pub packets: u64,
    pub bytes: u64,
    /// Packets a second, where somebody watches.
    pub per_second: Option<f64>,
    /// The rules, each.
    pub rules: Vec<Counted>,
}

/// A rule, and what it has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    pub family: &'static str,
    pub table: String,
    pub chain: String,
    /// Its number in the chain, from 1.
    #[serde(rename = "position")]
    pub rule: usize,
    pub text: String,
    pub packets: u64,
    pub bytes: u64,
}

/// All groups, in the order in which their first rules stand; of both families together.
pub(super) fn counted(meant: &ByFamily<Vec<RecognizedRule<'_>>>) -> Vec<Hit> {
    let mut groups: Vec<Hit> = Vec::new();
    for (family, meant) in meant.iter() {
        for meant in meant.iter().filter(|meant| meant.is_reached) {
            let (Some(reason), Some(Hits { packets, bytes })) = (meant.reason, meant.rule.hits) else {
                continue;
            };
            let (fate, text) = meaning(meant, reason);
            let rule = Counted {
                family: word(family),
                table: meant.chain.table.to_string(),
                chain: meant.chain.chain.clone(),
                rule: meant.at.rule + 1,
                text: meant.rule.text.clone().unwrap_or_default(),
                packets,
                bytes,
            };
            let option = meant.setting.map(option);
            let same = |group: &&mut Hit| {
                (group.reason, &group.text, &group.option) == (reason.name(), &text, &option)
            };
            let at = groups.iter_mut().find(same);
            // A rule for packets of both families stands in the views of both.
            let is_shared = |group: &Hit| {
                let place = |rule: &Counted| (rule.table.clone(), rule.chain.clone(), rule.rule);
                rule.table.starts_with("inet ")
                    && group.rules.iter().any(|known| place(known) == place(&rule))
            };
            match at {
                Some(group) if is_shared(group) => {}
                Some(group) => {
                    group.packets += packets;
                    group.bytes += bytes;
                    group.rules.push(rule);
                }
                None => groups.push(Hit {
                    mesh: reason.mesh().name(),
                    reason: reason.name(),
                    fate,
                    text,
                    option,
                    packets,
                    bytes,
                    per_second: None,
                    rules: vec![rule],
                }),
            }
        }
    }
    groups
}

/// What becomes of the packets that a rule counts, and what they are.
fn meaning(meant: &RecognizedRule<'_>, reason: Reason) -> (&'static str, String) {
    let asks = &meant.asks;
    let list = |noun: &str, asked: &Option<mesh::recognition::summary::FieldValues>| match asked {
        Some(asked) if asked.negated => format!("{noun} other than {}", shown(&asked.items)),
        Some(asked) => format!("{noun} {}", shown(&asked.items)),
        None => String::new(),
    };
    let ports = list("port", &asks.destination_port);
    let to = list("to", &asks.destination);
    let owner = match &asks.uid {
        Some(_) => list("user", &asks.uid),
        None => list("group", &asks.gid),
    };
    let interface = match &asks.in_interface {
        Some(_) => list("interface", &asks.in_interface),
        None => list("interface", &asks.out_interface),
    };
    let or = |text: String, all: &str| if text.is_empty() { all.to_owned() } else { text };
    let leads_on = matches!(meant.role, Role::Base(_)) && meant.rule.leads_to.is_some();
    let to_all = asks.destination.as_ref().is_none_or(|asked| asked.negated);
    let tail = |text: String| if text.is_empty() { text } else { format!(", {text}") };
    let text = match reason.meaning() {
        Meaning::InboundPort | Meaning::Outbound | Meaning::Inbound | Meaning::Dns if leads_on => {
            match reason.meaning() {
                Meaning::InboundPort | Meaning::Inbound => "inbound: came by".to_owned(),
                Meaning::Dns => "DNS: came by".to_owned(),
                _ => "outbound: came by".to_owned(),
            }
        }
        Meaning::InboundPort => format!("inbound, {}", or(ports, "all other ports")),
        Meaning::OutboundPort => format!("outbound, {}", or(ports, "all other destinations")),
        Meaning::OutboundNetwork | Meaning::Machine if asks.in_interface.is_some() => {
            format!("outbound, {interface}")
        }
        Meaning::OutboundNetwork | Meaning::Machine if to_all => {
            "outbound, all other destinations".to_owned()
        }
        Meaning::OutboundNetwork | Meaning::Machine => format!("outbound, {to}"),
        Meaning::ProxyCallsOwnPod => format!("the proxy's calls to its own pod, {owner}"),
        Meaning::Dns if meant.rule.leads_to.is_some() => "outbound, to the rules for DNS".to_owned(),
        Meaning::Dns if captures(meant.rule) => {
            let to = if to_all { "to every server".to_owned() } else { to };
            format!("DNS queries {to}")
        }
        Meaning::MachineDns => format!("DNS queries, {interface}"),
        Meaning::Dns | Meaning::DnsZone => "DNS, kept apart for conntrack".to_owned(),
        Meaning::ToOutboundListener => "connections handed to the proxy, outbound".to_owned(),
        Meaning::ToInboundListener => "connections handed to the proxy, inbound".to_owned(),
        Meaning::Dropped => "packets that belong to no connection".to_owned(),
        Meaning::KnownConnection => "packets of connections that were handed over before".to_owned(),
        Meaning::Outbound => "outbound".to_owned(),
        Meaning::Inbound => "inbound".to_owned(),
        Meaning::Log => "told to the kernel's log".to_owned(),
        Meaning::ApplicationLoopback => "the application's calls to its own pod".to_owned(),
        Meaning::ExcludedOwner | Meaning::OtherOwners => {
            format!("outbound, {}{}", or(owner, "every group"), tail(ports))
        }
        Meaning::ExcludedInboundPort => format!("inbound, {ports}"),
        Meaning::ExcludedInterface | Meaning::MachineInterface => interface,
        Meaning::ExcludedDestination => format!("outbound, {to}"),
        Meaning::ExcludedSource if asks.source.is_some() => {
            format!("inbound, {}", list("from", &asks.source))
        }
        Meaning::ExcludedSource => format!("outbound, {to}"),
        Meaning::ExcludedOutboundPort => format!("outbound, {ports}"),
        Meaning::ExcludedDns => "DNS queries over TCP, but for the proxy's".to_owned(),
        Meaning::InboundOff => "inbound, all of it".to_owned(),
        Meaning::OutboundOff => "outbound, all of it".to_owned(),
        Meaning::Loopback => "outbound, to loopback".to_owned(),
        Meaning::ProxyOutbound if asks.udp => format!("the proxy's own DNS queries, {owner}"),
        Meaning::ProxyOutbound => format!("the proxy's own calls, {owner}"),
        Meaning::ProxyToApplication if returns(meant.rule) => {
            "what the proxy hands to the application".to_owned()
        }
        Meaning::ProxyToApplication => "what the proxy hands to the application, and the answers".to_owned(),
        Meaning::TunnelPort => format!("inbound, {ports}: the tunnel"),
    };
    let effect = match reason.meaning() {
        Meaning::InboundPort if leads_on => Effect::LedOn,
        Meaning::Dns if meant.rule.leads_to.is_some() || !captures(meant.rule) => Effect::LedOn,
        Meaning::ProxyToApplication if !returns(meant.rule) => Effect::LedOn,
        meaning => meaning.effect().0,
    };
    (effect.word(), text)
}
