//! Live rules back into the policy's words: which of them are the mesh's, and why each is there.
//!
//! Our table of nf_tables says why in its comments. Rules of iptables, ours and upstream's, and those of upstream's native
//! mode say nothing; there the chain that a rule stands in, what it asks and what it does tell. A test holds that reading
//! against the policy that wrote the rules, for every scenario of the catalogue.

use super::asks::{Asked, Asks};
use crate::istio::{OWNERSHIP, PREFIX, Reason};
use crate::settings::Setting;
use rules::simulate::{At, View, ViewChain, ViewRule};
use rules::{Action, Hook, Target};
use std::collections::BTreeSet;

/// A rule of the mesh's.
#[derive(Clone, Debug)]
pub(super) struct Meant<'a> {
    pub(super) at: At,
    pub(super) chain: &'a ViewChain,
    pub(super) rule: &'a ViewRule,
    pub(super) asks: Asks,
    pub(super) role: Role,
    /// Why it is there; `None` where nothing tells.
    pub(super) reason: Option<Reason>,
    /// The setting that made it, where it is known or only one can.
    pub(super) setting: Option<Setting>,
    /// Whether packets of the family come there.
    pub(super) is_reached: bool,
}

/// What a chain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The kernel calls it.
    Base(Hook),
    Inbound,
    Outbound,
    ToOutboundListener,
    ToInboundListener,
    Dns,
    Divert,
    Drop,
    /// Another chain of the mesh's.
    Other,
}

/// Which table of iptables, or what stands for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Raw,
    Mangle,
    Nat,
    Other,
}

/// All rules of the mesh's that say something, in the order of their chains.
pub(super) fn meant(view: &View) -> Vec<Meant<'_>> {
    let mut found = Vec::new();
    let reach = view.reach();
    for (chain, held) in view.chains().iter().enumerate() {
        let Some(role) = role(view, held) else { continue };
        for (rule, line) in held.rules.iter().enumerate() {
            let asks = Asks::of(&line.conditions);
            if says_nothing(line) || (is_base(role) && !is_meshs(view, held, line, &asks)) {
                continue;
            }
            let told = line.origin.and_then(|origin| Reason::named(origin.name));
            let reason = told.or_else(|| read(view, held, role, rule, &asks));
            let by_origin = line.origin.and_then(|origin| {
                let settings = reason?.settings().iter();
                settings.copied().find(|setting| setting.row().name() == origin.option)
            });
            let setting = by_origin.or_else(|| read_setting(reason?, &asks));
            let at = At { chain, rule };
            let is_reached = rule < reach[chain] && view.is_of_family(line);
            found.push(Meant { at, chain: held, rule: line, asks, role, reason, setting, is_reached });
        }
    }
    groups_of_the_proxy(&mut found);
    found
}

/// Why each rule of the mesh's is there, as it can be told from the rules alone.
pub fn reasons(view: &View) -> Vec<(At, Option<Reason>)> {
    meant(view).into_iter().map(|meant| (meant.at, meant.reason)).collect()
}

/// Reports to a listener change nothing.
fn says_nothing(rule: &ViewRule) -> bool {
    rule.origin.is_none() && rule.action.surely_continues()
}

fn is_base(role: Role) -> bool {
    matches!(role, Role::Base(_))
}

/// The chain's name as iptables' programs know it: `nat_ISTIO_OUTPUT` and `istio-output` are `ISTIO_OUTPUT`.
fn plain(name: &str) -> String {
    let upper = name.to_uppercase().replace('-', "_");
    upper.find(PREFIX).map_or(upper.clone(), |at| upper[at..].to_owned())
}

/// What the chain is for; `None` of one that is nobody's of the mesh.
fn role(view: &View, held: &ViewChain) -> Option<Role> {
    if let Some(base) = held.base {
        return Some(Role::Base(base.hook));
    }
    if !is_owned(view, held) {
        return None;
    }
    Some(match plain(&held.chain).as_str() {
        "ISTIO_INBOUND" => Role::Inbound,
        "ISTIO_OUTPUT" => Role::Outbound,
        "ISTIO_REDIRECT" => Role::ToOutboundListener,
        "ISTIO_IN_REDIRECT" | "ISTIO_TPROXY" => Role::ToInboundListener,
        "ISTIO_OUTPUT_DNS" => Role::Dns,
        "ISTIO_DIVERT" => Role::Divert,
        "ISTIO_DROP" => Role::Drop,
        _ => Role::Other,
    })
}

/// Whether a chain that rules lead to is the mesh's, or that of its predecessor.
fn is_owned(view: &View, held: &ViewChain) -> bool {
    if is_table_of_ours(held) {
        return true;
    }
    let stands =
        |name: &str| view.chains().iter().any(|other| other.table == held.table && other.chain == name);
    OWNERSHIP.owns_chain_among(&held.chain, &stands)
}

fn is_table_of_ours(held: &ViewChain) -> bool {
    let Some(name) = held.table.strip_prefix("inet ") else { return false };
    name == OWNERSHIP.table || OWNERSHIP.predecessor.is_some_and(|known| known.tables.contains(&name))
}

/// Whether a rule of a chain that the kernel calls is the mesh's.
fn is_meshs(view: &View, held: &ViewChain, rule: &ViewRule, asks: &Asks) -> bool {
    let leads_to_us =
        |rule: &ViewRule| rule.leads_to.is_some_and(|chain| is_owned(view, &view.chains()[chain]));
    let is_marked = asks.comment.as_deref() == Some(OWNERSHIP.comment);
    if is_table_of_ours(held) || leads_to_us(rule) || is_marked {
        return true;
    }
    // Upstream's, which carry no comment: the forms that it writes, where something leads to its chains.
    let is_capturing = matches!(kind(held), Kind::Nat | Kind::Mangle);
    let is_one = |asked: &Option<Asked>| asked.as_ref().is_some_and(|asked| !asked.negated);
    let is_interface = (is_one(&asks.in_interface) || is_one(&asks.out_interface))
        && [&asks.source, &asks.destination, &asks.destination_port].iter().all(|asked| asked.is_none());
    let leads_from = |of_table: bool| {
        let chains = view.chains().iter().filter(|other| other.base.is_some());
        let mut chains = chains.filter(|other| !of_table || other.table == held.table);
        chains.any(|other| other.rules.iter().any(leads_to_us))
    };
    is_capturing
        && match rule.action {
            Action::Target(Target::Return) if is_interface => {
                leads_from(true) || asks.more && leads_from(false)
            }
            Action::Target(Target::SaveMark | Target::RestoreMark) => asks.more && leads_from(false),
            Action::Target(Target::SetMark(_)) => {
                (asks.uid.is_some() || asks.gid.is_some()) && leads_from(false)
            }
            _ => false,
        }
}

fn kind(held: &ViewChain) -> Kind {
    // `nat`, `nat (iptables-nft)`, `inet istio-proxy-nat`; ours names its chains after tables.
    let table = match held.table.strip_prefix("inet ") {
        Some(name) if name == OWNERSHIP.table => held.chain.split('_').next().unwrap_or_default(),
        Some(name) => name.rsplit('-').next().unwrap_or_default(),
        None => held.table.split(' ').next().unwrap_or_default(),
    };
    match table {
        "raw" => Kind::Raw,
        "mangle" => Kind::Mangle,
        "nat" => Kind::Nat,
        _ => Kind::Other,
    }
}

/// Why a rule is there that does not say so.
fn read(view: &View, held: &ViewChain, role: Role, index: usize, asks: &Asks) -> Option<Reason> {
    let rule = &held.rules[index];
    let to = rule.leads_to.and_then(|chain| self::role(view, &view.chains()[chain]));
    if kind(held) == Kind::Raw {
        return Some(Reason::Dns);
    }
    match role {
        Role::ToOutboundListener => Some(Reason::ToOutboundListener),
        Role::ToInboundListener => Some(Reason::ToInboundListener),
        Role::Dns => Some(Reason::Dns),
        Role::Divert => Some(Reason::TproxyMark),
        Role::Drop => Some(Reason::DropInvalid),
        Role::Inbound => inbound(held, index, asks, to),
        Role::Outbound => outbound(rule, asks, to),
        Role::Base(hook) => base(view, held, hook, rule, asks, to),
        Role::Other => None,
    }
}

/// Whether a rule itself hands packets to a listener.
pub(super) fn captures(rule: &ViewRule) -> bool {
    matches!(
        rule.action,
        Action::Target(Target::Redirect(_) | Target::Tproxy { .. }) | Action::RedirectSamePort
    )
}

fn returns(rule: &ViewRule) -> bool {
    matches!(rule.action, Action::Target(Target::Return | Target::Accept))
}

fn is_loopback(asked: Option<&Asked>) -> bool {
    asked.is_some_and(|asked| !asked.negated && asked.items.iter().any(|item| item == "lo"))
}

fn inbound(held: &ViewChain, index: usize, asks: &Asks, to: Option<Role>) -> Option<Reason> {
    let rule = &held.rules[index];
    if matches!(to, Some(Role::ToInboundListener | Role::Divert)) || captures(rule) {
        return Some(Reason::InboundPort);
    }
    if !returns(rule) {
        return None;
    }
    let first = held.rules.iter().position(|rule| !says_nothing(rule));
    if let Some(ports) = &asks.destination_port {
        let is_tunnels = kind(held) == Kind::Nat && first == Some(index) && ports.items.len() == 1;
        return Some(if is_tunnels { Reason::TunnelPort } else { Reason::ExcludedInboundPort });
    }
    match (&asks.source, is_loopback(asks.in_interface.as_ref()), asks.more) {
        (Some(_), ..) => Some(Reason::ProxyToApplication),
        (None, true, _) => Some(Reason::ApplicationLoopback),
        (None, false, true) => Some(Reason::TproxyMark),
        (None, false, false) => None,
    }
}

fn outbound(rule: &ViewRule, asks: &Asks, to: Option<Role>) -> Option<Reason> {
    match to {
        Some(Role::Dns) => return Some(Reason::Dns),
        Some(Role::ToInboundListener) => return Some(Reason::ProxyCallsOwnPod),
        Some(Role::ToOutboundListener) => {
            let is_of_ports = asks.destination_port.is_some();
            return Some(if is_of_ports { Reason::OutboundPort } else { Reason::OutboundNetwork });
        }
        _ => {}
    }
    if !returns(rule) {
        return None;
    }
    let owner = asks.uid.as_ref().or(asks.gid.as_ref());
    match (owner, &asks.destination, &asks.destination_port) {
        (Some(owner), ..) if owner.negated && is_loopback(asks.out_interface.as_ref()) => {
            Some(Reason::ApplicationLoopback)
        }
        (Some(owner), ..) if owner.negated => Some(Reason::OtherGroups),
        (Some(_), ..) => Some(Reason::ProxyOutbound),
        (None, Some(networks), _) => {
            let loopback = |item: &String| item.starts_with("127.") || item == "::1";
            let is_loopback = networks.items.iter().all(loopback);
            Some(if is_loopback { Reason::Loopback } else { Reason::ExcludedNetwork })
        }
        (None, None, Some(_)) => Some(Reason::ExcludedOutboundPort),
        (None, None, None) if asks.source.is_some() => Some(Reason::ProxyToApplication),
        // Of no group is anything captured.
        (None, None, None) if asks.out_interface.is_none() && !asks.more => Some(Reason::OtherGroups),
        (None, None, None) => None,
    }
}

fn base(
    view: &View,
    held: &ViewChain,
    hook: Hook,
    rule: &ViewRule,
    asks: &Asks,
    to: Option<Role>,
) -> Option<Reason> {
    match (to, &rule.action) {
        (Some(Role::Inbound), _) => Some(Reason::InboundPort),
        (Some(Role::Outbound), _) => Some(Reason::Outbound),
        (Some(Role::ToOutboundListener), _) => Some(Reason::OutboundNetwork),
        (Some(Role::Dns), _) => Some(Reason::Dns),
        (Some(Role::Drop), _) | (None, Action::Target(Target::Drop)) => Some(Reason::DropInvalid),
        (None, Action::Target(Target::SaveMark | Target::RestoreMark)) => Some(Reason::TproxyMark),
        (None, Action::Target(Target::SetMark(_))) => Some(Reason::ProxyCallsOwnPod),
        (None, Action::Target(Target::Return)) if asks.more => Some(Reason::TproxyMark),
        (None, Action::Target(Target::Return)) => {
            let items = asks.in_interface.as_ref().or(asks.out_interface.as_ref())?;
            let twin = |other: &ViewChain| {
                other.table == held.table
                    && other.base.is_some_and(|base| base.hook == Hook::Output)
                    && other
                        .rules
                        .iter()
                        .any(|rule| Asks::of(&rule.conditions).out_interface.as_ref() == Some(items))
            };
            let is_both_ways = hook == Hook::Output || view.chains().iter().any(twin);
            Some(if is_both_ways { Reason::ExcludedInterface } else { Reason::VmInterface })
        }
        _ => None,
    }
}

/// Of several settings that make such rules, the one that this rule shows.
fn read_setting(reason: Reason, asks: &Asks) -> Option<Setting> {
    match (reason.settings(), asks.gid.is_some()) {
        ([one], _) => Some(*one),
        ([Setting::ProxyUid, Setting::ProxyGid], false) => Some(Setting::ProxyUid),
        ([Setting::ProxyUid, Setting::ProxyGid], true) => Some(Setting::ProxyGid),
        _ => None,
    }
}

/// A group that is left alone is the proxy's if other rules of the proxy's name it.
fn groups_of_the_proxy(found: &mut [Meant<'_>]) {
    let names_proxy = |meant: &&Meant<'_>| {
        matches!(meant.reason, Some(Reason::ProxyCallsOwnPod | Reason::ApplicationLoopback))
    };
    let of_proxy =
        found.iter().filter(names_proxy).filter_map(|meant| Some(meant.asks.gid.as_ref()?.items.clone()));
    let of_proxy: BTreeSet<String> = of_proxy.flatten().collect();
    for meant in found {
        let others = |asked: &Asked| !asked.items.iter().any(|group| of_proxy.contains(group));
        if meant.reason == Some(Reason::ProxyOutbound)
            && meant.rule.origin.is_none()
            && meant.asks.gid.as_ref().is_some_and(others)
        {
            meant.reason = Some(Reason::ExcludedGroup);
            meant.setting = Some(Setting::OwnerGroupsExclude);
        }
    }
}
