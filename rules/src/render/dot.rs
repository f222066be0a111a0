//! The picture in the language of Graphviz.

use super::graph::{BoxKind, Graph};

pub fn dot(graph: &Graph) -> String {
    let mut text =
        "digraph rules {\n  rankdir=LR;\n  node [fontname=\"monospace\", fontsize=10];\n".to_owned();
    for (index, node) in graph.boxes.iter().enumerate() {
        let shape = match node.kind {
            BoxKind::Hook => "Mrecord",
            BoxKind::Chain => "record",
            BoxKind::End => "doubleoctagon",
        };
        let mut label = field(&node.title);
        for (number, row) in node.rows.iter().enumerate() {
            let action = row.action.as_deref().unwrap_or_default();
            let line = format!("{}. {} {action}", number + 1, row.conditions);
            label.push_str(&format!("|<r{number}>{}\\l", field(line.trim_end())));
        }
        text.push_str(&format!("  n{index} [shape={shape}, label=\"{label}\"];\n"));
    }
    for (index, node) in graph.boxes.iter().enumerate() {
        for (number, row) in node.rows.iter().enumerate() {
            if let Some(target) = row.leads_to {
                text.push_str(&format!("  n{index}:r{number}:e -> n{target}:w;\n"));
            }
        }
    }
    text.push_str("}\n");
    text
}

/// Characters that mean something inside a record's label.
fn field(text: &str) -> String {
    text.chars().fold(String::new(), |mut text, c| {
        if "\"\\{}|<>".contains(c) {
            text.push('\\');
        }
        text.push(c);
        text
    })
}
