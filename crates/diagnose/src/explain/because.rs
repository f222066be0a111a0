//! Reasons of verdicts, in words.
//!
//! A rule carries its origin. Where that is not known, the sentence quotes the rule's place and text.

use super::Explanation;
use super::lists::packet_value;
use mesh::RuleReason;
use mesh::recognition::summary::field_condition;
use mesh::visible;
use rules::nft::{Condition, Field};
use rules::render::listed;
use rules::simulate::{Direction, Matched, Packet, Verdict, ViewRule};
use rules::{Action, ConnState, ListedCondition, Origin, Target, TrafficEffect};

impl Explanation<'_> {
    pub(super) fn summary(&self) -> String {
        match self.outcome.verdict {
            Verdict::Pass => match (self.outcome.translated, self.packet.state) {
                (Some(to), _) => format!("another program's rule sends it to {to}"),
                (None, ConnState::Established) => {
                    "goes where the first packet of its connection went".to_owned()
                }
                (None, ConnState::New | ConnState::Related | ConnState::Invalid) => {
                    format!("goes to {} as it was sent", self.endpoint_names.destination(self.packet))
                }
            },
            Verdict::Redirect(ports) => {
                let noun = if ports.is_single() { "port" } else { "ports" };
                format!("goes to {} {}", self.listener(noun), ports.dashed())
            }
            Verdict::Tproxy(port) => format!("handed unchanged to {} {port}", self.listener("port")),
            Verdict::Drop => "never arrives".to_owned(),
            Verdict::Unknown => "the verdict can't be determined".to_owned(),
        }
    }

    /// The listener that gets the packet, such as `the proxy's inbound port`, by the last rule that matched and captures.
    fn listener(&self, noun: &str) -> String {
        let steps = self.trace.0.iter().rev().filter(|step| step.matched == Matched::Yes);
        let is_tproxy = matches!(self.outcome.verdict, Verdict::Tproxy(_));
        let names_it = |rule: &&ViewRule| {
            rule.action.captures()
                && is_tproxy == matches!(rule.action, Action::Target(Target::Tproxy { .. }))
        };
        let rule = steps.filter_map(|step| self.view.rule(step.at)).find(names_it);
        let whose = |reason: RuleReason| match reason.meaning().row().direction {
            "dns" => format!("the {}'s DNS", reason.mesh().entry().proxy_program.resolver.unwrap_or("proxy")),
            direction => format!("the proxy's {direction}"),
        };
        rule.and_then(reason_of).map_or(noun.to_owned(), |reason| format!("{} {noun}", whose(reason)))
    }

    pub fn reason(&self) -> String {
        visible(&(self.reason_as_read() + &self.doubt))
    }

    /// With names and texts of rules as they were read.
    fn reason_as_read(&self) -> String {
        match self.outcome.decided_by {
            None => self.reason_to_pass(),
            Some(at) => match self.view.rule(at) {
                None => format!("that is {}", self.rule(at)),
                Some(rule) if self.outcome.is_tie => format!(
                    "{} ({}) decides in some order of chains of equal priority, and which of them the kernel calls \
                     first can't be asked",
                    self.rule(at),
                    listed::rule(rule)
                ),
                Some(ViewRule {
                    action: Action::Target(Target::JumpForeign(chain)), leads_to: None, ..
                }) => {
                    format!(
                        "{} leads to {chain}, which belongs to another program and decides",
                        self.rule(at)
                    )
                }
                Some(rule) if self.outcome.verdict == Verdict::Unknown => {
                    format!("{} ({}) is not understood and could decide", self.rule(at), listed::rule(rule))
                }
                Some(rule) => self
                    .of_origin(rule)
                    .unwrap_or_else(|| format!("{} says {}", self.rule(at), listed::rule(rule))),
            },
        }
    }

    fn reason_to_pass(&self) -> String {
        let Packet { mark, protocol, .. } = self.packet;
        if let Some(reason) = self.view.gap().or(self.nothing.as_deref()) {
            return reason.to_owned();
        }
        if *mark != 0 && self.is_missed_by(|one| one.negated && matches!(one.field, Field::Mark(_))) {
            return format!("packets with its mark, {mark:#x}, are excluded");
        }
        if self.is_missed_by(|one| one.negated && one.field == Field::DestinationPort) {
            return format!("port {} is excluded", self.packet.destination.port());
        }
        if let Some(reason) = self.state_past_nat() {
            return reason.to_owned();
        }
        if self.is_missed_by(|one| one.field == Field::Protocol) {
            return format!("what redirects is not for {protocol}");
        }
        self.lists_without_packet().unwrap_or_else(|| {
            match self.view.chains().iter().all(|chain| chain.rules.is_empty()) {
                true => format!("there are no rules for {}", self.packet.family()),
                false => "no rule says otherwise".to_owned(),
            }
        })
    }

    /// The reason why no rule of nat sees the packet, where those alone capture its direction.
    pub(crate) fn state_past_nat(&self) -> Option<&'static str> {
        let reason = match self.packet.state {
            ConnState::New | ConnState::Related => return None,
            ConnState::Established => "nat rules see only the first packet of a connection",
            ConnState::Invalid => "nat rules see no packet in state INVALID",
        };
        let by_tproxy = |rule: &&ViewRule| matches!(rule.action, Action::Target(Target::Tproxy { .. }));
        let capturing =
            || self.view.chains().iter().flat_map(|chain| &chain.rules).filter(|rule| rule.action.captures());
        let is_inbound = matches!(self.packet.direction, Direction::Inbound { .. });
        (capturing().any(|rule| !by_tproxy(&rule))
            && !(is_inbound && capturing().any(|rule| by_tproxy(&rule))))
        .then_some(reason)
    }

    /// A rule that captures, or leads to such rules, did not match only because of a condition of this kind.
    fn is_missed_by(&self, kind: impl Fn(&Condition) -> bool) -> bool {
        let may_hold = |condition: &ListedCondition| {
            let own = packet_value(condition, self.packet);
            field_condition(condition).zip(own).is_none_or(|(one, own)| one.holds(own))
        };
        let leads_there = |rule: &ViewRule| {
            let effect = rule.origin.map(|origin| origin.effect);
            rule.leads_to.is_some() && matches!(effect, Some(TrafficEffect::Captured | TrafficEffect::LedOn))
        };
        self.trace.0.iter().any(|step| match (self.view.rule(step.at), step.matched) {
            (Some(rule), Matched::No(index)) => {
                field_condition(&rule.conditions[index]).is_some_and(|one| kind(&one))
                    && rule.conditions[index + 1..].iter().all(may_hold)
                    && (rule.action.captures() || leads_there(rule))
            }
            _ => false,
        })
    }

    fn of_origin(&self, rule: &ViewRule) -> Option<String> {
        let origin = rule.origin?;
        let value = self.value(rule);
        let reason = reason_of(rule)?;
        Some(self.dialect.render(&reason.sentence(value.as_deref(), &self.option_text(origin))?))
    }

    /// The option that made a rule, as its author calls it.
    pub(super) fn option_text(&self, origin: Origin) -> String {
        let name = RuleReason::setting_of(origin).and_then(|setting| self.dialect.name(setting));
        name.map_or_else(|| origin.option_text(), str::to_owned)
    }
}

pub(super) fn reason_of(rule: &ViewRule) -> Option<RuleReason> {
    RuleReason::named(rule.origin?.name)
}

/// The packet's value in place of the one that a condition asks for, such as `its user is 1000`.
pub(super) fn actual_value(condition: &ListedCondition, packet: &Packet) -> Option<String> {
    let owner = |what: &str, id: u32| format!("{what} {id}");
    let field = match condition {
        ListedCondition::Known(_) | ListedCondition::Nft(_) => condition.field()?,
        _ => return None,
    };
    // Addresses, ports and marks may have changed on the way.
    match (field, &packet.direction) {
        (Field::Uid, Direction::Outbound { uid, .. }) => Some(owner("its user is", uid.number())),
        (Field::Gid, Direction::Outbound { gid, .. }) => Some(owner("its group is", gid.number())),
        (Field::OutInterface, Direction::Outbound { interface, .. }) => {
            Some(format!("it leaves by {interface}"))
        }
        (Field::Protocol, _) => Some(format!("it is {}", packet.protocol)),
        (Field::Family, _) => Some(format!("it is {}", packet.family())),
        _ => None,
    }
}
