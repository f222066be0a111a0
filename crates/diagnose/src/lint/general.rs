//! What is suspicious about a configuration of any mesh, by its rules, its lists and its proxy.

use super::change::{Change, Removed};
use super::comparison::Comparison;
use super::excluded::{all_excluded, all_left_alone, dns_excluded, is_proxys};
use super::findings::{Findings, Redundant};
use super::intervals::{addresses, ports};
use super::ipv6::{Held, uncaptured_ipv6};
use super::overlap::covered;
use super::unreachable::unreachable;
use super::{Code, Finding};
use mesh::Reason;
use mesh::limit::Facts;
use mesh::reason::Meaning;
use mesh::settings::{Kind, Row, Setting, Topic};
use mesh::sources::{Raw, Source};
use mesh::{ConfigKeys, Feature, ListItem, Policy, Proxy, Selector};
use rules::simulate::{Direction, Packet};
use rules::{Cidr, Family, Match, Negatable, Origin, PortRange, Rule};
use std::collections::BTreeSet;

/// What is suspicious, and what has no effect, as walks of packets confirm.
///
/// Each item is tried alone where all lists together have at most `few_items`.
pub(super) fn look(comparison: &mut Comparison<'_>, held: &[Held], few_items: usize) -> Findings {
    let policy: &dyn Policy = &**comparison.capture;
    let (proxy, lists) = (policy.proxy(), policy.lists());
    let only = |findings| Findings { findings, redundant: Vec::new() };
    if let Some((setting, remedy)) = policy.keys().off.filter(|_| policy.captures_nothing()) {
        let text = "is NONE: nothing is captured, whatever other options say";
        return only(vec![Finding::note(Code::ModeNone, &setting.row().mention(), text, remedy)]);
    }
    let excluded = all_excluded(comparison, &lists, &proxy);
    if policy.captures_nothing() || !comparison.captures(|packet| !is_proxys(&proxy, packet)) {
        let found = excluded.map(|(_, finding)| finding);
        return only(vec![found.unwrap_or_else(|| nothing(&policy.keys()))]);
    }
    let mut findings = of_all(comparison.raw, policy, held);
    if excluded.is_none() {
        findings.extend(owner(policy, &proxy));
        findings.extend(several_users(comparison, policy, &proxy));
    }
    findings.extend(cautions(comparison, &proxy, &lists));
    findings.extend(dns_excluded(comparison, &lists, &proxy));
    let others = of_other_family(policy, &lists);
    let told: BTreeSet<Setting> = others.iter().map(|(setting, _)| *setting).collect();
    findings.extend(others.into_iter().map(|(_, finding)| finding));
    match &excluded {
        Some((_, finding)) => findings.push(finding.clone()),
        None => findings.extend(all_left_alone(comparison, &lists, &proxy)),
    }
    // Where all that leaves is excluded, what else is said of it makes no difference, and what is preset can't be taken back.
    let is_moot = |setting: Setting| {
        use Feature::{Groups, OutboundExcept, OutboundNetworks, OutboundNetworksExcept, OutboundOnly};
        let of_leaving = [Groups, OutboundExcept, OutboundNetworks, OutboundNetworksExcept, OutboundOnly];
        let is_of_leaving = || setting.row().features.iter().any(|feature| of_leaving.contains(feature));
        excluded.as_ref().is_some_and(|(by, _)| *by != setting) && is_of_leaving()
    };
    let raw = comparison.raw;
    let is_preset = |setting| raw.get(setting).is_some_and(|given| matches!(given.source, Source::Preset(_)));
    let counts = |redundant: &Redundant| {
        let setting = redundant.change.setting;
        !is_moot(setting) && !is_preset(setting)
    };
    let options = whole_options(comparison).into_iter().filter(|one| !told.contains(&one.change.setting));
    let options: Vec<Redundant> = options.filter(counts).collect();
    let mut redundant = comparison.confirmed(options);
    let whole: BTreeSet<Setting> = redundant.iter().map(|one| one.change.setting).collect();
    let mut candidates = overlaps(&lists);
    candidates.extend(unreachable(comparison, |origin, rule| made_by(&lists, origin, rule)));
    if lists.len() <= few_items {
        candidates.extend(one_by_one(&lists, policy));
    }
    candidates.retain(|candidate| !whole.contains(&candidate.change.setting) && counts(candidate));
    redundant.extend(comparison.confirmed(candidates));
    Findings { findings, redundant }
}

/// What the mesh says of settings that work as they are given.
fn cautions(comparison: &Comparison<'_>, proxy: &Proxy, lists: &[ListItem]) -> Vec<Finding> {
    let cautions = comparison.capture.mesh().reasons().cautions();
    if cautions.is_empty() {
        return Vec::new();
    }
    let has = |meaning: Meaning| {
        let statements = comparison.rules.iter().flat_map(|rules| &rules.rules().statements);
        let mut names: Vec<&str> = statements.filter_map(|one| Some(one.origin?.name)).collect();
        names.dedup();
        names.into_iter().any(|name| Reason::named(name).is_some_and(|reason| reason.meaning() == meaning))
    };
    let (captures_inbound, drops_invalid) = (has(Meaning::InboundPort), has(Meaning::Dropped));
    let facts = Facts { proxy, lists, captures_inbound, drops_invalid };
    let found = cautions.iter().filter(|caution| (caution.applies)(&facts));
    found
        .map(|caution| {
            let finding = if caution.is_warning { Finding::warning } else { Finding::note };
            finding(caution.code, &caution.setting.row().mention(), caution.text, caution.remedy)
        })
        .collect()
}

/// Users of the proxy whose calls to their own pod are taken for the application's.
fn several_users(comparison: &mut Comparison<'_>, policy: &dyn Policy, proxy: &Proxy) -> Option<Finding> {
    let option = policy.keys().proxy?.row().mention();
    let others = proxy.uids.get(1..).filter(|others| !others.is_empty())?;
    let calls_own_pod = |packet: &Packet| match &packet.direction {
        Direction::Outbound { interface, uid, .. } => interface == "lo" && others.contains(uid),
        Direction::Inbound { .. } => false,
    };
    (!comparison.captures(calls_own_pod)).then(|| {
        Finding::warning(
            Code::SeveralProxyUsers,
            &option,
            "with several users, calls of all but the first to their own pod are not captured: the first one's rule \
             takes everybody else for the application",
            "run the proxy as one user",
        )
    })
}

/// What words, lists and the proxy tell without trying a packet.
pub(super) fn at_once(raw: &Raw, policy: &dyn Policy, held: &[Held]) -> Vec<Finding> {
    let mut findings = of_all(raw, policy, held);
    findings.extend(owner(policy, &policy.proxy()));
    findings.extend(of_other_family(policy, &policy.lists()).into_iter().map(|(_, finding)| finding));
    findings
}

/// What is odd whatever the mesh has to say beside it.
pub(super) fn of_all(raw: &Raw, policy: &dyn Policy, held: &[Held]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let listeners = policy.keys().listeners;
    for (at, (setting, ports)) in listeners.iter().enumerate() {
        for (other, others) in &listeners[..at] {
            if ports.first() > others.last() || others.first() > ports.last() {
                continue;
            }
            let shared = ports.first().max(others.first());
            findings.push(Finding::warning(
                Code::SharedListener,
                &setting.row().mention(),
                format!(
                    "has port {shared}, as {} has: the proxy can't tell inbound from outbound there",
                    other.row().mention()
                ),
                "give the listeners different ports",
            ));
        }
    }
    findings.extend(uncaptured_ipv6(raw, policy, held));
    findings
}

fn nothing(keys: &ConfigKeys) -> Finding {
    let (setting, remedy) = keys.on;
    let option = setting.map_or_else(|| "all options".to_owned(), |setting| setting.row().mention());
    let text = "nothing is captured: no outbound connection, no inbound port and no DNS query";
    Finding::warning(Code::NothingCaptured, &option, text, remedy)
}

/// Who counts as the proxy.
fn owner(policy: &dyn Policy, proxy: &Proxy) -> Option<Finding> {
    let option = policy.keys().proxy?.row().mention();
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
fn of_other_family(policy: &dyn Policy, lists: &[ListItem]) -> Vec<(Setting, Finding)> {
    if policy.ipv6() {
        return Vec::new();
    }
    let (setting, remedy) = policy.keys().ipv6;
    let finding = |listed: &ListItem| {
        let (item, family) = match &listed.selector {
            Selector::Destination(cidr) | Selector::Source(cidr) => (cidr.to_string(), cidr.family()),
            _ => return None,
        };
        let text = format!(
            "lists {item}, but IPv6 is not captured ({}), so it means nothing",
            setting.row().mention()
        );
        let option = listed.setting.row().mention();
        let remedy = format!("drop {item}, or {remedy}");
        let finding = Finding::warning(Code::OtherFamily, &option, text, remedy);
        (family == Family::V6).then_some((listed.setting, finding))
    };
    lists.iter().filter_map(finding).collect()
}

/// Options that were given, as candidates for what has no effect: those of which the configuration says why, and all lists.
fn whole_options(comparison: &Comparison<'_>) -> Vec<Redundant> {
    let given = |setting: Setting| comparison.raw.get(setting).filter(|given| !given.value.trim().is_empty());
    let redundant = |setting: Setting, text: String, remedy: &str| {
        let source = given(setting)?.source.to_string();
        let finding = Finding::warning(Code::NoEffect, &source, text, remedy);
        Some(Redundant { finding, change: Change::without(setting, Removed::Everything) })
    };
    let unused = comparison.capture.unused();
    let explained = unused
        .iter()
        .filter_map(|one| redundant(one.setting, format!("has no effect: {}", one.because), one.remedy));
    let takes_several = |row: &&Row| match row.kind {
        Kind::Value(form) => form.ends_with(".."),
        Kind::Switch => false,
    };
    // How a drop-in runs makes no rule, and has its effect all the same.
    let of_capture = |row: &&Row| row.topic == Topic::Capture;
    // Whom the proxy runs as is said although it is the default.
    let is_identity = |row: &&Row| row.features.contains(&Feature::Identity);
    let is_explained = |row: &&Row| unused.iter().any(|one| one.setting == row.setting) || is_identity(row);
    let rows = comparison.capture.mesh().settings().iter().filter(of_capture).filter(takes_several);
    let text = "has no effect beside the other options";
    let lists = rows
        .filter(|row| !is_explained(row))
        .filter_map(|row| redundant(row.setting, text.to_owned(), "drop the option"));
    explained.chain(lists).collect()
}

/// Items that lie in other items of the same list.
fn overlaps(lists: &[ListItem]) -> Vec<Redundant> {
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
            .filter_map(|listed| match &listed.selector {
                Selector::OutboundPort(ports, _) | Selector::InboundPort(ports) => Some(*ports),
                _ => None,
            })
            .collect();
        found.extend(covered(setting, &ranges, ports));
    }
    found
}

fn network(listed: &ListItem) -> Option<Cidr> {
    match &listed.selector {
        Selector::Destination(cidr) | Selector::Source(cidr) => Some(*cidr),
        _ => None,
    }
}

/// The item of a list that makes a rule, as the rule's origin and what it asks say.
fn made_by(lists: &[ListItem], origin: Origin, rule: &Rule) -> Option<Change> {
    let mut of_setting = lists.iter().filter(|listed| listed.setting.row().name() == origin.option);
    let asks = |listed: &&ListItem| {
        rule.matches.iter().any(|asks| match (&listed.selector, asks) {
            (Selector::Destination(cidr), Match::Destination(Negatable::Is(asked)))
            | (Selector::Source(cidr), Match::Source(Negatable::Is(asked))) => cidr == asked,
            (
                Selector::OutboundPort(ports, _) | Selector::InboundPort(ports),
                Match::DestinationPort(Negatable::Is(asked)),
            ) => ports == asked,
            (
                Selector::OutboundPort(ports, _) | Selector::InboundPort(ports),
                Match::DestinationPorts(Negatable::Is(asked)),
            ) => asked.ranges() == [*ports],
            (
                Selector::Interface(name) | Selector::Machine(name),
                Match::InInterface(Negatable::Is(asked)),
            ) => name == asked,
            (Selector::Group(gid), Match::GidOwner(Negatable::Is(asked))) => gid == asked,
            _ => false,
        })
    };
    let listed = of_setting.find(asks)?;
    Some(Change::without(listed.setting, Removed::of(listed)?))
}

/// Each item of lists that hold several, in the order of the settings.
fn one_by_one(lists: &[ListItem], policy: &dyn Policy) -> Vec<Redundant> {
    let is_captured = |listed: &&ListItem| match &listed.selector {
        Selector::Destination(cidr) | Selector::Source(cidr) => cidr.family() == Family::V4 || policy.ipv6(),
        Selector::Server(address) => address.is_ipv4() || policy.ipv6(),
        _ => true,
    };
    let of_several =
        |listed: &&ListItem| lists.iter().filter(|other| other.setting == listed.setting).count() > 1;
    let idle = |listed: &ListItem| {
        let item = Removed::of(listed)?;
        let finding = Finding::warning(
            Code::NoEffect,
            &listed.setting.row().mention(),
            format!("lists {item}, which changes nothing beside the other options"),
            format!("drop {item}"),
        );
        Some(Redundant { finding, change: Change::without(listed.setting, item) })
    };
    lists.iter().filter(is_captured).filter(of_several).filter_map(idle).collect()
}
