//! An explanation as a picture: all chains, and the packet's path through them.

use super::Explanation;
use rules::render::{
    graph::{Graph, Highlight},
    mermaid::mermaid_of,
};
use rules::simulate::Matched;

impl Explanation<'_> {
    /// A Mermaid flowchart. Its title is the verdict; the rules that the packet matched are highlighted.
    pub fn mermaid(&self) -> String {
        // Mermaid lays out the columns itself.
        let graph = Graph::of(self.view);
        let mut path = Highlight::default();
        for step in &self.trace.0 {
            path.boxes.insert(step.at.chain);
            let row = graph.boxes[step.at.chain].rows.get(step.at.rule);
            if let (Matched::Yes, Some(row)) = (step.matched, row) {
                path.rows.insert((step.at.chain, step.at.rule));
                path.boxes.extend(row.leads_to);
            }
        }
        let title = serde_json::Value::from(self.sentence());
        format!("---\ntitle: {title}\n---\n{}", mermaid_of(&graph, &path))
    }
}
