//! Rules as a picture's skeleton: chains as boxes, rules as their rows, jumps as arrows from a row to a box.
//!
//! The three picture formats draw the same skeleton. Where a packet ends (a listener, nowhere) is a box too.

use super::iptables;
use crate::{Chain, Checked, Statement, Table, Target};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The boxes; a box comes after some box that leads to it.
    pub boxes: Vec<Node>,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A base chain, where packets come in.
    Hook,
    /// A user-defined chain.
    Chain,
    /// Where packets end.
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it stands for.
    pub kind: Kind,
    pub title: String,
    /// One row a rule.
    pub rows: Vec<Row>,
    /// Jumps on the longest way from a hook: the column to draw it in.
    pub depth: usize,
}

/// A rule in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it asks; `all` if nothing.
    pub conditions: String,
    /// What it does, where it leads to no other box.
    pub action: Option<Cow<'static, str>>,
    /// The index of the box that it leads to.
    pub leads_to: Option<usize>,
}

/// What stands out in a picture: a packet's way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Highlight {
    /// The boxes that it comes through, by index.
    pub boxes: BTreeSet<usize>,
    /// The rows that it fulfils: the box, and the row in it.
    pub rows: BTreeSet<(usize, usize)>,
}

/// The skeleton of a rule set. Rules that report hits are left out.
pub fn graph(rules: &Checked) -> Graph {
    let mut graph = Graph { boxes: Vec::new() };
    for table in [Table::Raw, Table::Mangle, Table::Nat] {
        add_table(&mut graph, rules, table);
    }
    deepen(&mut graph);
    graph
}

fn add_table(graph: &mut Graph, rules: &Checked, table: Table) {
    let chains = rules.rules().chains(table);
    let mut places: BTreeMap<Chain, usize> = BTreeMap::new();
    for chain in chains.keys() {
        let kind = if matches!(chain, Chain::Base(_)) { Kind::Hook } else { Kind::Chain };
        places.insert(chain.clone(), graph.boxes.len());
        graph.boxes.push(Node { kind, title: format!("{table} {chain}"), rows: Vec::new(), depth: 0 });
    }
    for (chain, statements) in &chains {
        let rows = statements.iter().filter_map(|statement| row(graph, &places, statement)).collect();
        graph.boxes[places[chain]].rows = rows;
    }
}

fn row(graph: &mut Graph, places: &BTreeMap<Chain, usize>, statement: &Statement) -> Option<Row> {
    let (action, leads_to) = match &statement.rule.target {
        Target::Accept => (Some("accept"), None),
        Target::Return => (Some("return"), None),
        Target::SetMark(_) | Target::SetConnmark(_) | Target::SaveMark | Target::RestoreMark => {
            (Some("mark"), None)
        }
        Target::SetZone(_) => (Some("zone"), None),
        Target::Jump(name) => (None, places.get(&Chain::User(name.clone())).copied()),
        Target::JumpForeign(name) => (None, Some(end(graph, format!("somebody else's {name}")))),
        Target::Redirect(ports) => (None, Some(end(graph, format!("listener at {}", ports.dashed())))),
        Target::Tproxy { port, .. } => (None, Some(end(graph, format!("transparent listener at {port}")))),
        Target::Drop => (None, Some(end(graph, "dropped".to_owned()))),
        Target::Nflog { .. } | Target::Log { .. } => return None,
    };
    let conditions: Vec<String> = statement.rule.matches.iter().map(iptables::condition).collect();
    let conditions = if conditions.is_empty() { "all".to_owned() } else { conditions.join(" ") };
    Some(Row { conditions, action: action.map(Cow::Borrowed), leads_to })
}

/// The box of an end, made when it is first needed.
fn end(graph: &mut Graph, title: String) -> usize {
    let found = graph.boxes.iter().position(|node| node.kind == Kind::End && node.title == title);
    found.unwrap_or_else(|| {
        graph.boxes.push(Node { kind: Kind::End, title, rows: Vec::new(), depth: 0 });
        graph.boxes.len() - 1
    })
}

/// Puts each box right of all that lead to it. A checked rule set has no loops, so this ends.
fn deepen(graph: &mut Graph) {
    loop {
        let mut changed = false;
        for index in 0..graph.boxes.len() {
            let next = graph.boxes[index].depth + 1;
            let targets: Vec<usize> = graph.boxes[index].rows.iter().filter_map(|row| row.leads_to).collect();
            for target in targets {
                if graph.boxes[target].depth < next {
                    graph.boxes[target].depth = next;
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    let deepest = graph.boxes.iter().map(|node| node.depth).max().unwrap_or_default();
    for node in graph.boxes.iter_mut().filter(|node| node.kind == Kind::End) {
        node.depth = deepest;
    }
}
