//! Outcome of a packet, from the kernel's reports. If the simulated walk agrees, the reason comes from the walk, which includes
//! failed conditions; else from the reported rules.

use super::block::{Block, MetRule};
use super::{hook, options, walks::Walk};
use crate::explain::{Explanation, PacketEnd, VerdictKind};
use rules::report::{Headers, NflogMessage, PacketSnapshot, TraceEvent, TraceEventKind, protocol_name};
use rules::simulate::{
    At, Direction, Matched, Packet, Routing, Step, Verdict, View, ViewRule, has_met_nat, is_untracked,
    replay, trace,
};
use rules::{
    Action, ConnState, Family, Gid, Hook, Protocol, Target, TrafficEffect, Uid, nft::protocol_number,
};
use std::{net::SocketAddr, time::SystemTime};

pub trait Rules {
    fn view(&self, family: Family) -> &View;
    fn routing(&self, family: Family) -> Routing;
    /// Index of a chain; `family` is the table's (`NFPROTO_*`).
    fn chain(&self, of: Family, family: u8, table: &str, chain: &str) -> Option<usize>;
    fn rule(&self, of: Family, family: u8, table: &str, chain: &str, handle: u64) -> Option<At>;
}

/// Report of a walk. Fails with the known part if the packet met a rule added since rules were read.
pub fn of_walk(walked: &Walk, rules: Option<&dyn Rules>) -> Result<Block, Box<Block>> {
    let &Walk { mark, uid, gid, .. } = walked;
    let first = block(walked.first.as_ref().unwrap_or(&PacketSnapshot::default()));
    let hook = hook(if walked.is_inbound { 0 } else { 3 }).into();
    let block = Block { hook, mark, uid, gid, ..first }.at(walked.began);
    let headers = walked.first.as_ref().and_then(|seen| Headers::read(&seen.packet));
    let Some(headers) = headers else { return Ok(unknown(block, UNREAD)) };
    let Some(rules) = rules else { return Err(Box::new(unknown(block, UNCERTAIN))) };
    let family = Family::of(headers.destination);
    let view = rules.view(family);
    let (mut steps, mut dropped, mut met_rules, mut is_known) = (Vec::new(), None, Vec::new(), true);
    let mut hook = if walked.is_inbound { Hook::Prerouting } else { Hook::Output };
    for event in &walked.events {
        let chain = rules.chain(family, event.family, &event.table, &event.chain);
        hook = chain.and_then(|chain| view.chains()[chain].base).map_or(hook, |base| base.hook);
        match event.kind {
            TraceEventKind::Rule { handle, drops } => {
                let at = rules.rule(family, event.family, &event.table, &event.chain, handle);
                is_known &= at.is_some();
                met_rules.push(at.and_then(|at| met(view, at)).unwrap_or_else(|| added_rule(event, handle)));
                steps.extend(at.map(|at| Step { hook, at, matched: Matched::Yes }));
                dropped = at.filter(|_| drops).or(dropped);
            }
            TraceEventKind::Policy { drops: true } => {
                is_known &= chain.is_some();
                dropped = chain.map(|chain| At { chain, rule: view.chains()[chain].rules.len() });
            }
            TraceEventKind::Policy { drops: false } | TraceEventKind::Return => {}
        }
    }
    let block = Block { rules: met_rules, ..block };
    if !is_known {
        return Err(Box::new(unknown(block, UNCERTAIN)));
    }
    // Packets dropped in INPUT don't reach the trace's chain `input`.
    let is_local = hook == Hook::Input || walked.ended_in.as_deref() == Some("input");
    let Some(packet) = packet(&block, is_local, &headers) else {
        return Ok(of_other_protocol(block, dropped));
    };
    let can_be_simulated = walked.uid.is_some() || walked.is_inbound;
    let later = Packet { state: ConnState::Established, ..packet.clone() };
    let later = Some(&later).filter(|_| !is_untracked(view, &steps));
    for packet in [&packet].into_iter().chain(later).filter(|_| can_be_simulated) {
        let (outcome, simulated) = trace(view, &rules.routing(family), packet);
        let is_same = matched(&simulated).eq(steps.iter().map(|step| step.at))
            && (outcome.verdict == Verdict::Drop) == dropped.is_some();
        if is_same {
            return Ok(judged(block, view, &Explanation::of_walk(view, packet, outcome, simulated), true));
        }
    }
    if walked.is_incomplete && dropped.is_none() {
        return Ok(unknown(block, "the kernel dropped reports of the packet"));
    }
    let outcome = replay(view, packet.destination, &steps, dropped);
    let is_past_nat = |later: &&Packet| {
        let explained = Explanation::of_walk(view, later, outcome, Vec::new());
        outcome.verdict == Verdict::Pass && !has_met_nat(view, &steps) && explained.state_past_nat().is_some()
    };
    let later = later.filter(is_past_nat);
    let explained = Explanation::of_walk(view, later.unwrap_or(&packet), outcome, steps);
    Ok(judged(block, view, &explained, later.is_some()))
}

/// Report of a packet from its NFLOG messages, at least one, in order. Fails with the part known without rules.
pub fn of_reports(
    reports: &[NflogMessage],
    now: SystemTime,
    rules: Option<&dyn Rules>,
) -> Result<Block, Box<Block>> {
    let NflogMessage { packet: bytes, in_interface, out_interface, time, hook: at, mark, uid, gid, .. } =
        reports.first().cloned().unwrap_or_default();
    let seen = PacketSnapshot { packet: bytes, in_interface, out_interface };
    let mut block = Block { mark, uid, gid, ..block(&seen) }.at(time.unwrap_or(now));
    block.hook = hook(at).into();
    block.rules = reports.iter().map(|report| named(&report.prefix)).collect();
    let Some(headers) = Headers::read(&seen.packet) else { return Ok(unknown(block, UNREAD)) };
    let packet = packet(&block, true, &headers);
    let (Some(packet), Some(rules)) = (packet, rules) else {
        return Err(Box::new(unknown(block, UNCERTAIN)));
    };
    let family = packet.family();
    let view = rules.view(family);
    let (outcome, simulated) = trace(view, &rules.routing(family), &packet);
    let names = matched(&simulated).filter_map(|at| reports_as(view.rule(at)?));
    match names.eq(reports.iter().map(|report| report.prefix.clone())) {
        true => Ok(judged(block, view, &Explanation::of_walk(view, &packet, outcome, simulated), true)),
        false => Err(Box::new(unknown(block, UNCERTAIN))),
    }
}

pub fn reports_anything(view: &View) -> bool {
    view.chains().iter().flat_map(|chain| &chain.rules).any(|rule| reports_as(rule).is_some())
}

/// Name that a rule logs to `trace`'s NFLOG group.
fn reports_as(rule: &ViewRule) -> Option<String> {
    let group = mesh::istio::defaults::LOG_GROUP;
    let of_action = match &rule.action {
        Action::Target(Target::Nflog { group: of, prefix }) if *of == group => Some(prefix.to_string()),
        _ => None,
    };
    // An nf_tables rule both logs and acts; only its text shows the log statement.
    let of_text = || {
        let (_, rest) = rule.text.as_ref()?.split_once("log prefix \"")?;
        let (prefix, rest) = rest.split_once('"')?;
        let mut words = rest.split_whitespace();
        let is_of_group =
            words.next() == Some("group") && words.next().is_some_and(|number| number == group.to_string());
        is_of_group.then(|| prefix.to_owned())
    };
    of_action.or_else(of_text)
}

fn block(seen: &PacketSnapshot) -> Block {
    let headers = Headers::read(&seen.packet);
    let ports = headers.and_then(|headers| headers.ports);
    Block {
        in_interface: seen.in_interface.clone(),
        out_interface: seen.out_interface.clone(),
        protocol: headers.map(|headers| protocol_name(headers.protocol)),
        source: headers.map(|headers| headers.source),
        source_port: ports.map(|(source, _)| source),
        destination: headers.map(|headers| headers.destination),
        destination_port: ports.map(|(_, destination)| destination),
        ..Block::default()
    }
}

fn met(view: &View, at: At) -> Option<MetRule> {
    let (chain, rule) = (view.chains().get(at.chain)?, view.rule(at)?);
    Some(MetRule {
        table: Some(chain.table.to_string()),
        chain: Some(chain.chain.clone()),
        rule: Some(at.rule + 1),
        text: rule.text.clone(),
        options: match rule.origin {
            Some(origin) if !origin.option.is_empty() => vec![origin.option_text()],
            origin => origin.map(|origin| options(origin.name)).unwrap_or_default(),
        },
        name: rule.origin.map(|origin| origin.name.to_owned()),
    })
}

fn added_rule(event: &TraceEvent, handle: u64) -> MetRule {
    MetRule {
        table: Some(event.table.clone()),
        chain: Some(event.chain.clone()),
        text: Some(format!("a rule added since, with handle {handle}")),
        ..MetRule::default()
    }
}

fn named(name: &str) -> MetRule {
    MetRule { name: Some(name.to_owned()), options: options(name), ..MetRule::default() }
}

/// `None` for protocols other than TCP and UDP.
fn packet(block: &Block, is_local: bool, headers: &Headers) -> Option<Packet> {
    let is_its = |protocol: &Protocol| protocol_number(*protocol) == headers.protocol;
    let protocol = [Protocol::Tcp, Protocol::Udp].into_iter().find(is_its)?;
    let (source_port, destination_port) = headers.ports?;
    let direction = match (&block.in_interface, &block.out_interface) {
        (Some(interface), _) if block.hook != "OUTPUT" => {
            Direction::Inbound { interface: interface.clone(), local: is_local }
        }
        (_, Some(interface)) => {
            let uid = block.uid.and_then(Uid::new).or_else(|| Uid::new(0))?;
            let gid = block.gid.and_then(Gid::new).unwrap_or(Gid::from(uid));
            Direction::Outbound { interface: interface.clone(), uid, gid }
        }
        _ => return None,
    };
    Some(Packet {
        direction,
        protocol,
        source: SocketAddr::new(headers.source, source_port),
        destination: SocketAddr::new(headers.destination, destination_port),
        mark: block.mark,
        connmark: 0,
        state: ConnState::New,
    })
}

fn matched(steps: &[Step]) -> impl Iterator<Item = At> {
    steps.iter().filter(|step| step.matched == Matched::Yes).map(|step| step.at)
}

fn judged(block: Block, view: &View, explained: &Explanation<'_>, knows_what_failed: bool) -> Block {
    let outcome = explained.outcome();
    let reason = match outcome.decided_by {
        None if !knows_what_failed => "no rule that it met captures it".to_owned(),
        // TPROXY drops packets without a matching socket; in nf_tables, the next rule does.
        Some(at) if outcome.verdict == Verdict::Drop && hands_over(view, at) => {
            "no transparent listener exists to take it".to_owned()
        }
        _ => explained.reason(),
    };
    Block { end: PacketEnd { reason, ..explained.end() }, ..block }
}

/// True if the rule hands packets to a transparent listener, or drops packets if none exists.
fn hands_over(view: &View, at: At) -> bool {
    view.rule(at).is_some_and(|rule| {
        let is_named = rule.origin.is_some_and(|origin| origin.effect == TrafficEffect::HandedOver);
        is_named || matches!(rule.action, Action::Target(Target::Tproxy { .. }))
    })
}

/// Report of a packet that is neither TCP nor UDP, and so never captured.
fn of_other_protocol(block: Block, dropped: Option<At>) -> Block {
    if dropped.is_some() {
        let reason = "the last of these rules drops it";
        return ended(block, VerdictKind::Dropped, "never arrives".to_owned(), reason);
    }
    let to = block.destination.map(|to| to.to_string()).unwrap_or_default();
    let summary = format!("goes directly to {to}");
    ended(block, VerdictKind::NotCaptured, summary, "only TCP and UDP are captured")
}

const UNREAD: &str = "the packet can't be read";
const UNCERTAIN: &str = "the reports are incomplete, or the rules have changed since";

fn unknown(block: Block, reason: &str) -> Block {
    ended(block, VerdictKind::Unknown, "the verdict is unknown".to_owned(), reason)
}

fn ended(block: Block, verdict: VerdictKind, summary: String, reason: &str) -> Block {
    Block { end: PacketEnd { verdict, summary, reason: reason.to_owned(), ..PacketEnd::default() }, ..block }
}
