//! Edits files with several documents. JSON has no comments to lose, so a changed document is rewritten with its indentation and
//! key order. YAML is edited in place: comments, quotes and the style of unchanged parts stay.

use mesh::data::{Tree, TreeValue, yaml::block};
use mesh::{InputProblem, Problems};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Map, Serializer, Value, ser::PrettyFormatter};
use std::{collections::BTreeSet, str::FromStr};
use yaml_edit::{AsYaml, Document, Mapping, Sequence, YamlFile, YamlNode};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// Indices of documents that could not be edited and were rewritten without their inner comments.
    pub rewritten: Vec<usize>,
}

/// Returns the content with each document's new value. An unchanged document keeps its bytes. `name` identifies the file in
/// problems; `new` has one value for each document. Errors: the content is neither YAML nor JSON, or a value can't be written.
pub fn edit(name: &str, text: &str, new: &[Value]) -> Result<Edited, Problems> {
    let old = mesh::pod::values(name, text)?;
    if old == new {
        return Ok(Edited { text: text.to_owned(), rewritten: Vec::new() });
    }
    let fault = |fault: &str| Problems(vec![InputProblem::of(name, format!("can't be edited: {fault}"))]);
    let documents = split(text, old.len())
        .ok_or_else(|| fault("its documents can't be separated; begin each with a line ---"))?;
    let mut edited = Edited { text: String::new(), rewritten: Vec::new() };
    for (number, document) in documents.into_iter().enumerate() {
        let (old, new) = (&old[number], &new[number]);
        if old == new {
            edited.text.push_str(document);
            continue;
        }
        let done =
            rewritten(document, new).or_else(|| edited_yaml(document, old, new)).unwrap_or_else(|| {
                edited.rewritten.push(number);
                again(document, new)
            });
        edited.text.push_str(&with_line_ends_of(document, done));
    }
    match mesh::pod::values(name, &edited.text) {
        Ok(values) if values == new => Ok(edited),
        _ => Err(fault("the result does not parse to the injected objects")),
    }
}

fn again(document: &str, new: &Value) -> String {
    let body = document.trim_start_matches(BYTE_ORDER_MARK);
    let mut before = document[..document.len() - body.len()].to_owned();
    let is_comment = |line: &&str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    match body.split_inclusive('\n').position(|line| is_marker(line, "---")) {
        Some(at) => {
            before.extend(body.split_inclusive('\n').take(at));
            before.push_str("---\n");
        }
        None => before.extend(body.split_inclusive('\n').take_while(is_comment)),
    }
    let end = document.lines().find(|line| is_marker(line, "...")).map(|_| "...\n");
    format!("{before}{}{}", block(&in_order_of(None, new)), end.unwrap_or_default())
}

/// Converts to Windows line breaks if the whole document has them.
fn with_line_ends_of(document: &str, text: String) -> String {
    let windows = document.matches("\r\n").count();
    if windows == 0 || windows != document.matches('\n').count() {
        return text;
    }
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Byte order mark, which belongs to the file and not to a document.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Splits the content into documents, each with the comments and directives before it; `None` for an unexpected number.
fn split(text: &str, expected: usize) -> Option<Vec<&str>> {
    let yaml = by_markers(text);
    if yaml.len() == expected {
        return Some(yaml);
    }
    by_objects(text).filter(|objects| objects.len() == expected)
}

/// True for a line with this marker. At a line's start, YAML reads it as a marker even within a scalar.
fn is_marker(line: &str, marker: &str) -> bool {
    let line = line.trim_start_matches(BYTE_ORDER_MARK);
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn by_markers(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    // Whether the document has a marker or a value, and whether it has ended.
    let (mut has_begun, mut is_over) = (false, false);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches(BYTE_ORDER_MARK);
        let is_comment = bare.trim_start().is_empty() || bare.trim_start().starts_with('#');
        let is_directive = bare.starts_with('%') && (is_over || !has_begun);
        let is_start = is_marker(line, "---");
        if (has_begun && is_start) || (is_over && !is_comment) {
            found.push(&text[start..at]);
            (start, has_begun, is_over) = (at, false, false);
        }
        if has_begun && is_marker(line, "...") {
            is_over = true;
        } else if !is_comment && !is_directive {
            has_begun = true;
        }
        at += line.len();
    }
    found.push(&text[start..]);
    found
}

fn by_objects(text: &str) -> Option<Vec<&str>> {
    let begin = text.len() - text.trim_start_matches(BYTE_ORDER_MARK).len();
    let mut objects = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<IgnoredAny>();
    let mut starts = vec![0];
    while let Some(object) = objects.next() {
        object.ok()?;
        starts.push(begin + objects.byte_offset());
    }
    // The rest of the file belongs to the last object.
    *starts.last_mut()? = text.len();
    Some(starts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect())
}

fn rewritten(text: &str, new: &Value) -> Option<String> {
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

/// `new` in the key order of `old`. Without `old`, the name comes first, as readers expect.
fn in_order_of(old: Option<&Tree>, new: &Value) -> Tree {
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

/// Wider lists and mappings in brackets are broken into lines.
const MAX_WIDTH: usize = 100;

/// Maximum number of passes: changing an anchor's value also changes its aliases, which get separate values in the second pass.
const TIMES: usize = 2;

/// A document's YAML with a new value; `None` if editing is impossible, for example for a new key that `<<` provides.
fn edited_yaml(text: &str, old: &Value, new: &Value) -> Option<String> {
    let (mut text, mut value) = (text.to_owned(), old.clone());
    for _ in 0..TIMES {
        let file = YamlFile::from_str(&text).ok()?;
        let root = file.document()?.as_mapping()?;
        mapping(&root, value.as_object()?, new.as_object()?, root.is_flow_style());
        text = file.to_string();
        value = mesh::pod::values("", &text).ok().filter(|values| values.len() == 1)?.remove(0);
        if value == *new {
            return Some(text);
        }
    }
    None
}

fn mapping(node: &Mapping, old: &Map<String, Value>, new: &Map<String, Value>, in_flow: bool) {
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        node.remove(key.as_str());
    }
    for (key, new) in new.iter().filter(|(key, new)| old.get(*key) != Some(*new)) {
        let is_edited = match (node.get(key.as_str()), old.get(key)) {
            (Some(value), Some(old)) => inside(&value, old, new, in_flow),
            _ => false,
        };
        if !is_edited {
            node.set(key.as_str(), written(new));
        }
    }
}

fn sequence(node: &Sequence, old: &[Value], new: &[Value], in_flow: bool) {
    let by_place = old.len() == new.len() && !old.iter().chain(new).any(|item| item["name"].is_string());
    let identities = |items: &[Value]| -> Vec<String> {
        let identity = |(at, item)| if by_place { format!("{at}") } else { identity(item) };
        items.iter().enumerate().map(identity).collect()
    };
    let (known, target) = (identities(old), identities(new));
    let all: BTreeSet<&String> = target.iter().collect();
    let mut items: Vec<(&String, &Value)> = known.iter().zip(old).collect();
    for at in (0..items.len()).rev().filter(|at| !all.contains(&known[*at])) {
        node.remove(at);
        items.remove(at);
    }
    for (at, (identity, new)) in target.iter().zip(new).enumerate() {
        let further = items[at..].iter().position(|(other, _)| *other == identity);
        if further != Some(0) {
            if let Some(from) = further.map(|further| at + further) {
                node.remove(from);
                items.remove(from);
            }
            node.insert(at, written(new));
            items.insert(at, (identity, new));
        } else if items[at].1 != new
            && !node.get(at).is_some_and(|value| inside(&value, items[at].1, new, in_flow))
        {
            node.set(at, written(new));
        }
    }
    for at in (new.len()..items.len()).rev() {
        node.remove(at);
    }
}

/// Edits a value in place; false if it must be replaced.
fn inside(node: &YamlNode, old: &Value, new: &Value, in_flow: bool) -> bool {
    let outgrows = |is_flow: bool| {
        is_flow && !in_flow && new.to_string().len() > MAX_WIDTH && !node.to_string().contains('\n')
    };
    match (node, old, new) {
        (YamlNode::Mapping(node), Value::Object(old), Value::Object(new))
            if !old.is_empty() && !new.is_empty() && !outgrows(node.is_flow_style()) =>
        {
            mapping(node, old, new, in_flow || node.is_flow_style());
        }
        (YamlNode::Sequence(node), Value::Array(old), Value::Array(new))
            if !old.is_empty() && !new.is_empty() && !outgrows(node.is_flow_style()) =>
        {
            sequence(node, old, new, in_flow || node.is_flow_style());
        }
        _ => return false,
    }
    true
}

fn identity(item: &Value) -> String {
    let name = item.get("name").filter(|name| name.is_string());
    name.unwrap_or(item).to_string()
}

fn written(value: &Value) -> impl AsYaml {
    let text = block(&in_order_of(None, value));
    Document::from_str(&text).expect("written values are YAML")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_documents_are_the_whole_file() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(split(text, expected.len()).as_deref(), Some(expected), "{text:?}");
            let read = mesh::pod::values("file", text).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(read.len(), expected.len(), "{text:?}");
            let each: Vec<_> =
                expected.iter().flat_map(|text| mesh::pod::values("file", text)).flatten().collect();
            assert_eq!(each, read, "{text:?}");
        };
        check("a: 1\n", &["a: 1\n"]);
        check("# c\n---\na: 1\n---\r\nb: 2", &["# c\n---\na: 1\n", "---\r\nb: 2"]);
        check("\u{feff}--- # c\na: 1\n---\tb\n", &["\u{feff}--- # c\na: 1\n", "---\tb\n"]);
        check("---\n---\na: ---\n ---\n", &["---\n", "---\na: ---\n ---\n"]);
        check("a: |\n  ---\n---x: 1\n", &["a: |\n  ---\n---x: 1\n"]);
        check(
            "%YAML 1.1\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n",
            &["%YAML 1.1\n---\na: 1\n...\n", "%YAML 1.1\n---\nb: 2\n"],
        );
        check("a: 1\n...\n# end\n", &["a: 1\n...\n# end\n"]);
        check("a: 1\n...\nb: 2\n...\n", &["a: 1\n...\n", "b: 2\n...\n"]);
        check(" {\"a\": 1}\n{\"b\": 2} {}\n", &[" {\"a\": 1}", "\n{\"b\": 2}", " {}\n"]);
        assert_eq!(split("a: 1\n", 2), None);
    }
}
