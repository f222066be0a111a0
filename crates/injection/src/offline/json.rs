//! Documents that are JSON. JSON has no comments to lose, so a changed document is written again, indented as it was, with
//! its keys in their order.

use super::documents::BYTE_ORDER_MARK;
use mesh::data::{Tree, TreeValue};
use serde::{Deserialize, Serialize};
use serde_json::{Serializer, Value, ser::PrettyFormatter};

/// The text of a JSON object with a new value; `None` if the text is not a JSON object.
pub(super) fn rewritten(text: &str, new: &Value) -> Option<String> {
    let begin = text.trim_start_matches(|c: char| c == BYTE_ORDER_MARK || c.is_ascii_whitespace());
    let body = begin.trim_end();
    let old: Tree = body.starts_with('{').then(|| serde_json::from_str(body).ok())??;
    let (before, after) = (&text[..text.len() - begin.len()], &begin[body.len()..]);
    let new = in_order_of(Some(&old), new);
    let written = match body.split_once('\n') {
        None => serde_json::to_string(&new).ok()?,
        Some((_, rest)) => {
            let indent = &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()];
            let mut bytes = Vec::new();
            let formatter = PrettyFormatter::with_indent(indent.as_bytes());
            new.serialize(&mut Serializer::with_formatter(&mut bytes, formatter)).ok()?;
            String::from_utf8(bytes).ok()?
        }
    };
    Some(format!("{before}{written}{after}"))
}

/// A value whose keys have the order of an old one. Where there is none, a name comes first: it is what a reader looks for.
pub(super) fn in_order_of(old: Option<&Tree>, new: &Value) -> Tree {
    match new {
        Value::Array(items) => {
            let old = old.map(Tree::items).unwrap_or_default();
            let of_name = |item: &Value| {
                let name = item.get("name")?.as_str()?;
                old.iter().find(|old| old.get("name").and_then(Tree::text) == Some(name))
            };
            let old = |(at, item)| of_name(item).or(old.get(at)).map(AsRef::as_ref);
            Tree::list(items.iter().enumerate().map(|(at, item)| in_order_of(old((at, item)), item)))
        }
        Value::Object(fields) => {
            let order: Vec<&str> = match old.map(|old| &old.value) {
                Some(TreeValue::Map(old)) => old.iter().map(|(key, _)| key.as_str()).collect(),
                _ => vec!["name"],
            };
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_by_cached_key(|key| order.iter().position(|known| known == key).unwrap_or(order.len()));
            let entry =
                |key: &String| (key.clone(), in_order_of(old.and_then(|old| old.get(key)), &fields[key]));
            Tree::map(keys.into_iter().map(entry))
        }
        scalar => Tree::deserialize(scalar).expect("data is a tree"),
    }
}
