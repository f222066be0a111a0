//! The picture as a Mermaid flowchart, which GitHub draws by itself.

use super::graph::{BoxKind, Graph, Highlight, Node};

/// How the packet's way is drawn.
const BRIGHT: &str = "stroke:#d9480f,stroke-width:3px";

pub fn mermaid(graph: &Graph) -> String {
    mermaid_of(graph, &Highlight::default())
}

/// The flowchart, with a packet's way through it: boxes and arrows are highlighted, and rules that lead nowhere else
/// have a plus sign.
pub fn mermaid_of(graph: &Graph, highlight: &Highlight) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (index, node) in graph.boxes.iter().enumerate() {
        let label = escaped(&label(node, index, highlight));
        let shape = match node.kind {
            BoxKind::Hook => format!("n{index}([\"{label}\"])"),
            BoxKind::Chain => format!("n{index}[\"{label}\"]"),
            BoxKind::End => format!("n{index}{{{{\"{label}\"}}}}"),
        };
        text.push_str(&format!("  {shape}\n"));
    }
    let (mut arrows, mut bright) = (0, Vec::new());
    for (index, node) in graph.boxes.iter().enumerate() {
        for (number, row) in node.rows.iter().enumerate() {
            if let Some(target) = row.leads_to {
                // Mermaid takes a number and a dot at the start for a list of Markdown, which it refuses to draw.
                let label = format!("{}#46; {}", number + 1, escaped(&row.conditions));
                text.push_str(&format!("  n{index} -->|\"{label}\"| n{target}\n"));
                if highlight.rows.contains(&(index, number)) {
                    bright.push(arrows.to_string());
                }
                arrows += 1;
            }
        }
    }
    if !highlight.boxes.is_empty() {
        let boxes: Vec<String> = highlight.boxes.iter().map(|index| format!("n{index}")).collect();
        text.push_str(&format!("  classDef met {BRIGHT}\n  class {} met\n", boxes.join(",")));
    }
    if !bright.is_empty() {
        text.push_str(&format!("  linkStyle {} {BRIGHT}\n", bright.join(",")));
    }
    text
}

/// The heading, and below it the rules that lead nowhere else.
fn label(node: &Node, index: usize, highlight: &Highlight) -> String {
    let own = node.rows.iter().enumerate().filter_map(|(number, row)| {
        let plus = if highlight.rows.contains(&(index, number)) { "+ " } else { "" };
        row.action.as_ref().map(|action| format!("\n{plus}{}. {} {action}", number + 1, row.conditions))
    });
    node.title.clone() + &own.collect::<String>()
}

/// Mermaid takes entities with a number sign, and breaks as HTML has them.
fn escaped(text: &str) -> String {
    let text = text.replace('#', "#35;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;");
    text.replace('\n', "<br>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::graph::Row;

    #[test]
    fn labels_of_arrows_are_not_lists_of_markdown() {
        let row = Row { conditions: "-p tcp".to_owned(), action: None, leads_to: Some(0) };
        let node = Node { kind: BoxKind::Hook, title: "nat OUTPUT".to_owned(), rows: vec![row], depth: 0 };
        let text = mermaid(&Graph { boxes: vec![node] });
        assert!(text.contains("  n0 -->|\"1#46; -p tcp\"| n0\n"), "{text}");
    }
}
