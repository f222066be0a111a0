//! YAML into trees, one a document: the events of a parser, put together so that no input can hurt.
//!
//! Repeated keys are refused, as Kubernetes refuses them, unless the caller takes the later one, as programs do that
//! read what they have written themselves. Aliases share their values, and all of
//! those are counted and bounded, so that a few lines can't become a billion.

use super::malformed::{DEEPEST, Malformed, place};
use super::node::{ManifestNode, ManifestValue, TextPosition};
use super::scalar::{ScalarKind, kind};
use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag, options};
use std::{borrow::Cow, collections::BTreeMap, rc::Rc};

/// The largest text that is read: etcd holds objects of 1.5 MiB, and a file holds some of them.
const MAX_BYTES: usize = 64 << 20;
/// The most values in a document, those of aliases included.
const MAX_VALUES: usize = 4_000_000;
/// A text counts as one value more for each so many bytes: aliases share it in the tree, but data holds a copy for each.
const BYTES_OF_VALUE: usize = 64;

/// A repeated key of a mapping.
pub(super) struct Repeated {
    pub(super) key: String,
    pub(super) first: TextPosition,
    pub(super) again: TextPosition,
}

/// The documents of a text, YAML or JSON. Empty ones are null.
pub(super) fn documents(text: &str) -> Result<Vec<Rc<ManifestNode>>, Malformed> {
    read(text, None)
}

/// The same where the later of two equal keys counts; the repeated ones are noted. In JSON objects that follow each other
/// without `---`, they are still refused.
pub(super) fn documents_of_later_keys(
    text: &str,
    repeated: &mut Vec<Repeated>,
) -> Result<Vec<Rc<ManifestNode>>, Malformed> {
    read(text, Some(repeated))
}

fn read(text: &str, repeated: Option<&mut Vec<Repeated>>) -> Result<Vec<Rc<ManifestNode>>, Malformed> {
    if text.len() > MAX_BYTES {
        return Err(Malformed::whole(format!("has more than {} MiB", MAX_BYTES >> 20)));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    yaml(text, repeated).or_else(|malformed| {
        // What of JSON is not YAML: several objects without anything between them.
        let is_json = text.trim_start().starts_with('{');
        let json = || {
            serde_json::Deserializer::from_str(text)
                .into_iter::<ManifestNode>()
                .collect::<Result<Vec<_>, _>>()
        };
        match is_json.then(json) {
            Some(Ok(nodes)) => Ok(nodes.into_iter().map(Rc::new).collect()),
            Some(Err(_)) | None => Err(malformed),
        }
    })
}

fn yaml(text: &str, repeated: Option<&mut Vec<Repeated>>) -> Result<Vec<Rc<ManifestNode>>, Malformed> {
    let mut loader = Loader { repeated, ..Loader::default() };
    let options = options! { flow_nesting_limit: DEEPEST, block_nesting_limit: DEEPEST };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event?;
        loader.take(event, &span)?;
    }
    Ok(loader.documents)
}

#[derive(Default)]
struct Loader<'a> {
    documents: Vec<Rc<ManifestNode>>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Rc<ManifestNode>>,
    /// Collects repeated keys; `None` where they are refused.
    repeated: Option<&'a mut Vec<Repeated>>,
}

/// A list or a mapping whose end has not come.
struct Open {
    place: TextPosition,
    anchor: usize,
    size: usize,
    items: Items,
}

enum Items {
    List(Vec<Rc<ManifestNode>>),
    Map {
        entries: Vec<(String, Rc<ManifestNode>)>,
        places: BTreeMap<String, TextPosition>,
        key: Option<String>,
        /// What `<<` brings in, beneath what is written.
        merged: Vec<Rc<ManifestNode>>,
    },
}

impl Loader<'_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Malformed> {
        let start = &span.start;
        match event {
            Event::DocumentStart(..) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => self.put(node, start),
                None => Err(Malformed::at(start, "the alias refers to a value that contains it")),
            },
            Event::Scalar(text, style, anchor, tag) => {
                // Where there is nothing, the parser reports ~.
                let text = if span.is_empty() { Cow::Borrowed("") } else { text };
                let kind = of_scalar(&text, style, tag.as_deref(), span)?;
                let size = 1 + text.len() / BYTES_OF_VALUE;
                let value = ManifestValue::Scalar { text: text.into_owned(), kind };
                self.finish(ManifestNode { place: Some(place(start)), value, size }, anchor, start)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.open(anchor, Items::List(Vec::new()), tag.as_ref(), span)
            }
            Event::MappingStart(_, anchor, tag) => {
                let (entries, places, merged) = (Vec::new(), BTreeMap::new(), Vec::new());
                self.open(anchor, Items::Map { entries, places, key: None, merged }, tag.as_ref(), span)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => self.close(open, start),
                None => Err(Malformed::at(start, "something ends that has not begun")),
            },
            // Begin and end of the stream, the end of a document, and comments.
            _ => Ok(()),
        }
    }

    fn open(
        &mut self,
        anchor: usize,
        items: Items,
        tag: Option<&Cow<'_, Tag>>,
        span: &Span,
    ) -> Result<(), Malformed> {
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) {
            return Err(unknown_tag(tag, span));
        }
        let start = &span.start;
        if self.open.len() == DEEPEST {
            return Err(Malformed::too_deep(start));
        }
        if let Some(Open { items: Items::Map { key: None, .. }, .. }) = self.open.last() {
            // An unquoted {{ of a template gets here, too.
            let text = "a list or a mapping can't be a key; write a text that begins with [ or { in quotes, \
                        and fill templates in before";
            return Err(Malformed::at(start, text));
        }
        self.open.push(Open { place: place(start), anchor, size: 1, items });
        Ok(())
    }

    fn close(&mut self, open: Open, end: &Marker) -> Result<(), Malformed> {
        let Open { place, anchor, mut size, items } = open;
        let value = match items {
            Items::List(items) => ManifestValue::List(items),
            Items::Map { mut entries, mut places, merged, .. } => {
                for (key, node) in merged.iter().flat_map(|node| entries_of(node)) {
                    if !places.contains_key(key) {
                        places.insert(key.clone(), place);
                        size = size.saturating_add(node.size);
                        entries.push((key.clone(), Rc::clone(node)));
                    }
                }
                ManifestValue::Map(entries)
            }
        };
        self.finish(ManifestNode { place: Some(place), value, size }, anchor, end)
    }

    fn finish(&mut self, node: ManifestNode, anchor: usize, at: &Marker) -> Result<(), Malformed> {
        let node = Rc::new(node);
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.put(node, at)
    }

    /// Puts a value where it belongs: into what is open, or as a document.
    fn put(&mut self, node: Rc<ManifestNode>, at: &Marker) -> Result<(), Malformed> {
        let Some(open) = self.open.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        open.size = open.size.saturating_add(node.size);
        if open.size > MAX_VALUES {
            return Err(Malformed::at(
                at,
                format!(
                    "there are more than {MAX_VALUES} values, aliases included; a long text counts as several"
                ),
            ));
        }
        match &mut open.items {
            Items::List(items) => items.push(node),
            Items::Map { entries, key, merged, .. } if key.is_some() => match key.take() {
                Some(key) if key == MERGE => merged.extend(mappings(&node, at)?),
                // A later one of the same key counts where the tree becomes data.
                Some(key) => entries.push((key, node)),
                None => {}
            },
            Items::Map { places, key, .. } => {
                let ManifestValue::Scalar { text, kind } = &node.value else {
                    return Err(Malformed::at(at, "a list or a mapping can't be a key"));
                };
                // As in sigs.k8s.io/yaml: `yes` becomes the key "true", and 0x10 the key "16".
                let text = match kind {
                    ScalarKind::Bool(value) => value.to_string(),
                    ScalarKind::Whole(number) => number.to_string(),
                    ScalarKind::Text | ScalarKind::Null | ScalarKind::Float => text.clone(),
                };
                if let Some(first) = places.insert(text.clone(), place(at)) {
                    let Some(repeated) = &mut self.repeated else {
                        let text = format!("the key {text:?} is repeated; the first is at {first}");
                        return Err(Malformed::at(at, text));
                    };
                    repeated.push(Repeated { key: text.clone(), first, again: place(at) });
                }
                *key = Some(text);
            }
        }
        Ok(())
    }
}

/// The key by which YAML 1.1 brings the entries of other mappings in.
const MERGE: &str = "<<";

fn mappings(node: &Rc<ManifestNode>, at: &Marker) -> Result<Vec<Rc<ManifestNode>>, Malformed> {
    let nodes = match &node.value {
        ManifestValue::List(items) => items.clone(),
        ManifestValue::Map(_) | ManifestValue::Scalar { .. } => vec![Rc::clone(node)],
    };
    match nodes.iter().all(|node| matches!(node.value, ManifestValue::Map(_))) {
        true => Ok(nodes),
        false => Err(Malformed::at(at, "<< takes a mapping, or a list of them")),
    }
}

fn entries_of(node: &ManifestNode) -> &[(String, Rc<ManifestNode>)] {
    match &node.value {
        ManifestValue::Map(entries) => entries,
        ManifestValue::List(_) | ManifestValue::Scalar { .. } => &[],
    }
}

fn of_scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    span: &Span,
) -> Result<ScalarKind, Malformed> {
    match tag {
        None if style == ScalarStyle::Plain => Ok(kind(text)),
        None => Ok(ScalarKind::Text),
        Some(tag) if tag.is_yaml_core_schema() => match tag.suffix() {
            "str" => Ok(ScalarKind::Text),
            "int" | "float" | "bool" | "null" => Ok(kind(text)),
            _ => Err(unknown_tag(tag, span)),
        },
        // `!` alone marks a string.
        Some(tag) if tag.handle().is_empty() && tag.suffix() == "!" => Ok(ScalarKind::Text),
        Some(tag) => Err(unknown_tag(tag, span)),
    }
}

fn unknown_tag(tag: &Tag, span: &Span) -> Malformed {
    // A value begins after its tag.
    let start = span.tag_start().unwrap_or(span.start);
    Malformed::at(&start, format!("the tag {}{} is not known; leave it out", tag.handle(), tag.suffix()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        documents(text).map_or_else(|malformed| malformed.to_string(), |_| "nothing wrong".to_owned())
    }

    #[test]
    fn what_is_refused_is_told_with_its_place() {
        let check = |text: &str, expected: &str| assert_eq!(fault(text), expected, "{text:?}");
        check(
            "a: 1\nb: 2\na: 3\n",
            "line 3, column 1: the key \"a\" is repeated; the first is at line 1, column 1",
        );
        check("a: &x [*x]\n", "line 1, column 8: the alias refers to a value that contains it");
        check("a: !secret b\n", "line 1, column 4: the tag !secret is not known; leave it out");
        check("a: !<x> b\n", "line 1, column 4: the tag x is not known; leave it out");
        check("a: !str b\n", "line 1, column 4: the tag !str is not known; leave it out");
        check("a: !x [b]\n", "line 1, column 4: the tag !x is not known; leave it out");
        check(
            "[a]: b\n",
            "line 1, column 1: a list or a mapping can't be a key; write a text that begins with [ or { in quotes, and fill \
             templates in before",
        );
        check("a: &x [b]\n*x : c\n", "line 2, column 1: a list or a mapping can't be a key");
        check("<<: 1\n", "line 1, column 5: << takes a mapping, or a list of them");
        let deep = "more than 100 lists and mappings lie in each other";
        check(&"[".repeat(100_000), &format!("line 1, column 101: {deep}"));
        check(&"- ".repeat(100_000), &format!("line 1, column 201: {deep}"));
        check(&"a: [".repeat(101), &format!("line 1, column 201: {deep}"));
        assert!(fault("a: [1").starts_with("line"), "{}", fault("a: [1"));
        assert!(fault("{\"a\": 1, \"a\": 2}").contains("is repeated"));
    }

    #[test]
    fn aliases_share_and_are_counted() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..10 {
            let items = vec![format!("*a{}", level - 1); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        assert!(fault(&bomb).contains("more than 4000000 values"), "{}", fault(&bomb));
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 16), "*a,".repeat(4000));
        assert!(fault(&long).contains("a long text counts as several"), "{}", fault(&long));
        let shared = documents("a: &x {b: 1}\nc: {<<: *x, d: 2}\n").expect("YAML");
        assert_eq!(shared[0].at(&["c", "b"]).map(ManifestNode::noun), Some("a number"));
    }

    /// A list in a list, ten times as long on each level, so that there are exactly as many as are taken; and one more.
    #[test]
    fn as_many_values_are_taken_as_may_be() {
        let mut list = format!("&l0 [{}]", ["x"; 10].join(","));
        for level in 1..6 {
            let again = vec![format!("*l{}", level - 1); 9].join(",");
            list = format!("&l{level} [{list},{again}]");
        }
        // 1 + 3 * 1111111 + 6 * 111111
        let most = format!("{list},*l5,*l5,*l4,*l4,*l4,*l4,*l4,*l4");
        assert_eq!(documents(&format!("[{most}]")).map(|found| found[0].size), Ok(MAX_VALUES));
        assert!(fault(&format!("[{most},x]")).contains("more than 4000000 values"));
    }

    #[test]
    fn a_text_is_read_up_to_its_greatest_length() {
        let of_length = |length: usize| format!("[}}{}", " ".repeat(length - 2));
        assert!(fault(&of_length(64 << 20)).starts_with("line 1, column 1: "));
        assert_eq!(fault(&of_length((64 << 20) + 1)), "has more than 64 MiB");
    }

    #[test]
    fn documents_are_told_apart() {
        let check = |text: &str, expected: usize| {
            assert_eq!(documents(text).map(|found| found.len()), Ok(expected), "{text:?}");
        };
        check("", 0);
        check("---\n---\na: 1\n...\n", 2);
        check("\u{feff}a: 1\r\nb: 2\r\n", 1);
        check("{\"a\": 1}\n{\"b\": \"\\ud83d\\ude00\"}\n", 2);
        assert_eq!(
            documents("a: &x 1\n---\nb: *x\n").map(|found| found.len()).ok(),
            None,
            "an anchor of another"
        );
    }
}
