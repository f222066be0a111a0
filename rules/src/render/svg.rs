//! The picture as SVG, laid out here: a column for each depth, a box for each chain, a row for each rule.
//!
//! Arrows start at the row of the rule that leads on. No program of another project is needed to draw it.

use super::graph::{BoxKind, Graph, Node, Row};

/// Sizes in pixels, for a monospace font of 12.
const CHARACTER: usize = 8;
const LINE: usize = 18;
const PADDING: usize = 8;
const GAP: usize = 26;
const BETWEEN: usize = 90;
const MARGIN: usize = 20;

/// The position of a box.
#[derive(Clone, Copy)]
struct SvgPlace {
    x: usize,
    y: usize,
    width: usize,
}

pub fn svg(graph: &Graph) -> String {
    let (places, width, height) = layout(graph);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"monospace\" font-size=\"12\">\n<style>.box{{fill:#fff;stroke:#445}}\
         .hook{{fill:#e3eefc}}.chain{{fill:#f4f4f0}}.end{{fill:#e5f5e3}}.arrow{{fill:none;stroke:#446}}\
         .quiet{{fill:#777}}</style>\n<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" \
         markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0,0L8,4L0,8z\" fill=\"#446\"/></marker>\
         </defs>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (node, place) in graph.boxes.iter().zip(&places) {
        draw(&mut text, node, *place);
    }
    for (node, from) in graph.boxes.iter().zip(&places) {
        for (number, row) in node.rows.iter().enumerate() {
            if let Some(to) = row.leads_to.and_then(|target| places.get(target)) {
                arrow(&mut text, *from, number, *to);
            }
        }
    }
    text.push_str("</svg>\n");
    text
}

/// Stacks the boxes of each column; gives their places and the size of the whole.
fn layout(graph: &Graph) -> (Vec<SvgPlace>, usize, usize) {
    let mut places = vec![SvgPlace { x: 0, y: 0, width: 0 }; graph.boxes.len()];
    let deepest = graph.boxes.iter().map(|node| node.depth).max().unwrap_or_default();
    let (mut x, mut bottom) = (MARGIN, MARGIN);
    for depth in 0..=deepest {
        let column = || graph.boxes.iter().enumerate().filter(move |(_, node)| node.depth == depth);
        let width = column().map(|(_, node)| node_width(node)).max().unwrap_or_default();
        let mut y = MARGIN;
        for (index, node) in column() {
            places[index] = SvgPlace { x, y, width };
            y += node_height(node) + GAP;
        }
        bottom = bottom.max(y);
        x += width + BETWEEN;
    }
    (places, x.saturating_sub(BETWEEN) + MARGIN, bottom)
}

fn node_width(node: &Node) -> usize {
    let rows = node.rows.iter().map(|row| row_text(row).chars().count());
    let widest = rows.chain([node.title.chars().count()]).max().unwrap_or_default();
    widest * CHARACTER + 2 * PADDING
}

fn node_height(node: &Node) -> usize {
    (node.rows.len() + 1) * LINE + PADDING
}

fn row_text(row: &Row) -> String {
    match &row.action {
        Some(action) => format!("{}  {action}", row.conditions),
        None => row.conditions.clone(),
    }
}

/// The y coordinate of the base line of row `number`.
fn baseline(place: SvgPlace, number: usize) -> usize {
    place.y + (number + 2) * LINE - 3
}

fn draw(text: &mut String, node: &Node, place: SvgPlace) {
    let SvgPlace { x, y, width } = place;
    let class = match node.kind {
        BoxKind::Hook => "hook",
        BoxKind::Chain => "chain",
        BoxKind::End => "end",
    };
    let height = node_height(node);
    text.push_str(&format!(
        "<rect class=\"box {class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\"/>\n"
    ));
    let (left, top) = (x + PADDING, y + LINE - 3);
    let title = escaped(&node.title);
    text.push_str(&format!("<text x=\"{left}\" y=\"{top}\" font-weight=\"bold\">{title}</text>\n"));
    for (number, row) in node.rows.iter().enumerate() {
        let class = if row.leads_to.is_some() { "" } else { " class=\"quiet\"" };
        let below = baseline(place, number);
        let content = escaped(&row_text(row));
        text.push_str(&format!("<text x=\"{left}\" y=\"{below}\"{class}>{content}</text>\n"));
    }
}

fn arrow(text: &mut String, from: SvgPlace, number: usize, to: SvgPlace) {
    let (x1, y1) = (from.x + from.width, baseline(from, number) - 4);
    let (x2, y2) = (to.x, to.y + LINE / 2);
    let (c1, c2) = (x1 + BETWEEN / 2, x2.saturating_sub(BETWEEN / 2));
    text.push_str(&format!(
        "<path class=\"arrow\" d=\"M{x1},{y1}C{c1},{y1} {c2},{y2} {x2},{y2}\" marker-end=\"url(#tip)\"/>\n"
    ));
}

/// Text as the content of an element of XML, or of an attribute in double quotes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
