//! An explanation for programs.

use super::{Explanation, Limited, PacketCase, PacketQuery};
use crate::basis::{Basis, BasisReport};
use rules::render::listed;
use rules::simulate::{At, Direction, Matched, Verdict};
use rules::{Origin, PortRange};
use serde::Serialize;
use std::net::IpAddr;

/// The answer as programs read it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketReport<'a> {
    /// The rules on which the answer is based.
    basis: BasisReport,
    /// The source; null for an unknown address.
    source: Option<IpAddr>,
    /// The destination; null for an unknown address of the pod.
    destination: Option<IpAddr>,
    destination_port: u16,
    /// The inbound interface; null for outbound packets, or if unknown.
    in_interface: Option<&'a str>,
    /// The outbound interface; null for inbound packets, or if unknown.
    out_interface: Option<&'a str>,
    /// The user that sends it; null for inbound packets, or if the manifest sets none.
    uid: Option<u32>,
    /// Why no such packet can exist, whatever the rules; null if it can, or if unknown.
    unsent: Option<&'a str>,
    #[serde(flatten)]
    explained: ExplanationReport,
}

impl<'a> PacketReport<'a> {
    pub fn new(
        basis: &Basis,
        question: &'a PacketQuery,
        unsent: Option<&'a str>,
        explained: ExplanationReport,
    ) -> Self {
        let PacketQuery { packet, endpoint_names, .. } = question;
        let (source, destination) = endpoint_names.addresses(packet);
        let interface = endpoint_names.interface(packet);
        let (in_interface, out_interface) = match &packet.direction {
            Direction::Inbound { .. } => (interface, None),
            Direction::Outbound { .. } => (None, interface),
        };
        Self {
            basis: basis.report(),
            source,
            destination,
            destination_port: packet.destination.port(),
            in_interface,
            out_interface,
            uid: endpoint_names.user(packet),
            unsent,
            explained,
        }
    }
}

/// What becomes of a packet.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplanationReport {
    /// `redirect`, `tproxy`, `pass`, `drop` or `unknown`; `depends` if packets of the question end in several ways.
    pub verdict: &'static str,
    /// The ways in which they end; absent where all end alike. The rest is about the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<PacketCase>,
    /// The listener's port, the first of a range; null without a listener.
    pub port: Option<u16>,
    /// The last port, if a range of listeners shares the traffic.
    pub last_port: Option<u16>,
    /// The rule that decided.
    pub decided_by: Option<DecidedBy>,
    /// Effects of the rules that users may not expect; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limited>,
    /// All rules that the packet meets, in order.
    pub trace: Vec<TraceEntry>,
}

/// The rule that decided.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecidedBy {
    /// The table of the rule.
    pub table: String,
    /// The chain of the rule.
    pub chain: String,
    /// Its number in the chain, from 1; null for the chain's policy.
    pub position: Option<usize>,
    /// The short name; null if unknown.
    pub rule: Option<String>,
    /// The text of the rule.
    pub text: String,
    /// The option that made the rule; empty for unconditional rules, null if unknown.
    pub option: Option<String>,
    /// The reason in words.
    pub reason: String,
}

/// A rule that the packet meets.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceEntry {
    /// The table of the rule.
    pub table: String,
    /// The chain of the rule.
    pub chain: String,
    /// Its number in the chain, from 1.
    pub position: usize,
    /// The short name; null if unknown.
    pub rule: Option<String>,
    /// The text of the rule.
    pub text: String,
    /// Whether the packet matches; null if unknown.
    pub matched: Option<bool>,
    /// The option that made the rule; empty for unconditional rules, null if unknown.
    pub option: Option<String>,
}

/// A verdict's name for programs, and the listeners' ports.
pub fn verdict_name(verdict: Verdict) -> (&'static str, Option<PortRange>) {
    match verdict {
        Verdict::Pass => ("pass", None),
        Verdict::Redirect(ports) => ("redirect", Some(ports)),
        Verdict::Tproxy(port) => ("tproxy", Some(port.into())),
        Verdict::Drop => ("drop", None),
        Verdict::Unknown => ("unknown", None),
    }
}

impl Explanation<'_> {
    /// The name of the verdict of the packet alone, with the first and, of several, the last port of the listeners.
    pub(crate) fn verdict_and_ports(&self) -> (&'static str, Option<u16>, Option<u16>) {
        let (verdict, ports) = verdict_name(self.outcome.verdict);
        let last = ports.filter(|ports| !ports.is_single()).map(|ports| ports.last().number());
        (verdict, ports.map(|ports| ports.first().number()), last)
    }

    /// The explanation as data.
    pub fn report(&self) -> ExplanationReport {
        let (verdict, port, last_port) = self.verdict_and_ports();
        ExplanationReport {
            verdict: if self.cases.is_empty() { verdict } else { "depends" },
            cases: self.cases.clone(),
            port,
            last_port,
            decided_by: self.outcome.decided_by.map(|at| self.decided_by(at)),
            limits: self.limits(),
            trace: self.trace.0.iter().filter_map(|step| self.entry(step.at, step.matched)).collect(),
        }
    }

    fn option(&self, origin: Origin) -> String {
        if origin.option.is_empty() { String::new() } else { self.option_text(origin) }
    }

    fn decided_by(&self, at: At) -> DecidedBy {
        let chain = &self.view.chains()[at.chain];
        let rule = self.view.rule(at);
        DecidedBy {
            table: chain.table.to_string(),
            chain: chain.chain.clone(),
            position: rule.map(|_| at.rule + 1),
            rule: rule.and_then(|rule| rule.origin).map(|origin| origin.name.to_owned()),
            text: self.rule_text(at),
            option: rule.and_then(|rule| rule.origin).map(|origin| self.option(origin)),
            reason: self.reason(),
        }
    }

    fn entry(&self, at: At, met: Matched) -> Option<TraceEntry> {
        let chain = &self.view.chains()[at.chain];
        let rule = self.view.rule(at)?;
        Some(TraceEntry {
            table: chain.table.to_string(),
            chain: chain.chain.clone(),
            position: at.rule + 1,
            rule: rule.origin.map(|origin| origin.name.to_owned()),
            text: listed::rule(rule).into_owned(),
            matched: match met {
                Matched::Yes => Some(true),
                Matched::No(_) => Some(false),
                Matched::Unknown(_) => None,
            },
            option: rule.origin.map(|origin| self.option(origin)),
        })
    }
}
