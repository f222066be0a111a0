//! The picture as a Mermaid flowchart, which GitHub draws by itself.

use super::graph::{Graph, Kind, Node};

/// The flowchart.
pub fn mermaid(graph: &Graph) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (index, node) in graph.boxes.iter().enumerate() {
        let label = escaped(&label(node));
        let shape = match node.kind {
            Kind::Hook => format!("n{index}([\"{label}\"])"),
            Kind::Chain => format!("n{index}[\"{label}\"]"),
            Kind::End => format!("n{index}{{{{\"{label}\"}}}}"),
        };
        text.push_str(&format!("  {shape}\n"));
    }
    for (index, node) in graph.boxes.iter().enumerate() {
        for (number, row) in node.rows.iter().enumerate() {
            if let Some(target) = row.leads_to {
                let label = escaped(&format!("{}. {}", number + 1, row.conditions));
                text.push_str(&format!("  n{index} -->|\"{label}\"| n{target}\n"));
            }
        }
    }
    text
}

/// The heading, and below it the rules that lead nowhere else.
fn label(node: &Node) -> String {
    let own = node.rows.iter().enumerate().filter_map(|(number, row)| {
        row.action.map(|action| format!("\n{}. {} {action}", number + 1, row.conditions))
    });
    node.title.clone() + &own.collect::<String>()
}

/// Mermaid takes entities with a number sign, and breaks as HTML has them.
fn escaped(text: &str) -> String {
    let text = text.replace('#', "#35;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;");
    text.replace('\n', "<br>")
}
