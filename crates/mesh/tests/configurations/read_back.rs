//! Rules read back from iptables, from our nf_tables table, and from Istio's native mode.

use super::check;
use mesh::recognition::{named, recognized};
use mesh::settings::Setting;
use mesh::{Capture, Mesh, RuleReason};
use rules::nft::{self, LiveChain, LiveRule, LiveTable};
use rules::simulate::{View, ViewChain, ViewRule};
use rules::{Action, Family, ListedCondition, parse, render};
use std::fmt::Write;

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

fn without_comments(listing: &str) -> String {
    let mut pieces = listing.split("-m comment --comment \"");
    let first = pieces.next().unwrap_or_default().to_owned();
    first + &pieces.map(|piece| piece.split_once("\" ").expect("a comment ends").1).collect::<String>()
}

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
        base: chain.base.map(|base| (base, chain.policy)),
        rules: chain.rules.iter().map(rule).collect(),
    };
    let table = |name: &str| {
        let chains = view.chains().iter().filter(|chain| chain.table == name).map(chain).collect();
        LiveTable { family: None, name: format!("inet istio-proxy-{name}"), chains }
    };
    ["raw", "mangle", "nat"].map(table).into()
}

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

fn table(mesh: Mesh, table: &str, rules: &str) -> View {
    let own = mesh.entry().chains.iter().map(|(name, _)| *name).chain(["DOCKER_OUTPUT"]);
    let chains: String = own.map(|name| format!(":{name} - [0:0]\n")).collect();
    let base = ":PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n";
    let text = format!("*{table}\n{base}{chains}{rules}\nCOMMIT\n");
    View::of_listing(parse::listing(&text, Family::V4).expect("a listing"))
}

#[test]
fn forms_of_rules_show_their_reasons() {
    let answer = |question: &str| {
        let (mesh, rules) = question.split_once('\n').expect("a mesh before its rules");
        let mesh: Mesh = mesh.strip_prefix("mesh ").and_then(|name| name.parse().ok()).expect("a mesh");
        let reason = |line: &str| {
            let (name, rule) = line.split_once(' ').expect("a table before its rule");
            let view = table(mesh, name, rule);
            let found = recognized(&view);
            assert!(found.iter().all(|rule| rule.mesh == mesh), "{found:?}");
            let reason = found.first().and_then(|rule| rule.reason);
            format!("{}\n", reason.map_or("nothing", RuleReason::name))
        };
        rules.lines().map(reason).collect()
    };
    check("forms", answer);
}

#[test]
fn no_rule_is_reached_after_an_unconditional_one() {
    let rules = "-A OUTPUT -p tcp -j ISTIO_OUTPUT\n-A ISTIO_OUTPUT -d 10.0.0.0/8 -j RETURN\n\
                 -A ISTIO_OUTPUT -j ISTIO_REDIRECT\n-A ISTIO_OUTPUT -j RETURN\n-A ISTIO_OUTPUT -j RETURN\n\
                 -A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001";
    let view = table(Mesh::Istio, "nat", rules);
    let reached = recognized(&view).into_iter().map(|rule| rule.is_reached);
    assert_eq!(reached.collect::<Vec<_>>(), [true, true, true, true, false, true]);
}
