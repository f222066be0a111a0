//! Packets offered by the page: at least one for each rule and each arrow.

use diagnose::explain::{PodContext, RuleView, VerdictKind, explain, written};
use diagnose::picture::Picture;
use mesh::Capture;
use rules::Family;
use rules::simulate::{At, Packet};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Serialize)]
pub struct PagePacket {
    pub ask: String,
    pub kind: VerdictKind,
    /// Lines of the iptables-restore input whose rules it matches or may match, from 0.
    pub lines: Vec<usize>,
    pub arrow: Option<(usize, usize)>,
}

/// A packet of each kind that the rules distinguish.
pub(crate) fn packets(
    capture: &Capture,
    pod: &PodContext,
    picture: &Picture,
    iptables: &str,
) -> Vec<PagePacket> {
    let rule_views: Vec<RuleView> =
        capture.families().map(|family| RuleView::of_config(&**capture, family, pod)).collect();
    let lines = lines(iptables);
    let mut asks = BTreeSet::new();
    let of_packet = |packet: &Packet| {
        let rule_view = rule_views.iter().find(|rule_view| rule_view.family == packet.family())?;
        let explained = explain(&rule_view.view, &rule_view.routing, packet);
        let of_chain = |at: At| {
            let chain = &rule_view.view.chains()[at.chain];
            lines.get(&(rule_view.family, &*chain.table, &*chain.chain))?.get(at.rule).copied()
        };
        Some(PagePacket {
            ask: written(packet, pod, true).filter(|ask| asks.insert(ask.clone()))?,
            kind: VerdictKind::of(explained.outcome().verdict).0,
            lines: explained.rules_met().filter_map(of_chain).collect(),
            arrow: picture.at(packet),
        })
    };
    picture.panels.iter().flat_map(|panel| &panel.examples).filter_map(of_packet).collect()
}

/// Line numbers of each chain's rules, in the chain's order, in input for iptables-restore and ip6tables-restore.
fn lines(text: &str) -> BTreeMap<(Family, &str, &str), Vec<usize>> {
    let mut found: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let (mut family, mut table) = (Family::V4, "");
    for (number, line) in text.lines().enumerate() {
        match line.split_once(' ') {
            Some((verb @ ("-A" | "-I"), rule)) => {
                let mut words = rule.split(' ');
                let of_chain = found.entry((family, table, words.next().unwrap_or_default())).or_default();
                let place =
                    words.next().filter(|_| verb == "-I").and_then(|place| place.parse::<usize>().ok());
                // Positions start at 1.
                let index = place.map_or(of_chain.len(), |place| place.saturating_sub(1).min(of_chain.len()));
                of_chain.insert(index, number);
            }
            Some(("*", name)) => table = name,
            Some(("#", program)) => {
                family = if program.starts_with("ip6") { Family::V6 } else { Family::V4 };
            }
            Some(_) | None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_rules_are_at_their_position_in_the_chain() {
        let text = "# iptables-restore\n* nat\n-N A\n-A OUTPUT -j A\n-I OUTPUT 1 -p udp -j RETURN\n\
                    -I OUTPUT 2 -o lo -j RETURN\n-A A -j RETURN\nCOMMIT\n\
                    # ip6tables-restore\n* nat\n-A OUTPUT -j RETURN\nCOMMIT\n";
        let expected = [
            ((Family::V4, "nat", "A"), vec![6]),
            ((Family::V4, "nat", "OUTPUT"), vec![4, 5, 3]),
            ((Family::V6, "nat", "OUTPUT"), vec![10]),
        ];
        assert_eq!(lines(text), BTreeMap::from(expected));
    }
}
