//! A value that is written anew where the old one stood.

use super::edit::{Editor, LONGEST, Place};
use super::place::{column, indent, line_start};
use super::render::has_lines;
use super::written::{Form, Node, Style};
use serde_json::Value;

impl Editor<'_> {
    /// Puts a value in the place of another one, whose anchor stays.
    pub(super) fn replace(&mut self, node: &Node, new: &Value, place: Place) -> Option<()> {
        self.forget(node);
        let (start, end) = (node.span.start, node.span.end);
        let anchor = node.anchor.as_ref().map(|(_, range)| format!("{} ", &self.text[range.clone()]));
        let prefix = anchor.unwrap_or_default();
        // A text in lines ends with the last of them, and so does a list or a mapping that ends with such a text.
        let tail = if self.text[start..end].ends_with('\n') { self.look.newline } else { "" };
        match place {
            Place::Flow => {
                let text = match self.look.is_json && !self.look.tab.is_empty() {
                    true => self.look.pretty(new, indent(self.text, start)),
                    false => self.look.flow(new),
                };
                let sign = match (start == end, self.text[..start].ends_with(':')) {
                    (true, true) => " ",
                    (true, false) => ": ",
                    (false, _) => "",
                };
                self.push(start..end, format!("{sign}{prefix}{text}"));
            }
            Place::Root if self.look.is_json => {
                let text = if self.look.tab.is_empty() {
                    self.look.flow(new)
                } else {
                    self.look.pretty(new, indent(self.text, start))
                };
                self.push(start..end, text);
            }
            Place::Root => {
                let text = self.look.block(new, column(self.text, start));
                self.push(start..end, format!("{text}{tail}"));
            }
            Place::Item { mark } => {
                if has_lines(new) && node.anchor.is_some() {
                    return None;
                }
                let column =
                    if start == end { column(self.text, mark) + 2 } else { column(self.text, start) };
                let space = if start == end { " " } else { "" };
                let text = self.look.block(new, column);
                self.push(start..end, format!("{space}{prefix}{text}{tail}"));
            }
            Place::Entry { colon, column } => {
                self.replace_entry(node, new, (colon, column), &prefix, tail)?;
            }
        }
        Some(())
    }

    fn replace_entry(
        &mut self,
        node: &Node,
        new: &Value,
        (colon, outer): (usize, usize),
        prefix: &str,
        tail: &str,
    ) -> Option<()> {
        let text = self.text;
        let (start, end) = (node.span.start, node.span.end);
        let column = outer + if new.is_array() { self.look.list_step } else { self.look.step };
        let body = match &node.form {
            Form::List(Style::Block, items) => items.first()?.mark,
            Form::Map(Style::Block, entries) => entries.first()?.mark,
            _ => start,
        };
        let is_later = text[colon..body].contains('\n');
        if is_later {
            // Its lines go; what stands behind the colon stays: an anchor, a comment.
            let at = line_start(text, body);
            if node.anchor.as_ref().is_some_and(|(_, range)| range.start >= at) {
                return None;
            }
            self.push(at..self.line_behind(end), "");
            if has_lines(new) {
                let lines = self.look.block(new, column);
                self.put_lines(at, column, &lines);
            } else {
                let at = node.anchor.as_ref().map_or(colon, |(_, range)| range.end);
                let value = self.look.flow(new);
                self.push(at..at, format!(" {value}"));
            }
        } else if has_lines(new) && !self.fits_in_brackets(node, new) {
            let lines = self.look.block(new, column);
            let anchor = if prefix.is_empty() { String::new() } else { format!(" {}", prefix.trim_end()) };
            if tail.is_empty() {
                self.push(colon..end, anchor);
                let behind = self.line_behind(end);
                self.put_lines(behind, column, &lines);
            } else {
                let line = self.look.line(column);
                self.push(colon..end, format!("{anchor}{line}{lines}{tail}"));
            }
        } else {
            let (value, space) = (self.look.flow(new), if start == end { " " } else { "" });
            self.push(start..end, format!("{space}{prefix}{value}{tail}"));
        }
        Some(())
    }

    /// Whether it stands in brackets, and may stay there.
    fn fits_in_brackets(&self, node: &Node, new: &Value) -> bool {
        let is_flow = matches!(node.style(), Some(Style::Flow { .. })) && !node.is_empty();
        is_flow && (node.is_shared() || self.look.flow(new).len() <= LONGEST)
    }
}
