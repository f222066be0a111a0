//! Rules as a picture's skeleton: chains as boxes, rules as their rows, jumps as arrows from a row to a box.
//!
//! The three picture formats draw the same skeleton. Where a packet ends (a listener, nowhere) is a box too.

use crate::simulate::{View, ViewChain, ViewRule};
use crate::{Action, Checked, Target};
use std::{borrow::Cow, collections::BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The boxes; a box comes after some box that leads to it.
    pub boxes: Vec<Node>,
}

/// The kind of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxKind {
    /// A base chain, where packets come in.
    Hook,
    /// A user-defined chain.
    Chain,
    /// Where packets end.
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its kind.
    pub kind: BoxKind,
    pub title: String,
    /// One row a rule.
    pub rows: Vec<Row>,
    /// Jumps on the longest way from a hook: the column to draw it in.
    pub depth: usize,
}

/// A rule in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its conditions, in words; `all` if it has none.
    pub conditions: String,
    /// What it does, where it leads to no other box.
    pub action: Option<Cow<'static, str>>,
    /// The index of the box that it leads to.
    pub leads_to: Option<usize>,
}

/// The highlighted part of a picture: a packet's way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Highlight {
    /// The boxes that it comes through, by index.
    pub boxes: BTreeSet<usize>,
    /// The rows that it fulfils: the box, and the row in it.
    pub rows: BTreeSet<(usize, usize)>,
}

/// The skeleton of a rule set, table by table. Rules that report packets are left out.
pub fn graph(rules: &Checked) -> Graph {
    let view = View::of_rules(rules.rules());
    let (mut graph, mut places) = (Graph::default(), Vec::new());
    let is_report = |rule: &ViewRule| matches!(&rule.action, Action::Target(target) if target.is_report());
    for table in view.chains().chunk_by(|one, other| one.table == other.table) {
        graph.add(table, &mut places, |rule| !is_report(rule));
    }
    deepen(&mut graph);
    graph
}

impl Graph {
    /// The chains by their index in the view, then the ends.
    pub fn of(view: &View) -> Self {
        let mut graph = Self::default();
        graph.add(view.chains(), &mut Vec::new(), |_| true);
        graph
    }

    /// Adds the chains that come next in their view. `places` are the boxes of those before.
    fn add(&mut self, chains: &[ViewChain], places: &mut Vec<usize>, shown: impl Fn(&ViewRule) -> bool) {
        let first = self.boxes.len();
        places.extend(first..first + chains.len());
        self.boxes.extend(chains.iter().map(|content| Node {
            kind: if content.base.is_some() { BoxKind::Hook } else { BoxKind::Chain },
            title: format!("{} {}", content.table, content.chain),
            rows: Vec::new(),
            depth: 0,
        }));
        for (content, place) in chains.iter().zip(first..) {
            let rows = content.rules.iter().filter(|rule| shown(rule));
            let rows = rows.map(|rule| row(self, rule, places)).collect();
            self.boxes[place].rows = rows;
        }
    }
}

fn row(graph: &mut Graph, rule: &ViewRule, places: &[usize]) -> Row {
    let (action, leads_to) = match effect(&rule.action) {
        GraphEffect::Here(action) => (Some(action), None),
        GraphEffect::Chain(name) => match rule.leads_to.and_then(|chain| places.get(chain)) {
            Some(place) => (None, Some(*place)),
            None => (Some(name.to_owned().into()), None),
        },
        GraphEffect::End(title) => (None, Some(end(graph, title))),
    };
    let conditions: Vec<String> = rule.conditions.iter().map(super::listed::condition).collect();
    let conditions = if conditions.is_empty() { "all".to_owned() } else { conditions.join(" ") };
    Row { conditions, action, leads_to }
}

/// What a rule does to a packet's way.
enum GraphEffect<'a> {
    Here(Cow<'static, str>),
    Chain(&'a str),
    End(String),
}

fn effect(action: &Action) -> GraphEffect<'_> {
    let here = |text: &'static str| GraphEffect::Here(text.into());
    match action {
        Action::Target(target) => match target {
            Target::Accept => here("accept"),
            Target::Return => here("return"),
            Target::SetZone(_) => here("zone"),
            Target::Nflog { .. } => here("report"),
            Target::Log { .. } => here("log"),
            Target::JumpForeign(name) => GraphEffect::End(format!("foreign chain {name}")),
            Target::Redirect(ports) => GraphEffect::End(format!("listener at {}", ports.dashed())),
            Target::Tproxy { port, .. } => GraphEffect::End(format!("transparent listener at {port}")),
            Target::Drop => GraphEffect::End("dropped".to_owned()),
            other => other.chain().map_or_else(|| here("mark"), |name| GraphEffect::Chain(name.as_str())),
        },
        Action::Goto(name) => GraphEffect::Chain(name.as_str()),
        Action::Call { chain, .. } => GraphEffect::Chain(chain),
        Action::Reject => GraphEffect::End("rejected".to_owned()),
        Action::RedirectSamePort => GraphEffect::End("listener at the same port".to_owned()),
        Action::Notrack => here("not tracked"),
        Action::Destination { address, ports } => {
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            let ports = ports.map(|ports| format!(" port {}", ports.dashed())).unwrap_or_default();
            GraphEffect::End(format!("sent to {}", format!("{address}{ports}").trim()))
        }
        Action::Continue(text)
        | Action::Source(text)
        | Action::UnknownMark(text)
        | Action::UnknownZone(text)
        | Action::Unknown(text) => GraphEffect::Here(text.clone().into()),
    }
}

/// The box of an end, made when it is first needed.
fn end(graph: &mut Graph, title: String) -> usize {
    let found = graph.boxes.iter().position(|node| node.kind == BoxKind::End && node.title == title);
    found.unwrap_or_else(|| {
        graph.boxes.push(Node { kind: BoxKind::End, title, rows: Vec::new(), depth: 0 });
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
    for node in graph.boxes.iter_mut().filter(|node| node.kind == BoxKind::End) {
        node.depth = deepest;
    }
}
