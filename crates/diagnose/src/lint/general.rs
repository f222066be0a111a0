//! Suspicious settings of any mesh, found from rules, lists and the proxy.

use super::application::{InterfaceAddress, uncaptured_ipv6};
use super::change::{AdvisedChange, ItemsByCondition, Redundant, overlaps, unreachable};
use super::comparison::{LintComparison, MAX_TRIALS};
use super::excluded::{all_outbound_excluded, catch_all_exclusions, dns_excluded, leaving, of_others};
use super::{Code, Finding};
use mesh::limit::{Caution, CautionContext, Limit};
use mesh::reason::Meaning;
use mesh::settings::{Setting, SettingKind, SettingRow, Topic};
use mesh::sources::{Given, Raw, Source};
use mesh::{CapturePolicy, ConfigKeys, Feature, ListItem, Listeners, Proxy, RuleReason, Selector};
use rules::Family;
use rules::nft::{Field, Interval};
use rules::simulate::{PacketSet, loopback_interface};
use std::collections::BTreeSet;

/// Findings confirmed by packet walks. Trials drop items that lie within others or whose rules no packet reaches, and lists with
/// such items; if `is_whole`, also every list, and each of up to [`MAX_TRIALS`] items.
pub(super) fn check_with_packets(
    comparison: &mut LintComparison<'_>,
    interface_addresses: &[InterfaceAddress],
    is_whole: bool,
) -> (Vec<Finding>, Vec<Redundant>) {
    let policy: &dyn CapturePolicy = &**comparison.capture;
    let (mesh::PolicyFacts { captures_nothing, proxy, .. }, lists) = (policy.facts(), policy.lists());
    let only = |finding| (vec![finding], Vec::new());
    if let Some((setting, remedy)) = policy.mesh().entry().keys.off.filter(|_| captures_nothing) {
        let text = "is NONE: nothing is captured, and other options have no effect";
        return only(Finding::note(Code::ModeNone, &setting.row().mention(), text, remedy));
    }
    let excluded = all_outbound_excluded(comparison, &lists, &proxy);
    if captures_nothing || !comparison.captures(|set| of_others(set, &proxy)) {
        let nothing = || nothing_captured(policy.mesh().entry().keys);
        return only(excluded.map_or_else(nothing, |(_, finding)| finding));
    }
    let mut findings = shared_listeners_and_ipv6(comparison.raw, policy, interface_addresses);
    if excluded.is_none() {
        findings.extend(proxy_identity(policy, &proxy));
        findings.extend(several_users(comparison, policy, &proxy));
    }
    let (unused, cautions): (Vec<&Caution>, Vec<&Caution>) =
        cautions(comparison, &proxy, &lists).into_iter().partition(|one| one.code == Code::NoEffect);
    findings.extend(cautions.into_iter().map(|caution| {
        let finding = if caution.is_warning { Finding::warning } else { Finding::note };
        finding(caution.code, &caution.setting.row().mention(), caution.text, caution.remedy)
    }));
    findings.extend(dns_excluded(comparison, &lists, &proxy));
    let others = of_other_family(comparison.raw, policy, &lists);
    let reported: BTreeSet<Setting> = others.iter().map(|(setting, _)| *setting).collect();
    findings.extend(others.into_iter().map(|(_, finding)| finding));
    match &excluded {
        Some((_, finding)) => findings.push(finding.clone()),
        None => findings.extend(catch_all_exclusions(comparison, &lists, &proxy)),
    }
    // If one list excludes all outbound traffic, other outbound settings have no effect anyway.
    let is_moot = |setting: Setting| {
        use Feature::{Groups, OutboundExcept, OutboundNetworks, OutboundNetworksExcept, OutboundOnly};
        let of_outbound = [Groups, OutboundExcept, OutboundNetworks, OutboundNetworksExcept, OutboundOnly];
        let is_of_outbound = || setting.row().features.iter().any(|feature| of_outbound.contains(feature));
        excluded.as_ref().is_some_and(|(by, _)| *by != setting) && is_of_outbound()
    };
    let raw = comparison.raw;
    // A preset was not set by the user, so it can't be dropped.
    let is_preset = |setting| raw.get(setting).is_some_and(|given| matches!(given.source, Source::Preset(_)));
    let counts = |redundant: &Redundant| {
        let setting = redundant.change.setting;
        !is_moot(setting) && !is_preset(setting)
    };
    let mut candidates = overlaps(&lists);
    candidates.extend(unreachable(comparison, &ItemsByCondition::of(&lists)));
    if is_whole && lists.len() <= MAX_TRIALS {
        candidates.extend(one_by_one(&lists, policy));
    }
    let is_tried =
        |setting| is_whole || candidates.iter().any(|candidate| candidate.change.setting == setting);
    let options = whole_options(comparison, &unused, is_tried);
    let options = options.into_iter().filter(|one| !reported.contains(&one.change.setting));
    let options: Vec<Redundant> = options.filter(counts).collect();
    let mut redundant = comparison.confirmed(options);
    let whole: BTreeSet<Setting> = redundant.iter().map(|one| one.change.setting).collect();
    candidates.retain(|candidate| !whole.contains(&candidate.change.setting) && counts(candidate));
    redundant.extend(comparison.confirmed(candidates));
    (findings, redundant)
}

fn cautions(comparison: &LintComparison<'_>, proxy: &Proxy, lists: &[ListItem]) -> Vec<&'static Caution> {
    let mut names: Vec<&str> = comparison.statements().filter_map(|one| Some(one.origin?.name)).collect();
    names.dedup();
    let reasons: Vec<RuleReason> = names.into_iter().filter_map(RuleReason::named).collect();
    let has = |meaning| reasons.iter().any(|reason| reason.meaning() == meaning);
    let (captures_inbound, drops_invalid) = (has(Meaning::InboundPort), has(Meaning::Dropped));
    let facts = CautionContext { raw: comparison.raw, proxy, lists, captures_inbound, drops_invalid };
    comparison.capture.mesh().entry().cautions.iter().filter(|caution| (caution.applies)(&facts)).collect()
}

/// Users of the proxy whose calls to their own pod are mistaken for application calls.
fn several_users(
    comparison: &mut LintComparison<'_>,
    policy: &dyn CapturePolicy,
    proxy: &Proxy,
) -> Option<Finding> {
    let option = policy.mesh().entry().keys.proxy?.row().mention();
    let others = proxy.uids.get(1..).filter(|others| !others.is_empty())?;
    let lo = loopback_interface();
    let users = others.iter().map(|uid| Interval::one(uid.number().into())).collect();
    let calls_own_pod =
        |set: PacketSet| Some(leaving(set)?.with(Field::OutInterface, &lo).with(Field::Uid, &users));
    (!comparison.captures(calls_own_pod)).then(|| {
        Finding::warning(
            Code::SeveralProxyUsers,
            &option,
            "with several users, only the first user's calls to its own pod are captured: its rule treats the \
             other users as applications",
            "run the proxy as one user",
        )
    })
}

pub(super) fn check_without_packets(
    raw: &Raw,
    policy: &dyn CapturePolicy,
    interface_addresses: &[InterfaceAddress],
) -> Vec<Finding> {
    let mut findings = shared_listeners_and_ipv6(raw, policy, interface_addresses);
    findings.extend(proxy_identity(policy, &policy.proxy()));
    findings.extend(of_other_family(raw, policy, &policy.lists()).into_iter().map(|(_, finding)| finding));
    findings
}

/// Findings that need neither packets nor lists: listeners that share a port, and uncaptured IPv6.
pub(super) fn shared_listeners_and_ipv6(
    raw: &Raw,
    policy: &dyn CapturePolicy,
    interface_addresses: &[InterfaceAddress],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Listeners { outbound, inbound, .. } = policy.proxy().listeners;
    if let (Some([of_outbound, of_inbound]), Some(outbound), Some(inbound)) =
        (policy.mesh().entry().keys.listeners, outbound, inbound)
    {
        let shared = inbound.first().max(outbound.first());
        if shared <= inbound.last().min(outbound.last()) {
            findings.push(Finding::warning(
                Code::SharedListener,
                &of_inbound.row().mention(),
                format!(
                    "and {} share port {shared}, where the proxy can't distinguish inbound from outbound",
                    of_outbound.row().mention()
                ),
                "give the listeners different ports",
            ));
        }
    }
    findings.extend(uncaptured_ipv6(raw, policy, interface_addresses));
    findings
}

fn nothing_captured(keys: ConfigKeys) -> Finding {
    let (setting, remedy) = keys.on;
    let text = "nothing is captured: no outbound connection, no inbound port and no DNS query";
    Finding::warning(Code::NothingCaptured, &mention(setting), text, remedy)
}

fn mention(setting: Option<Setting>) -> String {
    setting.map_or_else(|| "all options".to_owned(), |setting| setting.row().mention())
}

fn proxy_identity(policy: &dyn CapturePolicy, proxy: &Proxy) -> Option<Finding> {
    let option = policy.mesh().entry().keys.proxy?.row().mention();
    if proxy.uids.iter().any(|uid| uid.number() == 0) {
        return Some(Finding::warning(
            Code::RootIsProxy,
            &option,
            "root is the proxy's user, so no process that runs as root is captured",
            "run the proxy as a dedicated user",
        ));
    }
    (!proxy.is_known() && proxy.listeners.outbound.is_some()).then(|| {
        Finding::warning(
            Code::UnrecognizedProxy,
            &option,
            "names no user, so the proxy's calls are captured again and loop back to it",
            format!("set {option} to the proxy's user"),
        )
    })
}

/// Items of a family without rules, at most [`MAX_TRIALS`].
fn of_other_family(raw: &Raw, policy: &dyn CapturePolicy, lists: &[ListItem]) -> Vec<(Setting, Finding)> {
    if policy.ipv6() {
        return Vec::new();
    }
    let (setting, remedy) = policy.mesh().entry().keys.ipv6;
    let is_ipv6_network = |listed: &&ListItem| {
        let is_server = matches!(listed.selector, Selector::Server(_));
        !is_server && listed.selector.family() == Some(Family::V6)
    };
    let by = setting.row().mention();
    let finding = |listed: &ListItem| {
        let item = &listed.selector;
        let text = format!("lists {item}, which has no effect: IPv6 is not captured ({by})");
        let option = listed.setting.row().mention();
        let remedy = format!("drop {item}, or {remedy}");
        let edit = AdvisedChange::without(listed).edit(raw);
        (listed.setting, Finding { edit, ..Finding::warning(Code::OtherFamily, &option, text, remedy) })
    };
    lists.iter().filter(is_ipv6_network).take(MAX_TRIALS).map(finding).collect()
}

/// Whole options that may have no effect: options that the configuration reports as unused, and lists.
fn whole_options(
    comparison: &LintComparison<'_>,
    unused: &[&Caution],
    is_tried: impl Fn(Setting) -> bool,
) -> Vec<Redundant> {
    // A field of the pod, such as its DNS servers, has other effects.
    let is_option = |given: &&Given| !matches!(given.source, Source::Field(_));
    let given = |setting: Setting| comparison.raw.stated(setting).filter(is_option);
    let redundant = |setting: Setting, text: String, remedy: &str| {
        let source = given(setting)?.source.to_string();
        let finding = Finding::warning(Code::NoEffect, &source, text, remedy);
        Some(Redundant { finding, change: AdvisedChange::without_option(setting) })
    };
    let explained = unused
        .iter()
        .filter_map(|one| redundant(one.setting, format!("has no effect: {}", one.text), one.remedy));
    let takes_several = |row: &&SettingRow| match row.kind {
        SettingKind::Value(form) => form.ends_with(".."),
        SettingKind::Switch => false,
    };
    // Options of other topics, such as drop-ins, have effects without rules.
    let of_capture = |row: &&SettingRow| row.topic == Topic::Capture;
    // Naming the proxy's user is right even if it is the default.
    let is_identity = |row: &&SettingRow| row.features.contains(&Feature::Identity);
    let is_explained = |row: &&SettingRow| unused.iter().any(|one| one.setting == row.setting);
    let rows = comparison.capture.mesh().settings().iter().filter(of_capture).filter(takes_several);
    let text = "has no effect with the other options";
    let lists = rows
        .filter(|row| !is_explained(row) && !is_identity(row) && is_tried(row.setting))
        .filter_map(|row| redundant(row.setting, text.to_owned(), "drop the option"));
    explained.chain(lists).collect()
}

/// Candidates for removal: each item of a list with several items, in settings order.
fn one_by_one(lists: &[ListItem], policy: &dyn CapturePolicy) -> Vec<Redundant> {
    let is_captured = |listed: &&ListItem| listed.selector.family() != Some(Family::V6) || policy.ipv6();
    let of_several =
        |listed: &&ListItem| lists.iter().filter(|other| other.setting == listed.setting).count() > 1;
    let is_given = |listed: &&ListItem| !matches!(listed.selector, Selector::Tunnel(_));
    let redundant = |listed: &ListItem| {
        let item = &listed.selector;
        let finding = Finding::warning(
            Code::NoEffect,
            &listed.setting.row().mention(),
            format!("lists {item}, which has no effect with the other options"),
            format!("drop {item}"),
        );
        Redundant { finding, change: AdvisedChange::without(listed) }
    };
    lists.iter().filter(is_given).filter(is_captured).filter(of_several).map(redundant).collect()
}

/// One note per limit of the mesh's own rules that affects packets, with the option values of those rules.
pub(super) fn limits(comparison: &mut LintComparison<'_>) -> Vec<Finding> {
    let met = comparison.limits_reached();
    let note = |(limit, about): (&Limit, Vec<String>)| {
        let (text, remedy) = limit.about_items(&about.join(" and "));
        Finding::note(limit.code, &mention(limit.reason.settings().first().copied()), text, remedy)
    };
    met.into_iter().map(note).collect()
}
