//! The common cases as tables, and the packets that take a rule or an arrow.

use diagnose::explain::{self, Case, Explanation, PodContext, RuleView, VerdictKind, usual_cases, written};
use diagnose::picture::Picture;
use mesh::Capture;
use mesh::sources::Dialect;
use rules::Family;
use serde::Serialize;
use std::collections::BTreeMap;

/// The common cases of all families.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageCases {
    pub tables: Vec<PageTable>,
    /// Each word for a verdict, and each key of an option, with its meaning.
    pub legend: Vec<LegendEntry>,
    pub packets: Vec<PagePacket>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PageTable {
    /// The family, where there are several.
    pub family: Option<String>,
    pub title: &'static str,
    pub heads: Vec<&'static str>,
    pub rows: Vec<PageRow>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PageRow {
    pub label: String,
    pub cells: Vec<PageCell>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PageCell {
    pub text: String,
    /// The verdict; `None` where there is no such packet.
    pub kind: Option<VerdictKind>,
    /// The number of the first of its packets that can be asked about.
    pub packet: Option<usize>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LegendEntry {
    pub word: String,
    pub kind: Option<VerdictKind>,
    pub meaning: String,
}

/// A packet that can be asked about.
#[derive(Clone, Debug, Serialize)]
pub struct PagePacket {
    /// The words that ask about it.
    pub ask: String,
    pub kind: VerdictKind,
    /// The lines of the text for iptables-restore whose rules it matches, or may, counted from 0.
    pub lines: Vec<usize>,
    /// The arrow of the picture that it takes.
    pub arrow: Option<(usize, usize)>,
}

/// The longest label of a row, in characters.
const MAX_LABEL: usize = 60;

pub(crate) fn cases(
    capture: &Capture,
    pod: &PodContext,
    picture: &Picture,
    iptables: &str,
    dialect: &Dialect,
) -> PageCases {
    let cases = usual_cases(pod, pod, Some(&**capture));
    let rule_views = rule_views(capture, pod, &cases);
    let matrix = explain::tables(&rule_views.iter().collect::<Vec<_>>(), &cases, true);
    let lines = lines(iptables);
    let mut packets = Vec::new();
    let packet = |family: Family, explained: &Explanation<'_>| {
        let rule_view = rule_views.iter().find(|rule_view| rule_view.family == family)?;
        let of_chain = |at: rules::simulate::At| {
            let chain = &rule_view.view.chains()[at.chain];
            lines.get(&(family, &*chain.table, &*chain.chain))?.get(at.rule).copied()
        };
        Some(PagePacket {
            ask: written(explained.packet(), pod, true)?,
            kind: kind(explained),
            lines: explained.rules_met().filter_map(of_chain).collect(),
            arrow: picture.row_of(explained.packet()),
        })
    };
    let mut tables = Vec::new();
    for table in &matrix.tables {
        let mut rows = Vec::new();
        for line in &table.lines {
            let cells = line.cells.iter().zip(&line.explained).map(|(cell, explained)| {
                let first = packets.len();
                packets.extend(explained.iter().filter_map(|explained| packet(table.family, explained)));
                PageCell {
                    text: cell.text.clone(),
                    kind: explained.first().map(kind),
                    packet: (packets.len() > first).then_some(first),
                }
            });
            rows.push(PageRow { cells: cells.collect(), label: line.label(MAX_LABEL) });
        }
        let family = (rule_views.len() > 1).then(|| table.family.to_string());
        tables.push(PageTable { family, title: table.title, heads: table.heads.clone(), rows });
    }
    let of_word = |word: &explain::VerdictWord| {
        let of =
            |row: &PageRow| row.cells.iter().find(|cell| cell.text == word.word).and_then(|cell| cell.kind);
        let kind = tables.iter().flat_map(|table| &table.rows).find_map(of);
        LegendEntry { word: word.word.clone(), kind, meaning: word.meaning.clone() }
    };
    let mut legend: Vec<LegendEntry> = matrix.words.iter().map(of_word).collect();
    legend.extend(matrix.lists.iter().map(|list| {
        let (word, meaning) = list.described(dialect);
        LegendEntry { word, kind: None, meaning }
    }));
    PageCases { tables, legend, packets }
}

/// The rules of each family that cases are about.
fn rule_views(capture: &Capture, pod: &PodContext, cases: &[Case]) -> Vec<RuleView> {
    let mut families: Vec<Family> = cases.iter().map(|case| case.family).collect();
    families.dedup();
    families.into_iter().map(|family| RuleView::of_config(&**capture, family, pod)).collect()
}

/// The numbers of the lines of each chain's rules, in the order of the chain, in a text for iptables-restore and
/// ip6tables-restore.
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
                // Positions are counted from 1.
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

/// The verdict of a packet alone.
fn kind(explained: &Explanation<'_>) -> VerdictKind {
    VerdictKind::of(explained.outcome().verdict).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_rules_stand_at_their_place_in_the_chain() {
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
