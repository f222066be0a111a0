//! The report of an explanation.

use super::{ExplainedRule, Explanation, ExplanationReport, PacketEnd, TraceEntry, VerdictKind, because};
use rules::nft::Field;
use rules::render::listed;
use rules::simulate::{At, Direction, Matched, Step, Verdict};

impl Explanation<'_> {
    /// The end of the packet that is shown, whatever becomes of others that the question may be about.
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
            trace: self.trace.0.iter().filter_map(|step| self.entry(step)).collect(),
        }
    }

    /// `None` where no rule decides.
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
            text: rule.map_or("the chain's policy".into(), listed::rule).into_owned(),
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
                (Some(false), Some(format!("{}{value}", listed::condition(condition))))
            }
            Matched::Unknown(index) => (None, Some(listed::condition(&rule.conditions[index]))),
        };
        let hook = (!is_base).then(|| step.hook.name().to_owned());
        Some(TraceEntry { rule: self.rule(step.at), hook, matched, unmet })
    }

    /// The packet in one line: protocol, ends, sender or interface, mark if it has one, state.
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
}
