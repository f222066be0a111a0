//! Explanation of a packet: the rules that it met, its verdict, and the report.

use super::question::EndpointNames;
use super::report::{PacketCase, VerdictKind};
use super::{ExplainedRule, ExplanationReport, PacketEnd, PacketQuery, RuleView, TraceEntry, because};
use crate::groups::{PacketGroup, group_end, joined, widened};
use crate::{packets::Packets, pod_packets::PodPackets};
use mesh::{sources::Dialect, visible};
use rules::simulate::{
    At, Atlas, Direction, Matched, Outcome, Packet, PacketSet, Routing, Step, Verdict, View, Work, trace,
};
use rules::{nft::Field, render};

#[derive(Debug)]
pub struct Explanation<'a> {
    pub(super) view: &'a View,
    pub(super) packet: &'a Packet,
    pub(super) outcome: Outcome,
    pub(super) steps: Vec<Step>,
    pub(super) dialect: Dialect,
    /// Reason why nothing is captured at all.
    pub(super) nothing: Option<String>,
    /// Further clause of the reason if the rules may have no effect; else empty.
    pub(super) doubt: String,
    pub(super) endpoint_names: EndpointNames,
    /// Packets that the question may concern, if their verdicts differ; else empty.
    pub(super) cases: Vec<PacketCase>,
}

pub fn explain<'a>(view: &'a View, routing: &Routing, packet: &'a Packet) -> Explanation<'a> {
    let (outcome, steps) = trace(view, routing, packet);
    Explanation::of_walk(view, packet, outcome, steps)
}

impl Explanation<'_> {
    pub fn in_words_of(self, dialect: &Dialect) -> Self {
        Self { dialect: dialect.clone(), ..self }
    }

    pub fn of_skipped(self, reason: Option<&impl std::fmt::Display>) -> Self {
        let nothing = reason.map(|reason| format!("nothing of the pod is captured: {reason}"));
        Self { nothing: nothing.or(self.nothing), ..self }
    }

    pub fn in_doubt(self, why: Option<&str>) -> Self {
        match why.filter(|_| self.is_captured() == Some(true)) {
            Some(why) => Self { doubt: format!("; uncertain: {}", visible(why)), ..self },
            None => self,
        }
    }

    pub fn of_empty(self, is_empty: bool) -> Self {
        let nothing = is_empty.then(|| "no rules exist here".to_owned());
        Self { nothing: nothing.or(self.nothing), ..self }
    }

    pub fn with_endpoint_names(self, endpoint_names: &EndpointNames) -> Self {
        Self { endpoint_names: endpoint_names.clone(), ..self }
    }

    pub(crate) fn of_walk<'a>(
        view: &'a View,
        packet: &'a Packet,
        outcome: Outcome,
        steps: Vec<Step>,
    ) -> Explanation<'a> {
        Explanation {
            view,
            packet,
            outcome,
            steps,
            dialect: Dialect::default(),
            nothing: None,
            doubt: String::new(),
            endpoint_names: EndpointNames::default(),
            cases: Vec::new(),
        }
    }

    /// True if a listener gets the packet; `None` if its verdict is dropped, unknown, in doubt or dependent on open properties.
    pub fn is_captured(&self) -> Option<bool> {
        let own = VerdictKind::of(self.outcome.verdict).0.is_captured();
        let is_same = |case: &PacketCase| case.end.verdict.is_captured() == own;
        own.filter(|captured| (!captured || self.doubt.is_empty()) && self.cases.iter().all(is_same))
    }

    pub fn packet(&self) -> &Packet {
        self.packet
    }

    pub fn sentence(&self) -> String {
        self.report().sentence()
    }

    pub fn rules_met(&self) -> impl Iterator<Item = At> {
        self.steps.iter().filter(|step| !matches!(step.matched, Matched::No(_))).map(|step| step.at)
    }

    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Outcome of the shown packet, regardless of the question's other packets.
    pub fn end(&self) -> PacketEnd {
        let (verdict, ports) = VerdictKind::of(self.outcome.verdict);
        let (port, last_port) = VerdictKind::bounds(ports);
        PacketEnd {
            verdict,
            transparent: ports.map(|_| matches!(self.outcome.verdict, Verdict::Tproxy(_))),
            port,
            last_port,
            translated: self.outcome.translated.map(|to| to.to_string()),
            summary: self.summary(),
            reason: self.reason(),
        }
    }

    pub fn report(&self) -> ExplanationReport {
        let end = self.end();
        let verdict = if self.cases.is_empty() { end.verdict } else { VerdictKind::Depends };
        ExplanationReport {
            end: PacketEnd { verdict, ..end },
            depends_on: self.depends_on(),
            cases: self.cases.clone(),
            example: self.packet_line(),
            decided_by: self.deciding_rule(),
            limits: self.limits(),
            trace: self.steps.iter().filter_map(|step| self.entry(step)).collect(),
        }
    }

    pub fn deciding_rule(&self) -> Option<ExplainedRule> {
        self.outcome.decided_by.map(|at| self.rule(at))
    }

    pub(super) fn rule(&self, at: At) -> ExplainedRule {
        let chain = &self.view.chains()[at.chain];
        let rule = self.view.rule(at);
        let origin = rule.and_then(|rule| rule.origin);
        ExplainedRule {
            table: chain.table.to_string(),
            chain: chain.chain.clone(),
            position: rule.map(|_| at.rule + 1),
            rule: origin.map(|origin| origin.name.to_owned()),
            text: rule.map_or("the chain's policy".into(), render::rule).into_owned(),
            option: origin.map(|origin| match origin.option {
                "" => String::new(),
                _ => self.option_text(origin),
            }),
        }
    }

    fn entry(&self, step: &Step) -> Option<TraceEntry> {
        let rule = self.view.rule(step.at)?;
        let is_base = self.view.chains()[step.at.chain].base.is_some();
        let (matched, unmet) = match step.matched {
            Matched::Yes => (Some(true), None),
            Matched::No(index) => {
                let condition = &rule.conditions[index];
                let is_known = self.endpoint_names.interface(self.packet).is_some()
                    || condition.field() != Some(Field::OutInterface);
                let value = because::actual_value(condition, self.packet).filter(|_| is_known);
                let value = value.map(|text| format!(": {text}")).unwrap_or_default();
                (Some(false), Some(format!("{}{value}", render::condition(condition))))
            }
            Matched::Unknown(index) => (None, Some(render::condition(&rule.conditions[index]))),
        };
        let hook = (!is_base).then(|| step.hook.name().to_owned());
        Some(TraceEntry { rule: self.rule(step.at), hook, matched, unmet })
    }

    /// Packet in one line: protocol, source, destination, sender or interface, nonzero mark, state.
    pub fn packet_line(&self) -> String {
        let packet = self.packet;
        let interface = self.endpoint_names.interface(packet);
        let route = match &packet.direction {
            Direction::Outbound { uid, gid, .. } => {
                let by = interface.map(|name| format!(", leaving by {name}")).unwrap_or_default();
                format!("from user {uid}{}, group {gid}{by}", self.endpoint_names.user_remark)
            }
            Direction::Inbound { .. } => {
                interface.map_or("arriving".to_owned(), |name| format!("arriving at {name}"))
            }
        };
        let state = packet.state.name().to_lowercase();
        let (from, to) = (self.endpoint_names.source(packet), self.endpoint_names.destination(packet));
        let mark = if packet.mark == 0 { String::new() } else { format!(", mark {:#x}", packet.mark) };
        format!("{} {from} -> {to}, {route}{mark}, {state}", packet.protocol)
    }

    /// Extends the answer to all packets that the question may concern.
    #[must_use]
    pub(crate) fn over(self, rule_view: &RuleView, query: &PacketQuery) -> Self {
        let Some(open) = &query.open else { return self };
        let mut work = Work::new(MAX_WORK);
        let atlas = Atlas::of(&rule_view.view, &rule_view.routing, [open.clone()], &mut work);
        if !atlas.is_complete() {
            let why = "too many rules to try every caller, source port and user";
            return self.in_doubt(Some(why));
        }
        let verdict = |at: usize| atlas.regions[at].ending.verdict;
        if (1..atlas.regions.len()).all(|at| verdict(at) == verdict(0)) {
            return self;
        }
        let packets = PodPackets::alone(open.clone(), false, &rule_view.routing.addresses);
        let start = &packets.starts[0];
        let groups = atlas.regions.iter().map(|region| {
            PacketGroup::of(0, start, &start.sets[0], &region.packets, group_end(region.ending))
        });
        let cases = widened(&joined(groups.collect(), start), &packets, start);
        let case = |group| {
            let described = Packets::of(&packets, &group);
            let sets: Vec<PacketSet> = group.sets(start).collect();
            let is_asked = sets.iter().any(|set| set.contains(&query.packet));
            let example = if is_asked {
                query.packet.clone()
            } else {
                sets.iter().find_map(|set| packets.example(set))?
            };
            let explained = explain(&rule_view.view, &rule_view.routing, &example);
            let explained = Explanation {
                dialect: self.dialect.clone(),
                nothing: self.nothing.clone(),
                doubt: self.doubt.clone(),
                endpoint_names: self.endpoint_names.clone(),
                ..explained
            };
            Some(PacketCase {
                text: described.apart().trim_start().to_owned(),
                packets: described,
                end: explained.end(),
            })
        };
        let mut cases: Vec<PacketCase> = cases.into_iter().filter_map(case).collect();
        let own = self.end();
        let is_own =
            |case: &PacketCase| (case.end.verdict, case.end.transparent) == (own.verdict, own.transparent);
        cases.sort_by_key(|case| !is_own(case));
        if cases.iter().all(is_own) { self } else { Self { cases, ..self } }
    }

    pub fn depends_on(&self) -> Option<String> {
        let has = |of: fn(&Packets) -> bool| self.cases.iter().any(|case| of(&case.packets));
        let on = [
            ("the caller", has(|packets| packets.sources.is_some())),
            ("the source port", has(|packets| packets.source_ports.is_some())),
            ("the route", has(|packets| packets.interfaces.is_some())),
            ("the user", has(|packets| packets.users.is_some())),
            ("the group", has(|packets| packets.groups.is_some())),
        ];
        let on: Vec<&str> = on.into_iter().filter(|(_, is_it)| *is_it).map(|(name, _)| name).collect();
        (!self.cases.is_empty()).then(|| on.join(" and "))
    }
}

/// Maximum number of rules that a question's packets may meet.
const MAX_WORK: usize = 2_000_000;
