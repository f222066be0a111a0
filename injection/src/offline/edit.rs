//! Changes of a document's text that turn its value into another one, and leave every line that says nothing else as it is.

use super::align::{Source, align};
use super::place::{Edit, apply};
use super::render::Look;
use super::written::{Entry, Form, Item, Node, Style};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// By what the value of another mapping comes into one.
pub(super) const MERGE: &str = "<<";

/// The longest value in brackets that gets no lines of its own.
pub(super) const LONGEST: usize = 100;

/// What stands around a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// It is the document.
    Root,
    /// An entry of a mapping in lines: where its colon ends, and the mapping's column.
    Entry { colon: usize, column: usize },
    /// An item of a list in lines: its dash.
    Item { mark: usize },
    /// Brackets.
    Flow,
}

/// Collects changes of one document.
pub(super) struct Editor<'a> {
    pub(super) text: &'a str,
    pub(super) look: &'a Look,
    /// What the anchors of the document stand for: at first as it is, later as it will be. `None` where one will be gone.
    pub(super) anchors: &'a BTreeMap<usize, Option<Value>>,
    /// What those that were met will stand for.
    pub(super) met: BTreeMap<usize, Option<Value>>,
    /// Anchors whose values change, so that what refers to them may have to change, too.
    pub(super) changed: &'a [usize],
    pub(super) edits: Vec<Edit>,
}

/// The changes that turn a document's value into a new one; `None` if nobody here knows how, as where a mapping that is
/// merged into another one would have to lose a key.
pub(super) fn edits(text: &str, look: &Look, root: &Node, old: &Value, new: &Value) -> Option<Vec<Edit>> {
    let mut anchors = BTreeMap::new();
    collect(root, old, &mut anchors);
    let run = |anchors: &BTreeMap<usize, Option<Value>>, changed: &[usize]| {
        let mut editor = Editor { text, look, anchors, met: BTreeMap::new(), changed, edits: Vec::new() };
        editor.change(root, old, new, Place::Root)?;
        Some((editor.edits, editor.met))
    };
    let (edits, met) = run(&anchors, &[])?;
    let changed: Vec<usize> =
        met.iter().filter(|(id, will)| anchors.get(id) != Some(will)).map(|(id, _)| *id).collect();
    if changed.is_empty() {
        return Some(edits);
    }
    // Once more, now that it is known what aliases will stand for.
    anchors.extend(met);
    run(&anchors, &changed).map(|(edits, _)| edits)
}

/// What anchors stand for.
fn collect(node: &Node, value: &Value, anchors: &mut BTreeMap<usize, Option<Value>>) {
    if let Some((id, _)) = &node.anchor {
        anchors.insert(*id, Some(value.clone()));
    }
    match &node.form {
        Form::List(_, items) => {
            items.iter().enumerate().for_each(|(at, item)| collect(&item.node, &value[at], anchors));
        }
        Form::Map(_, entries) => {
            for entry in entries.iter().filter(|entry| entry.key != MERGE) {
                collect(&entry.node, &value[&entry.key], anchors);
            }
        }
        Form::Scalar | Form::Lines | Form::Alias(_) => {}
    }
}

impl Editor<'_> {
    /// Turns a value into another one.
    pub(super) fn change(&mut self, node: &Node, old: &Value, new: &Value, place: Place) -> Option<()> {
        if let Some((id, _)) = &node.anchor {
            self.met.insert(*id, Some(new.clone()));
        }
        match (&node.form, old, new) {
            (Form::Alias(of), ..) => match self.anchors.get(of) {
                Some(Some(value)) if value == new => Some(()),
                _ => self.replace(node, new, place),
            },
            _ if old == new && !self.refers(node) => Some(()),
            _ if self.outgrows(node, new, place) => self.replace(node, new, place),
            (Form::Map(style, entries), Value::Object(old), Value::Object(map)) if !map.is_empty() => {
                let before = self.edits.len();
                self.map(*style, entries, old, map).or_else(|| self.replace_after(before, node, new, place))
            }
            (Form::List(style, items), Value::Array(old), Value::Array(list)) if !list.is_empty() => {
                let before = self.edits.len();
                self.list(*style, items, [old, list], place)
                    .or_else(|| self.replace_after(before, node, new, place))
            }
            _ if old == new => Some(()),
            _ => self.replace(node, new, place),
        }
    }

    /// Writes a value anew, without the changes that were begun in it.
    fn replace_after(&mut self, before: usize, node: &Node, new: &Value, place: Place) -> Option<()> {
        self.edits.truncate(before);
        self.replace(node, new, place)
    }

    /// Whether it stands in brackets in a line that would become so long that nobody reads it.
    fn outgrows(&self, node: &Node, new: &Value, place: Place) -> bool {
        let Some(Style::Flow { open, close }) = node.style() else { return false };
        let (old, is_in_lines) =
            (&self.text[open..close], matches!(place, Place::Entry { .. } | Place::Item { .. }));
        let longer = || self.look.flow(new).len() > LONGEST.max(old.len());
        is_in_lines && !self.look.is_json && !old.contains('\n') && longer() && !node.is_shared()
    }

    /// Whether anything in it refers to an anchor whose value changes.
    fn refers(&self, node: &Node) -> bool {
        !self.changed.is_empty()
            && match &node.form {
                Form::Alias(of) => self.changed.contains(of),
                _ => node.children().into_iter().any(|child| self.refers(child)),
            }
    }

    /// The anchors of a value that goes.
    pub(super) fn forget(&mut self, node: &Node) {
        for child in node.children() {
            self.forget_all(child);
        }
    }

    fn forget_all(&mut self, node: &Node) {
        if let Some((id, _)) = &node.anchor {
            self.met.insert(*id, None);
        }
        self.forget(node);
    }

    fn map(
        &mut self,
        style: Style,
        entries: &[Entry],
        old: &Map<String, Value>,
        new: &Map<String, Value>,
    ) -> Option<()> {
        let merged = self.merged(entries)?;
        let is_explicit = |key: &str| entries.iter().any(|entry| entry.key == key);
        let goes = |entry: &Entry| entry.key != MERGE && !new.contains_key(&entry.key);
        // What is merged in can be written over, but not taken out.
        let stays_out = merged.keys().any(|key| !new.contains_key(key));
        if style == Style::Pair || stays_out || entries.iter().all(goes) {
            return None;
        }
        let column = self.column_of(entries.iter().map(|entry| entry.mark));
        for entry in entries.iter().filter(|entry| entry.key != MERGE) {
            let place = match style {
                Style::Block => Place::Entry { colon: entry.colon, column },
                Style::Flow { .. } | Style::Pair => Place::Flow,
            };
            match new.get(&entry.key) {
                Some(wanted) => self.change(&entry.node, old.get(&entry.key)?, wanted, place)?,
                None => self.forget_all(&entry.node),
            }
        }
        let parts: Vec<Part> = entries
            .iter()
            .map(|entry| Part {
                mark: entry.mark,
                end: entry.node.span.end,
                fate: if goes(entry) { Fate::Goes } else { Fate::Stays },
            })
            .collect();
        let added = new.iter().filter(|(key, value)| !is_explicit(key) && merged.get(*key) != Some(value));
        match style {
            Style::Block => {
                self.remove_lines(&parts)?;
                let texts: Vec<String> =
                    added.map(|(key, value)| self.look.entry(key, value, column)).collect();
                let last = parts.last()?;
                texts.iter().for_each(|text| self.put_behind(last.end, column, column, text));
            }
            Style::Flow { close, .. } => {
                let style = self.in_flow(&parts);
                let texts = added.map(|(key, value)| match &style {
                    Some(indent) => self.look.pretty_pair(key, value, indent),
                    None => self.look.pair(key, value),
                });
                let texts: Vec<String> = texts.collect();
                self.change_flow(&parts, close, &[(entries.len().checked_sub(1), texts)]);
            }
            Style::Pair => return None,
        }
        Some(())
    }

    /// What `<<` brings in, as it will be; `None` if that isn't known.
    fn merged(&self, entries: &[Entry]) -> Option<Map<String, Value>> {
        let mut found = Map::new();
        for entry in entries.iter().filter(|entry| entry.key == MERGE) {
            let nodes = match &entry.node.form {
                Form::List(_, items) => items.iter().map(|item| &item.node).collect(),
                _ => vec![&entry.node],
            };
            for node in nodes {
                let Form::Alias(of) = &node.form else { return None };
                let Some(Some(Value::Object(fields))) = self.anchors.get(of) else { return None };
                for (key, value) in fields {
                    if !entries.iter().any(|entry| entry.key == *key) {
                        found.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
            }
        }
        Some(found)
    }

    fn list(&mut self, style: Style, items: &[Item], [old, new]: [&[Value]; 2], around: Place) -> Option<()> {
        let sources = align(old, new);
        let fate = |at: usize| match () {
            () if sources.contains(&Source::Kept(at)) => Fate::Stays,
            () if sources.contains(&Source::Moved(at)) => Fate::Moves,
            () => Fate::Goes,
        };
        let fates: Vec<Fate> = (0..items.len()).map(fate).collect();
        if !fates.contains(&Fate::Stays) {
            return None;
        }
        let place = |mark: usize| if style == Style::Block { Place::Item { mark } } else { Place::Flow };
        for (source, wanted) in sources.iter().zip(new) {
            if let Source::Kept(at) = source {
                self.change(&items[*at].node, &old[*at], wanted, place(items[*at].mark))?;
            }
        }
        let part = |(item, fate): (&Item, Fate)| Part { mark: item.mark, end: item.node.span.end, fate };
        let parts: Vec<Part> = items.iter().zip(fates).map(part).collect();
        for (item, _) in items.iter().zip(&parts).filter(|(_, part)| part.fate == Fate::Goes) {
            self.forget_all(&item.node);
        }
        let column = self.column_of(items.iter().map(|item| item.mark));
        let indent = self.in_flow(&parts);
        // What is put in, by the item behind which it is.
        let mut added: Vec<(Option<usize>, Vec<String>)> = vec![(None, Vec::new())];
        for (source, wanted) in sources.iter().zip(new) {
            let text = match (source, style) {
                (Source::Kept(at), _) => {
                    added.push((Some(*at), Vec::new()));
                    continue;
                }
                (Source::Moved(at), _) => {
                    self.moved(&items[*at], &old[*at], wanted, place(items[*at].mark))?
                }
                (Source::New, Style::Block) => self.look.item(wanted, column),
                (Source::New, _) => match &indent {
                    Some(indent) => self.look.pretty(wanted, indent),
                    None => self.look.flow(wanted),
                },
            };
            added.last_mut()?.1.push(text);
        }
        match style {
            Style::Block => {
                // Where dashes stand below the key, a comment there may be about what follows the list.
                let is_below = matches!(around, Place::Entry { column: outer, .. } if outer == column);
                self.change_lines(&parts, column, column + usize::from(is_below), &added)
            }
            Style::Flow { close, .. } => {
                self.change_flow(&parts, close, &added);
                Some(())
            }
            Style::Pair => None,
        }
    }

    /// The text of an item that will stand elsewhere, with its changes.
    fn moved(&mut self, item: &Item, old: &Value, new: &Value, place: Place) -> Option<String> {
        let range = match place {
            Place::Item { mark } => self.lines_of(mark, item.node.span.end)?,
            _ => item.node.span.clone(),
        };
        let others = std::mem::take(&mut self.edits);
        let done = self.change(&item.node, old, new, place);
        let own = std::mem::replace(&mut self.edits, others);
        done?;
        let text = apply(self.text, range, own);
        // The lines go where a text is put whose first line is moved in already.
        Some(text.trim_start_matches(' ').trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// An entry or an item, as far as its place goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) mark: usize,
    pub(super) end: usize,
    pub(super) fate: Fate,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    Goes,
    /// It goes, and is put in elsewhere with the comments above it.
    Moves,
}
