//! Rules as they are read back: from iptables, from our table of nf_tables, and from Istio's native mode.

use mesh::recognition::{named, recognized};
use mesh::settings::Setting;
use mesh::{Capture, Mesh};
use rules::nft::{self, LiveBase, LiveChain, LiveRule, LiveTable};
use rules::simulate::{View, ViewChain, ViewRule};
use rules::{Action, Family, ListedCondition, parse, render};
use std::fmt::Write;

/// Each rule as it is read back: the reason, the setting and the meaning.
fn read_back(view: &View) -> String {
    let mut text = String::new();
    let option = |setting: Option<Setting>| setting.map(|setting| setting.row().option());
    assert_eq!(named(view.clone()), *view);
    for rule in recognized(view) {
        let chain = &view.chains()[rule.at.chain];
        let place = format!("{} {} {} {}", rule.mesh, chain.table, chain.chain, rule.at.rule + 1);
        let (reason, setting) = (rule.reason.map(|reason| reason.name()), option(rule.setting));
        let _ = write!(text, "{place} {reason:?} {setting:?} {:?} {:?}", rule.role, rule.meaning());
        text += if rule.is_reached { "\n" } else { ", not reached\n" };
    }
    text
}

/// A listing without its comments, as programs write rules that have none.
fn without_comments(listing: &str) -> String {
    let mut pieces = listing.split("-m comment --comment \"");
    let first = pieces.next().unwrap_or_default().to_owned();
    first + &pieces.map(|piece| piece.split_once("\" ").expect("a comment ends").1).collect::<String>()
}

/// The rules of a listing as Istio's native mode has them: in tables of nf_tables, one for each of iptables.
fn native_mode(view: &View) -> Vec<LiveTable> {
    let native_name = |name: &str| name.to_lowercase().replace('_', "-");
    let condition = |condition: &ListedCondition| match condition {
        ListedCondition::Known(known) => known.condition().map(ListedCondition::Nft),
        other => Some(other.clone()),
    };
    let rule = |rule: &ViewRule| LiveRule {
        text: String::new(),
        conditions: rule.conditions.iter().filter_map(condition).collect(),
        first: Vec::new(),
        action: match rule.action.chain() {
            Some(chain) => Action::Call { chain: native_name(chain.as_str()), returns: true },
            None => rule.action.clone(),
        },
        comment: String::new(),
        hits: None,
    };
    let chain = |chain: &ViewChain| LiveChain {
        name: native_name(&chain.chain),
        base: chain.base.map(|base| LiveBase { base, policy: chain.policy }),
        rules: chain.rules.iter().map(rule).collect(),
    };
    let table = |name: &str| {
        let chains = view.chains().iter().filter(|chain| chain.table == name).map(chain).collect();
        LiveTable { family: None, name: format!("inet istio-proxy-{name}"), chains }
    };
    ["raw", "mangle", "nat"].map(table).into()
}

/// The rules of a family as they are read back: from iptables, with and without comments, and from nf_tables.
pub(crate) fn all_read_back(capture: &Capture, family: Family) -> String {
    let listing = render::iptables::restore(&capture.rules(family));
    let listed = |text: &str| named(View::of_listing(parse::listing(text, family).expect("a listing")));
    let v6 = capture.rules(Family::V6);
    let table = nft::table(capture.owner().table, &capture.rules(Family::V4), capture.ipv6().then_some(&v6));
    let in_nftables = |tables: Vec<LiveTable>| {
        let mut view = View::empty(family);
        tables.into_iter().for_each(|table| view.add_nftables(table));
        named(view)
    };
    let bare = listed(&without_comments(&listing));
    let native = (capture.mesh() == Mesh::Istio).then(|| in_nftables(native_mode(&bare)));
    let views = [
        ("iptables", Some(listed(&listing))),
        ("iptables, without comments", Some(bare)),
        ("nf_tables", Some(in_nftables(table.iter().map(nft::InetTable::listed).collect()))),
        ("nf_tables, as Istio's native mode", native),
    ];
    let section = |(from, view): &(&str, Option<View>)| {
        let text = read_back(view.as_ref()?);
        Some(format!("---- read back, {family}, {from}\n{text}"))
    };
    views.iter().filter_map(section).collect()
}
