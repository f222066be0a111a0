//! An explanation as a picture: all chains, and the packet's way through them.

use super::{Explanation, condition_text};
use rules::render::{
    graph::{Graph, Highlight, Kind, Node, Row},
    mermaid::mermaid_of,
};
use rules::simulate::{Matched, ViewRule};
use rules::{Action, Target};
use std::borrow::Cow;

impl Explanation<'_> {
    /// A Mermaid flowchart. Its title is the verdict; the rules that the packet fulfilled stand out.
    pub fn mermaid(&self) -> String {
        let graph = self.graph();
        let mut way = Highlight::default();
        for step in &self.trace.0 {
            way.boxes.insert(step.at.chain);
            let row = graph.boxes[step.at.chain].rows.get(step.at.rule);
            if let (Matched::Yes, Some(row)) = (step.matched, row) {
                way.rows.insert((step.at.chain, step.at.rule));
                way.boxes.extend(row.leads_to);
            }
        }
        let title = serde_json::Value::from(self.sentence());
        format!("---\ntitle: {title}\n---\n{}", mermaid_of(&graph, &way))
    }

    /// The chains by their index in the view, then the ends.
    fn graph(&self) -> Graph {
        let chains = self.view.chains();
        // Whoever draws Mermaid finds the columns alone.
        let node = |kind, title| Node { kind, title, rows: Vec::new(), depth: 0 };
        let boxes = chains.iter().map(|held| {
            let kind = if held.base.is_some() { Kind::Hook } else { Kind::Chain };
            node(kind, format!("{} {}", held.table, held.chain))
        });
        let mut graph = Graph { boxes: boxes.collect() };
        for (index, held) in chains.iter().enumerate() {
            for rule in &held.rules {
                let (action, leads_to) = match effect(&rule.action) {
                    Effect::Here(action) => (Some(action), None),
                    Effect::Chain(name) => match rule.leads_to {
                        Some(place) => (None, Some(place)),
                        None => (Some(name.to_owned().into()), None),
                    },
                    Effect::End(title) => {
                        let found = graph.boxes.iter().position(|b| b.kind == Kind::End && b.title == title);
                        let place = found.unwrap_or(graph.boxes.len());
                        if found.is_none() {
                            graph.boxes.push(node(Kind::End, title));
                        }
                        (None, Some(place))
                    }
                };
                graph.boxes[index].rows.push(Row { conditions: conditions(rule), action, leads_to });
            }
        }
        graph
    }
}

fn conditions(rule: &ViewRule) -> String {
    let conditions: Vec<String> = rule.conditions.iter().map(condition_text).collect();
    if conditions.is_empty() { "all".to_owned() } else { conditions.join(" ") }
}

/// What a rule does to a packet's way.
enum Effect<'a> {
    Here(Cow<'static, str>),
    Chain(&'a str),
    End(String),
}

fn effect(action: &Action) -> Effect<'_> {
    let here = |text: &'static str| Effect::Here(text.into());
    match action {
        Action::Target(target) => match target {
            Target::Accept => here("accept"),
            Target::Return => here("return"),
            Target::SetMark(_) | Target::SetConnmark(_) | Target::SaveMark | Target::RestoreMark => {
                here("mark")
            }
            Target::SetZone(_) => here("zone"),
            Target::Nflog { .. } => here("report"),
            Target::Log { .. } => here("log"),
            Target::Jump(name) => Effect::Chain(name.as_str()),
            Target::JumpForeign(name) => Effect::End(format!("somebody else's {name}")),
            Target::Redirect(ports) => Effect::End(format!("listener at {}", ports.dashed())),
            Target::Tproxy { port, .. } => Effect::End(format!("transparent listener at {port}")),
            Target::Drop => Effect::End("dropped".to_owned()),
        },
        Action::Goto(name) => Effect::Chain(name.as_str()),
        Action::Call { chain, .. } => Effect::Chain(chain),
        Action::Reject => Effect::End("rejected".to_owned()),
        Action::RedirectSamePort => Effect::End("listener at the same port".to_owned()),
        Action::Notrack => here("not tracked"),
        Action::Destination { address, ports } => {
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            let ports = ports.map(|ports| format!(" port {}", ports.dashed())).unwrap_or_default();
            Effect::End(format!("sent to {}", format!("{address}{ports}").trim()))
        }
        Action::Continue(text)
        | Action::Source(text)
        | Action::Marks(text)
        | Action::Zone(text)
        | Action::Unknown(text) => Effect::Here(text.clone().into()),
    }
}
