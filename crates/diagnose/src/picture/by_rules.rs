//! Picture of rules: an arrow is a traffic row, with the deciding setting.

use super::model::{FlowEndpoint, Panel, Picture, PictureFlow, UNKNOWN_PROXY};
use super::words::{Before, Known, Label};
use crate::explain::{PodContext, RuleView, item_texts, option};
use crate::live_proxy::{one_of, proxy_of};
use crate::traffic::{TrafficContext, TrafficPart, TrafficRow, TrafficRows, rows};
use mesh::recognition::{RecognizedRule, recognized};
use mesh::{Capture, ListItem, Proxy, RuleReason, Selector, reason::Meaning, sources::Dialect};
use rules::{InterfaceName, simulate::Verdict};

pub fn of(capture: &Capture, dialect: &Dialect, pod: &PodContext) -> Picture {
    let views: Vec<RuleView> =
        capture.families().map(|family| RuleView::of_config(&**capture, family, pod)).collect();
    let known = Known { proxy: capture.proxy(), program: capture.mesh().entry().proxy_program };
    let machine = |listed: ListItem| match listed.selector {
        Selector::VmInterface(name) => Some(name),
        _ => None,
    };
    let machines: Vec<InterfaceName> = capture.lists().into_iter().filter_map(machine).collect();
    let families = if capture.ipv6() { "IPv4 and IPv6" } else { "IPv4 only; IPv6 is not captured" };
    let mode = known.proxy.listeners.transparent.map_or("", |_| ", inbound by TPROXY");
    let note = match capture.facts().captures_nothing {
        true => "Nothing is captured.".to_owned(),
        false => format!("{}: {families}{mode}.", capture.mesh().ownership().name),
    };
    draw(&views.iter().collect::<Vec<_>>(), pod, &machines, &known, dialect, note)
}

pub fn of_rules(rule_views: &[&RuleView], pod: &PodContext) -> Picture {
    let found: Vec<_> = rule_views.iter().map(|one| recognized(&one.view)).collect();
    let proxy = one_of(found.iter().map(|of_family| proxy_of(of_family)));
    let found: Vec<&RecognizedRule<'_>> = found.iter().flatten().collect();
    let mesh = found.first().map(|rule| rule.mesh);
    // With such a rule, the proxies of all meshes call the application from the same addresses.
    let has_passthrough = found.iter().any(|rule| rule.meaning() == Some(Meaning::ProxyToApplication));
    let known = Known {
        proxy: Proxy { has_passthrough, ..proxy },
        program: mesh.map_or(UNKNOWN_PROXY, |mesh| mesh.entry().proxy_program),
    };
    let of_machines = |rule: &&&RecognizedRule<'_>| {
        matches!(rule.meaning(), Some(Meaning::VirtualMachine | Meaning::VirtualMachineDns))
    };
    let names = found.iter().filter(of_machines).flat_map(|rule| item_texts(rule.rule));
    let mut machines: Vec<InterfaceName> = names.filter_map(|name| name.parse().ok()).collect();
    machines.dedup();
    let note = match mesh {
        Some(mesh) => format!("By the existing rules: {}.", mesh.ownership().name),
        None => "By the existing rules; none of them belong to a mesh.".to_owned(),
    };
    draw(rule_views, pod, &machines, &known, &Dialect::default(), note)
}

fn draw(
    views: &[&RuleView],
    pod: &PodContext,
    machines: &[InterfaceName],
    known: &Known,
    dialect: &Dialect,
    note: String,
) -> Picture {
    let context = TrafficContext { pod, proxy: &known.proxy, machines };
    let is_shown = |part: &TrafficPart| *part != TrafficPart::Machines || !machines.is_empty();
    let parts: Vec<TrafficPart> = TrafficPart::ALL.into_iter().filter(is_shown).collect();
    let of_family = |view: &&RuleView| parts.iter().map(|part| rows(view, *part, &context)).collect();
    let mut families: Vec<Vec<TrafficRows>> = views.iter().map(of_family).collect();
    // If rules act on only one family, the other is omitted.
    let is_done = |row: &TrafficRow| {
        row.end.is_translated || !matches!(row.end.verdict, Verdict::Pass | Verdict::Unknown)
    };
    let acts = |family: &Vec<TrafficRows>| family.iter().flat_map(|part| &part.rows).any(is_done);
    if families.iter().any(acts) {
        families.retain(acts);
    }
    let is_dual = families.len() > 1;
    let mut panels: Vec<Panel> = parts.into_iter().map(|part| Panel::of(part, Vec::new())).collect();
    for (at, panel) in panels.iter_mut().enumerate() {
        let mut of_part: Vec<TrafficRow> = Vec::new();
        for TrafficRows { rows, examples, unusual } in
            families.iter_mut().map(|family| std::mem::take(&mut family[at]))
        {
            panel.unusual.extend(unusual);
            panel.examples.extend(examples);
            merge(&mut of_part, rows);
        }
        panel.flows = flows(of_part, known, panel.part, dialect, is_dual);
    }
    Picture { program: known.program, ..Picture::new(note, panels) }
}

/// Adds another family's rows, in order. Rows equal in both families become one.
fn merge(rows: &mut Vec<TrafficRow>, more: Vec<TrafficRow>) {
    let mut from = 0;
    for row in more {
        match (from..rows.len()).find(|at| rows[*at].take_in(&row)) {
            Some(at) => from = at + 1,
            None => {
                rows.insert(from, row);
                from += 1;
            }
        }
    }
}

fn flows(
    rows: Vec<TrafficRow>,
    known: &Known,
    part: TrafficPart,
    dialect: &Dialect,
    is_dual: bool,
) -> Vec<PictureFlow> {
    let mut flows: Vec<PictureFlow> = Vec::new();
    for row in rows {
        let setting =
            row.end.origin.and_then(RuleReason::setting_of).filter(|setting| dialect.is_given(*setting));
        let option = match (row.end.is_of_others, row.end.is_translated) {
            (true, false) => Some("a rule of another program".to_owned()),
            (true, true) => Some("a rule of another program sends them elsewhere".to_owned()),
            (false, _) => setting.map(|setting| option(setting, dialect)),
        };
        let verdict = row.end.verdict;
        let (from, to) = (known.sender(&row.packets, part), known.recipient(&row, part));
        let flow = PictureFlow { rows: vec![row], from, to, verdict, label: Label::default(), option };
        // Users and groups of the proxy are one sender, even though two settings name them.
        let is_of_proxy = |flow: &PictureFlow| {
            flow.from == FlowEndpoint::Proxy
                && flow.verdict == Verdict::Pass
                && flow.rows.iter().all(|row| row.packets.are_of_owner_alone())
        };
        match flows.last_mut() {
            Some(last) if is_of_proxy(last) && is_of_proxy(&flow) => last.take_in(flow),
            _ => flows.push(flow),
        }
    }
    let mut before = Before::default();
    for flow in &mut flows {
        flow.label = known.label(&flow.rows, part, before, is_dual);
        before.see(flow);
    }
    flows
}
