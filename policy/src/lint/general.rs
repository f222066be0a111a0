//! What is odd about any mesh's configuration, told by its rules, its lists and its proxy.

use super::change::{Change, LeftOut};
use super::ipv6::{Held, uncaptured_ipv6};
use super::judge::Judge;
use super::overlap::{addresses, covered, ports};
use super::unreachable::unreachable;
use super::{Code, Finding, Idle, Oddities};
use crate::mesh::{Listed, Named, Policy, Proxy};
use crate::settings::{Kind, Row, Setting, Topic};
use crate::sources::Raw;
use rules::simulate::{Direction, Packet};
use rules::{Cidr, Family, Match, Negatable, Origin, PortRange, Protocol, Rule};
use std::collections::BTreeSet;

/// So many items of all lists are tried one by one; a longer list is looked at for items that lie in others.
const FEW_ITEMS: usize = 64;

/// What is odd, and what does nothing as the judge confirms.
pub(super) fn look(judge: &mut Judge<'_>, held: &[Held]) -> Oddities {
    let policy: &dyn Policy = &**judge.capture;
    let proxy = policy.proxy();
    if policy.captures_nothing() || !judge.captures(|packet| !is_proxys(&proxy, packet)) {
        return Oddities { findings: vec![nothing()], idle: Vec::new() };
    }
    let lists = policy.lists();
    let mut findings = of_all(judge.raw, policy, held);
    findings.extend(owner(policy, &proxy));
    let others = of_other_family(policy, &lists);
    let told: BTreeSet<Setting> = others.iter().map(|(setting, _)| *setting).collect();
    findings.extend(others.into_iter().map(|(_, finding)| finding));
    findings.extend(all_left_alone(judge, &lists, &proxy));
    let options: Vec<Idle> = whole_lists(judge).filter(|idle| !told.contains(&idle.change.setting)).collect();
    let mut idle = judge.confirmed(options);
    let whole: BTreeSet<Setting> = idle.iter().map(|idle| idle.change.setting).collect();
    let mut candidates = overlaps(&lists);
    candidates.extend(unreachable(judge, |origin, rule| made_by(&lists, origin, rule)));
    candidates.extend(one_by_one(&lists, policy));
    candidates.retain(|candidate| !whole.contains(&candidate.change.setting));
    idle.extend(judge.confirmed(candidates));
    Oddities { findings, idle }
}

/// What words, lists and the proxy tell without trying a packet.
pub(super) fn at_once(raw: &Raw, policy: &dyn Policy, held: &[Held]) -> Vec<Finding> {
    let mut findings = of_all(raw, policy, held);
    findings.extend(owner(policy, &policy.proxy()));
    findings.extend(of_other_family(policy, &policy.lists()).into_iter().map(|(_, finding)| finding));
    findings
}

/// What is odd whatever the mesh has to say beside it.
pub(crate) fn of_all(raw: &Raw, policy: &dyn Policy, held: &[Held]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let listeners = policy.levers().listeners;
    for (at, (setting, ports)) in listeners.iter().enumerate() {
        for (other, others) in &listeners[..at] {
            if ports.first() > others.last() || others.first() > ports.last() {
                continue;
            }
            let shared = ports.first().max(others.first());
            findings.push(Finding::warning(
                Code::SharedListener,
                &setting.row().option(),
                format!(
                    "has port {shared}, as {} has: the proxy can't tell inbound from outbound there",
                    other.row().option()
                ),
                "give the listeners different ports",
            ));
        }
    }
    findings.extend(uncaptured_ipv6(raw, policy, held));
    findings
}

fn nothing() -> Finding {
    Finding::warning(
        Code::NothingCaptured,
        "all options",
        "nothing is captured: no outbound connection, no inbound port and no DNS query",
        "take out of them what leaves everything alone",
    )
}

fn is_proxys(proxy: &Proxy, packet: &Packet) -> bool {
    let is_owned = match packet.direction {
        Direction::Outbound { uid, gid, .. } => proxy.uids.contains(&uid) || proxy.gids.contains(&gid),
        Direction::Inbound { .. } => false,
    };
    is_owned || proxy.mark.is_some_and(|mark| mark.covers(packet.mark))
}

/// Who counts as the proxy.
fn owner(policy: &dyn Policy, proxy: &Proxy) -> Option<Finding> {
    let option = policy.levers().proxy?.row().option();
    if proxy.uids.iter().any(|uid| uid.number() == 0) {
        return Some(Finding::warning(
            Code::RootIsProxy,
            &option,
            "root is the proxy's user, so no process that runs as root is captured",
            "run the proxy as a user of its own",
        ));
    }
    let is_known = !proxy.uids.is_empty() || !proxy.gids.is_empty() || proxy.mark.is_some();
    (!is_known && proxy.listeners.outbound.is_some()).then(|| {
        Finding::warning(
            Code::NobodyIsProxy,
            &option,
            "names nobody, so that the proxy's own calls are sent back to it, again and again",
            format!("say with {option} as which user the proxy runs"),
        )
    })
}

/// Items of a family of which there are no rules.
fn of_other_family(policy: &dyn Policy, lists: &[Listed]) -> Vec<(Setting, Finding)> {
    if policy.ipv6() {
        return Vec::new();
    }
    let (setting, remedy) = policy.levers().ipv6;
    let finding = |listed: &Listed| {
        let (item, family) = match &listed.named {
            Named::Destination(cidr) | Named::Source(cidr) => (cidr.to_string(), cidr.family()),
            Named::Server(address) => (address.to_string(), Family::of(*address)),
            _ => return None,
        };
        let text = format!(
            "lists {item}, but IPv6 is not captured ({}), so it means nothing",
            setting.row().option()
        );
        let option = listed.setting.row().option();
        let remedy = format!("drop {item}, or {remedy}");
        let finding = Finding::warning(Code::OtherFamily, &option, text, remedy);
        (family == Family::V6).then_some((listed.setting, finding))
    };
    lists.iter().filter_map(finding).collect()
}

/// Items that name all there is, so that the rules behind theirs capture nothing.
fn all_left_alone(judge: &mut Judge<'_>, lists: &[Listed], proxy: &Proxy) -> Vec<Finding> {
    let every = |ports: &PortRange| ports.first().number() == 1 && ports.last().number() == u16::MAX;
    let mut findings = Vec::new();
    for listed in lists.iter().filter(|listed| !listed.captured) {
        let (arrives, family) = match &listed.named {
            Named::Source(cidr) if cidr.is_everything() => (true, Some(cidr.family())),
            Named::Destination(cidr) if cidr.is_everything() => (false, Some(cidr.family())),
            Named::InboundPort(ports) if every(ports) => (true, None),
            Named::OutboundPort(ports, _) if every(ports) => (false, None),
            _ => continue,
        };
        let is_meant = |packet: &Packet| {
            matches!(packet.direction, Direction::Inbound { .. }) == arrives
                && family.is_none_or(|family| packet.family() == family)
                && packet.protocol == Protocol::Tcp
                && !is_proxys(proxy, packet)
        };
        if judge.captures(is_meant) {
            continue;
        }
        let Some(item) = LeftOut::of(listed) else { continue };
        let family = family.map(|family| format!("{family} ")).unwrap_or_default();
        let goes = if arrives { "arrives" } else { "leaves" };
        findings.push(Finding::warning(
            Code::Unreachable,
            &listed.setting.row().option(),
            format!("lists {item}, so that no rule behind it captures any {family}connection that {goes}"),
            "leave out of it what is to be captured",
        ));
    }
    findings
}

/// Lists that were given, as candidates for what does nothing beside the others.
fn whole_lists(judge: &Judge<'_>) -> impl Iterator<Item = Idle> {
    let raw = judge.raw;
    let takes_several = |row: &&Row| match row.kind {
        Kind::Value(form) => form.ends_with(".."),
        Kind::Switch => false,
    };
    // How a drop-in runs makes no rule, and has its effect all the same.
    let of_capture = |row: &&Row| row.topic == Topic::Capture;
    let rows = judge.capture.mesh().settings().iter().filter(of_capture).filter(takes_several);
    rows.filter_map(move |row| {
        let given = raw.get(row.setting).filter(|given| !given.value.trim().is_empty())?;
        let finding = Finding::warning(
            Code::NoEffect,
            &given.source.to_string(),
            "has no effect beside the other options",
            "drop the option",
        );
        Some(Idle { finding, change: Change::without(row.setting, LeftOut::Everything) })
    })
}

/// Items that lie in other items of the same list.
fn overlaps(lists: &[Listed]) -> Vec<Idle> {
    let settings: BTreeSet<Setting> = lists.iter().map(|listed| listed.setting).collect();
    let mut found = Vec::new();
    for setting in settings {
        let items = || lists.iter().filter(move |listed| listed.setting == setting);
        let networks: Vec<Cidr> = items().filter_map(network).collect();
        for family in Family::BOTH {
            let networks: Vec<Cidr> =
                networks.iter().copied().filter(|network| network.family() == family).collect();
            found.extend(covered(setting, &networks, addresses));
        }
        let ranges: Vec<PortRange> = items()
            .filter_map(|listed| match &listed.named {
                Named::OutboundPort(ports, _) | Named::InboundPort(ports) => Some(*ports),
                _ => None,
            })
            .collect();
        found.extend(covered(setting, &ranges, ports));
    }
    found
}

fn network(listed: &Listed) -> Option<Cidr> {
    match &listed.named {
        Named::Destination(cidr) | Named::Source(cidr) => Some(*cidr),
        _ => None,
    }
}

/// The item of a list that makes a rule, as the rule's origin and what it asks say.
fn made_by(lists: &[Listed], origin: Origin, rule: &Rule) -> Option<Change> {
    let mut of_setting = lists.iter().filter(|listed| listed.setting.row().name() == origin.option);
    let asks = |listed: &&Listed| {
        rule.matches.iter().any(|asks| match (&listed.named, asks) {
            (Named::Destination(cidr), Match::Destination(Negatable::Is(asked)))
            | (Named::Source(cidr), Match::Source(Negatable::Is(asked))) => cidr == asked,
            (
                Named::OutboundPort(ports, _) | Named::InboundPort(ports),
                Match::DestinationPort(Negatable::Is(asked)),
            ) => ports == asked,
            (
                Named::OutboundPort(ports, _) | Named::InboundPort(ports),
                Match::DestinationPorts(Negatable::Is(asked)),
            ) => asked.ranges() == [*ports],
            (Named::Interface(name) | Named::Machine(name), Match::InInterface(Negatable::Is(asked))) => {
                name == asked
            }
            (Named::Group(gid), Match::GidOwner(Negatable::Is(asked))) => gid == asked,
            _ => false,
        })
    };
    let listed = of_setting.find(asks)?;
    Some(Change::without(listed.setting, LeftOut::of(listed)?))
}

/// Each item of lists that hold several, in the order of the settings.
fn one_by_one(lists: &[Listed], policy: &dyn Policy) -> Vec<Idle> {
    if lists.len() > FEW_ITEMS {
        return Vec::new();
    }
    let is_captured = |listed: &&Listed| match &listed.named {
        Named::Destination(cidr) | Named::Source(cidr) => cidr.family() == Family::V4 || policy.ipv6(),
        Named::Server(address) => address.is_ipv4() || policy.ipv6(),
        _ => true,
    };
    let of_several =
        |listed: &&Listed| lists.iter().filter(|other| other.setting == listed.setting).count() > 1;
    let idle = |listed: &Listed| {
        let item = LeftOut::of(listed)?;
        let finding = Finding::warning(
            Code::NoEffect,
            &listed.setting.row().option(),
            format!("lists {item}, which changes nothing beside the other options"),
            format!("drop {item}"),
        );
        Some(Idle { finding, change: Change::without(listed.setting, item) })
    };
    lists.iter().filter(is_captured).filter(of_several).filter_map(idle).collect()
}
