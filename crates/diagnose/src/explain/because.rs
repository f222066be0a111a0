//! Reasons for verdicts, and limits of rules, in words. A rule of unknown origin is described by its location and text.

use super::{Explanation, Limited};
use mesh::recognition::{self, field_condition};
use mesh::{Mesh, RuleReason, Setting, limit::Limit, reason::Meaning, sources::Dialect, visible};
use rules::nft::{Condition, Field, Interval, Intervals, interface_number};
use rules::simulate::{Direction, Matched, Packet, Step, Verdict, View, ViewRule, number};
use rules::{Action, ConnState, ListedCondition, Origin, Target, TrafficEffect, render};
use std::collections::HashSet;

impl Explanation<'_> {
    pub(super) fn summary(&self) -> String {
        match self.outcome.verdict {
            Verdict::Pass => match (self.outcome.translated, self.packet.state) {
                (Some(to), _) => format!("a rule of another program sends it to {to}"),
                (None, ConnState::Established) => {
                    "goes where the first packet of its connection went".to_owned()
                }
                (None, ConnState::New | ConnState::Related | ConnState::Invalid) => {
                    format!("goes directly to {}", self.endpoint_names.destination(self.packet))
                }
            },
            Verdict::Redirect(ports) => {
                let noun = if ports.is_single() { "port" } else { "ports" };
                format!("goes to {} {}", self.listener(noun), ports.dashed())
            }
            Verdict::Tproxy(port) => format!("handed unchanged to {} {port}", self.listener("port")),
            Verdict::Drop => "never arrives".to_owned(),
            Verdict::Unknown => "the verdict is unknown".to_owned(),
        }
    }

    /// Listener of the last matching rule that captures, such as `the proxy's inbound port`.
    fn listener(&self, noun: &str) -> String {
        let steps = self.steps.iter().rev().filter(|step| step.matched == Matched::Yes);
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

    fn reason_as_read(&self) -> String {
        match self.outcome.decided_by {
            None => self.reason_to_pass(),
            Some(at) => match self.view.rule(at) {
                None => format!("that is {}", self.rule(at)),
                Some(rule) if self.outcome.is_tie => format!(
                    "{} ({}) decides in some orders of equal-priority chains, and the actual order can't be read",
                    self.rule(at),
                    render::rule(rule)
                ),
                Some(ViewRule {
                    action: Action::Target(Target::JumpForeign(to)), leads_to: None, ..
                }) => {
                    format!("{} jumps to another program's chain {to}, which decides", self.rule(at))
                }
                Some(rule) if self.outcome.verdict == Verdict::Unknown => {
                    format!("{} ({}) is not understood and may decide", self.rule(at), render::rule(rule))
                }
                Some(rule) => self
                    .of_origin(rule)
                    .unwrap_or_else(|| format!("{} is {}", self.rule(at), render::rule(rule))),
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
            return format!("the rules that redirect do not match {protocol}");
        }
        self.lists_without_packet().unwrap_or_else(|| {
            match self.view.chains().iter().all(|chain| chain.rules.is_empty()) {
                true => format!("there are no rules for {}", self.packet.family()),
                false => "no rule captures it".to_owned(),
            }
        })
    }

    /// Reason why no nat rule sees the packet, if only nat rules capture its direction.
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

    /// True if only a condition of this kind kept a capturing rule, or a jump to one, from matching.
    fn is_missed_by(&self, kind: impl Fn(&Condition) -> bool) -> bool {
        let may_hold = |condition: &ListedCondition| {
            let own = packet_value(condition, self.packet);
            field_condition(condition).zip(own).is_none_or(|(one, own)| one.holds(own))
        };
        let leads_there = |rule: &ViewRule| {
            let effect = rule.origin.map(|origin| origin.effect);
            rule.leads_to.is_some() && matches!(effect, Some(TrafficEffect::Captured | TrafficEffect::LedOn))
        };
        self.steps.iter().any(|step| match (self.view.rule(step.at), step.matched) {
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

    pub(super) fn option_text(&self, origin: Origin) -> String {
        let name = RuleReason::setting_of(origin).and_then(|setting| self.dialect.name(setting));
        name.map_or_else(|| origin.option_text(), str::to_owned)
    }

    pub fn limits(&self) -> Vec<Limited> {
        let mut found: Vec<Limited> = Vec::new();
        for (limit, rule) in limits_met(self.view, self.packet, &self.steps) {
            if found.iter().all(|known| known.code != limit.code.name()) {
                let (text, remedy) = limit.about_items(&self.value(rule).unwrap_or_default());
                found.push(Limited { code: limit.code.name().to_owned(), text, remedy });
            }
        }
        found
    }

    /// Lists of captured items that omit the packet, in words: `-i captures only 10.0.0.0/8`.
    pub(super) fn lists_without_packet(&self) -> Option<String> {
        let rules = self.view.chains().iter().flat_map(|chain| &chain.rules);
        let known: Vec<(RuleReason, &ViewRule)> =
            rules.filter_map(|rule| Some((reason_of(rule)?, rule))).collect();
        let lists: &[(Meaning, &str)] = match self.packet.direction {
            Direction::Inbound { .. } => &[(Meaning::InboundPort, "port")],
            Direction::Outbound { .. } => {
                &[(Meaning::OutboundNetwork, "network"), (Meaning::OutboundPort, "port")]
            }
        };
        let is_known = |mesh: &&Mesh| known.iter().any(|(reason, _)| reason.mesh() == **mesh);
        let mut lacking: Vec<String> = Vec::new();
        for mesh in Mesh::ALL.iter().filter(is_known) {
            let list_of = |(meaning, noun): &(Meaning, &'static str)| {
                let is_list = |one: &RuleReason| one.mesh() == *mesh && one.meaning() == *meaning;
                Some((RuleReason::all().filter(is_list).find(|one| !one.settings().is_empty())?, *noun))
            };
            for (at, (reason, noun)) in lists.iter().filter_map(list_of).enumerate() {
                let option = option(reason.settings()[0], &self.dialect);
                let rules = known.iter().filter(|(known, _)| *known == reason);
                let fields = reason.meaning().row().about;
                let is_of_list =
                    |one: &&ListedCondition| one.field().is_some_and(|field| fields.contains(&field));
                let conditions = rules.filter_map(|(_, rule)| items_of(rule)).filter(is_of_list);
                lacking.extend(match nearest(conditions, self.packet) {
                    // The first list is the main one; other empty lists are not worth mentioning.
                    None => (at == 0).then(|| format!("{option} captures no {noun}")),
                    Some(items) => Some(format!("{option} captures only {items}")),
                });
            }
        }
        (!lacking.is_empty()).then(|| lacking.join(" and "))
    }

    /// Item of the rule's list that the packet matches, in words; all items if none matches.
    pub(super) fn value(&self, rule: &ViewRule) -> Option<String> {
        let condition = items_of(rule)?;
        let own = packet_value(condition, self.packet);
        let holds = |(_, values): &&(String, Interval)| {
            own.is_some_and(|own| values.first <= own && own <= values.last)
        };
        let items = items(condition);
        Some(items.iter().find(holds).map_or_else(|| item_texts(rule).join(","), |(text, _)| text.clone()))
    }
}

pub(super) fn reason_of(rule: &ViewRule) -> Option<RuleReason> {
    RuleReason::named(rule.origin?.name)
}

/// The packet's value where a condition requires another, such as `its user is 1000`.
pub(super) fn actual_value(condition: &ListedCondition, packet: &Packet) -> Option<String> {
    let field = match condition {
        ListedCondition::Known(_) | ListedCondition::Nft(_) => condition.field()?,
        _ => return None,
    };
    // Rules may have changed addresses, ports and marks.
    match (field, &packet.direction) {
        (Field::Uid, Direction::Outbound { uid, .. }) => Some(format!("its user is {uid}")),
        (Field::Gid, Direction::Outbound { gid, .. }) => Some(format!("its group is {gid}")),
        (Field::OutInterface, Direction::Outbound { interface, .. }) => {
            Some(format!("it leaves by {interface}"))
        }
        (Field::Protocol, _) => Some(format!("it is {}", packet.protocol)),
        (Field::Family, _) => Some(format!("it is {}", packet.family())),
        _ => None,
    }
}

pub(crate) fn limits_met<'a>(
    view: &'a View,
    packet: &'a Packet,
    steps: &'a [Step],
) -> impl Iterator<Item = (&'static Limit, &'a ViewRule)> {
    steps.iter().filter_map(|step| Some((step, view.rule(step.at)?))).flat_map(move |(step, rule)| {
        let reason = reason_of(rule);
        let limits = reason.map(|reason| reason.mesh().entry().limits).unwrap_or_default();
        let concerns = move |limit: &&Limit| {
            Some(limit.reason) == reason && (limit.concerns)(packet, step.matched == Matched::Yes)
        };
        limits.iter().filter(concerns).map(move |limit| (limit, rule))
    })
}

/// Maximum number of list items in a sentence.
const NAMED: usize = 5;

/// Name of a setting in the configuration; else its letter, if it has one.
pub(crate) fn option(setting: Setting, dialect: &Dialect) -> String {
    dialect.name(setting).map_or_else(|| setting.row().short_option(), str::to_owned)
}

/// Items nearest to the packet's value, and the number of others, counting each port of a range; `None` without items.
fn nearest<'a>(conditions: impl Iterator<Item = &'a ListedCondition>, packet: &Packet) -> Option<String> {
    let (mut listed, mut seen) = (Vec::new(), HashSet::new());
    let mut are_ports = false;
    for condition in conditions {
        let own = packet_value(condition, packet);
        are_ports = condition.field().is_some_and(Field::is_port);
        for (item, values) in items(condition) {
            let Interval { first, last } = values;
            let distance =
                own.map_or(u128::MAX, |own| first.saturating_sub(own).max(own.saturating_sub(last)));
            let text = if are_ports && first < last { format!("{first}-{last}") } else { item };
            if seen.insert(text.clone()) {
                listed.push((distance, values, text));
            }
        }
    }
    let count = |listed: &[(u128, Interval, String)]| match are_ports {
        true => {
            let ports: Intervals = listed.iter().map(|(_, values, _)| *values).collect();
            ports.joined().ranges().iter().map(|range| range.last - range.first + 1).sum()
        }
        false => listed.len() as u128,
    };
    let all = count(&listed);
    listed.sort_by_key(|(distance, ..)| *distance);
    listed.truncate(NAMED);
    let more = all - count(&listed);
    listed.sort_by_key(|(_, values, _)| values.first);
    let named: Vec<String> = listed.into_iter().map(|(.., text)| text).collect();
    let more = if more > 0 { format!(" and {} more", crate::style::grouped(more)) } else { String::new() };
    (!named.is_empty()).then(|| named.join(",") + &more)
}

fn items_of(rule: &ViewRule) -> Option<&ListedCondition> {
    let field = rule.origin?.item?;
    rule.conditions.iter().find(|condition| condition.field() == Some(field))
}

pub(crate) fn item_texts(rule: &ViewRule) -> Vec<String> {
    items_of(rule).into_iter().flat_map(items).map(|(text, _)| text).collect()
}

fn items(condition: &ListedCondition) -> Vec<(String, Interval)> {
    let Some(condition) = field_condition(condition) else { return Vec::new() };
    let noun = match condition.field {
        Field::Uid => "user ",
        Field::Gid => "group ",
        Field::InInterface | Field::OutInterface | Field::Source(_) | Field::Destination(_) => "",
        Field::SourcePort | Field::DestinationPort => "",
        Field::Family | Field::Protocol | Field::ConnState | Field::Mark(_) | Field::Connmark(_) => {
            return Vec::new();
        }
    };
    let texts = recognition::items(&condition).into_iter().map(|text| format!("{noun}{text}"));
    texts.zip(condition.values.ranges().iter().copied()).collect()
}

/// The packet's value in a condition's field, before any rule changed it.
pub(super) fn packet_value(condition: &ListedCondition, packet: &Packet) -> Option<u128> {
    let (source, destination) = (packet.source, packet.destination);
    match (condition.field()?, &packet.direction) {
        (Field::Source(_), _) => Some(number(source.ip())),
        (Field::Destination(_), _) => Some(number(destination.ip())),
        (Field::SourcePort, _) => Some(source.port().into()),
        (Field::DestinationPort, _) => Some(destination.port().into()),
        (Field::Uid, Direction::Outbound { uid, .. }) => Some(uid.number().into()),
        (Field::Gid, Direction::Outbound { gid, .. }) => Some(gid.number().into()),
        (Field::InInterface, Direction::Inbound { interface, .. })
        | (Field::OutInterface, Direction::Outbound { interface, .. }) => Some(interface_number(interface)),
        _ => None,
    }
}
