//! A text of several documents, of which some get other values.

use super::edit::{Editor, Place, edits};
use super::place::{apply, column, indent, is_first};
use super::render::Look;
use super::written::{Form, Node, Style, written};
use policy::{Problem, Problems};
use serde_json::Value;
use std::collections::BTreeMap;

/// A text with other values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// The numbers, from 0, of the documents that had to be written anew, without their comments.
    pub anew: Vec<usize>,
}

/// The text in which each document has its new value. What is the same in both stays as it was written, byte for byte.
///
/// `name` is that of the file, for problems. `new` has as many values as the text has documents.
///
/// # Errors
/// When the text is neither YAML nor JSON, or when a value can't be written, such as one that holds what no YAML holds.
pub fn edit(name: &str, text: &str, new: &[Value]) -> Result<Edited, Problems> {
    let old = policy::pod::values(name, text)?;
    let nodes = written(text).filter(|nodes| nodes.len() == old.len());
    let Some(nodes) = nodes else { return anew(name, text, &old, new) };
    let look: Vec<Look> = nodes.iter().map(|node| look(text, node)).collect();
    let changed = |at: &usize| old[*at] != new[*at];
    let careful = |at: usize| edits(text, &look[at], &nodes[at], &old[at], &new[at]);
    let whole = |at: usize| rewritten(text, &look[at], &nodes[at], &new[at]);

    let mut lost = Vec::new();
    let mut all = Vec::new();
    for at in (0..old.len()).filter(changed) {
        all.push((
            at,
            careful(at).or_else(|| {
                lost.push(at);
                whole(at)
            }),
        ));
    }
    let put = |all: &[(usize, Option<Vec<super::place::Edit>>)]| {
        let edits = all.iter().filter_map(|(_, edits)| edits.clone()).flatten().collect();
        apply(text, 0..text.len(), edits)
    };
    let done = put(&all);
    if policy::pod::values(name, &done).is_ok_and(|values| values == new) {
        return Ok(Edited { text: done, anew: lost });
    }
    // One of them went wrong: each is tried alone.
    for (at, edits) in &mut all {
        let alone = put(&[(*at, edits.clone())]);
        let mut wanted = old.clone();
        wanted[*at] = new[*at].clone();
        if policy::pod::values(name, &alone).is_ok_and(|values| values == wanted) || lost.contains(at) {
            continue;
        }
        lost.push(*at);
        *edits = whole(*at);
    }
    let done = put(&all);
    match policy::pod::values(name, &done) {
        Ok(values) if values == new => Ok(Edited { text: done, anew: lost }),
        _ => anew(name, text, &old, new),
    }
}

/// A whole document in place of another one.
fn rewritten(text: &str, look: &Look, node: &Node, new: &Value) -> Option<Vec<super::place::Edit>> {
    let anchors = BTreeMap::new();
    let mut editor =
        Editor { text, look, anchors: &anchors, met: BTreeMap::new(), changed: &[], edits: Vec::new() };
    editor.replace(node, new, Place::Root)?;
    Some(editor.edits)
}

/// All documents written anew.
fn anew(name: &str, text: &str, old: &[Value], new: &[Value]) -> Result<Edited, Problems> {
    if old == new {
        return Ok(Edited { text: text.to_owned(), anew: Vec::new() });
    }
    let is_json = text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let look = Look { step: 2, list_step: 0, newline, is_json, tab: "  ".to_owned() };
    let written = |value: &Value| if is_json { look.pretty(value, "") } else { look.block(value, 0) };
    let documents: Vec<String> = new.iter().map(written).collect();
    let between = if is_json { newline.to_owned() } else { format!("{newline}---{newline}") };
    let done = documents.join(&between) + newline;
    match policy::pod::values(name, &done) {
        Ok(values) if values == new => Ok(Edited { text: done, anew: (0..new.len()).collect() }),
        _ => Err(Problems(vec![Problem::of(
            name,
            "can't be written with its pods injected: what is read back differs",
        )])),
    }
}

/// How a document is written.
fn look(text: &str, root: &Node) -> Look {
    let is_json = matches!(root.style(), Some(Style::Flow { .. }));
    let mut look = Look {
        step: 2,
        list_step: 0,
        newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
        is_json,
        tab: if is_json { String::new() } else { "  ".to_owned() },
    };
    if let (true, Form::Map(_, entries)) = (is_json, &root.form)
        && let Some(first) = entries.first().filter(|entry| is_first(text, entry.mark))
    {
        let (outer, inner) = (indent(text, root.span.start), indent(text, first.mark));
        look.tab = inner.strip_prefix(outer).filter(|tab| !tab.is_empty()).unwrap_or("  ").to_owned();
    }
    let (mut step, mut list_step) = (None, None);
    steps(text, root, &mut step, &mut list_step);
    Look { step: step.unwrap_or(look.step), list_step: list_step.unwrap_or(look.list_step), ..look }
}

/// The first steps in of a mapping and of a list in a mapping.
fn steps(text: &str, node: &Node, step: &mut Option<usize>, list_step: &mut Option<usize>) {
    if let Form::Map(Style::Block, entries) = &node.form {
        for entry in entries {
            let outer = column(text, entry.mark);
            let further = |mark: usize| column(text, mark).checked_sub(outer);
            match &entry.node.form {
                Form::Map(Style::Block, inner) if step.is_none() => {
                    *step = inner.first().and_then(|inner| further(inner.mark)).filter(|step| *step > 0);
                }
                Form::List(Style::Block, inner) if list_step.is_none() => {
                    *list_step = inner.first().and_then(|inner| further(inner.mark));
                }
                _ => {}
            }
        }
    }
    if step.is_none() || list_step.is_none() {
        node.children().into_iter().for_each(|child| steps(text, child, step, list_step));
    }
}
