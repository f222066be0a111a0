//! The explanation: a packet, the rules it met, and its verdict, before they are put into words.

use super::question::EndpointNames;
use super::report::{PacketCase, VerdictKind};
use mesh::sources::Dialect;
use mesh::visible;
use rules::simulate::{At, Matched, Outcome, Packet, Routing, Trace, View, walk};

#[derive(Debug)]
pub struct Explanation<'a> {
    pub(super) view: &'a View,
    pub(super) packet: &'a Packet,
    pub(super) outcome: Outcome,
    pub(super) trace: Trace,
    pub(super) dialect: Dialect,
    /// The reason where nothing is captured at all.
    pub(super) nothing: Option<String>,
    /// A further clause of the reason where the rules may have no effect; else empty.
    pub(super) doubt: String,
    pub(super) endpoint_names: EndpointNames,
    /// The packets that the question may be about, where they end in several ways; else empty.
    pub(super) cases: Vec<PacketCase>,
}

/// Walks the packet and remembers everything.
pub fn explain<'a>(view: &'a View, routing: &Routing, packet: &'a Packet) -> Explanation<'a> {
    let mut trace = Trace::default();
    let outcome = walk(view, routing, packet, &mut trace);
    Explanation::of_walk(view, packet, outcome, trace)
}

impl Explanation<'_> {
    /// Names settings as the author of the configuration names them.
    pub fn in_words_of(self, dialect: &Dialect) -> Self {
        Self { dialect: dialect.clone(), ..self }
    }

    /// States why nothing of the pod is captured at all.
    pub fn of_skipped(self, reason: Option<&impl std::fmt::Display>) -> Self {
        let nothing = reason.map(|reason| format!("nothing of the pod is captured: {reason}"));
        Self { nothing: nothing.or(self.nothing), ..self }
    }

    /// States why the rules that capture the packet may have no effect, where that is so.
    pub fn in_doubt(self, why: Option<&str>) -> Self {
        match why.filter(|_| self.is_captured() == Some(true)) {
            Some(why) => Self { doubt: format!("; not sure: {}", visible(why)), ..self },
            None => self,
        }
    }

    /// States that there are no rules, where that is so.
    pub fn of_empty(self, is_empty: bool) -> Self {
        let nothing = is_empty.then(|| "there are no rules here".to_owned());
        Self { nothing: nothing.or(self.nothing), ..self }
    }

    pub fn with_endpoint_names(self, endpoint_names: &EndpointNames) -> Self {
        Self { endpoint_names: endpoint_names.clone(), ..self }
    }

    /// A walk that the kernel has traced.
    pub(crate) fn of_walk<'a>(
        view: &'a View,
        packet: &'a Packet,
        outcome: Outcome,
        trace: Trace,
    ) -> Explanation<'a> {
        let (dialect, endpoint_names) = (Dialect::default(), EndpointNames::default());
        Explanation {
            view,
            packet,
            outcome,
            trace,
            dialect,
            nothing: None,
            doubt: String::new(),
            endpoint_names,
            cases: Vec::new(),
        }
    }

    /// True if a listener gets the packet; `None` if it is dropped, or its verdict is unknown or in doubt, or if that
    /// depends on what the question leaves open.
    pub fn is_captured(&self) -> Option<bool> {
        let own = VerdictKind::of(self.outcome.verdict).0.is_captured();
        let is_same = |case: &PacketCase| case.end.verdict.is_captured() == own;
        own.filter(|captured| (!captured || self.doubt.is_empty()) && self.cases.iter().all(is_same))
    }

    pub fn packet(&self) -> &Packet {
        self.packet
    }

    /// The verdict and its reason in one sentence, without a full stop.
    pub fn sentence(&self) -> String {
        self.report().sentence()
    }

    /// The rules that match, or may.
    pub fn rules_met(&self) -> impl Iterator<Item = At> {
        self.trace.0.iter().filter(|step| !matches!(step.matched, Matched::No(_))).map(|step| step.at)
    }

    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}
