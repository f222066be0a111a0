//! Loads YAML and JSON into trees, one per document, from a parser's events. Counts and limits values, including aliased ones,
//! so that a few lines can't expand into a billion. Common faults get a remedy after the parser's report.

use super::{ScalarKind, TextPosition, Tree, TreeValue};
use crate::{InputProblem, Problems, visible::visible};
use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag, options};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// Largest input in bytes: etcd limits objects to 1.5 MiB; a file may contain several.
const MAX_BYTES: usize = 64 << 20;
/// Largest number of values in a document, aliases included.
const MAX_VALUES: usize = 4_000_000;
/// String bytes that count as one value: aliases share strings in the tree, but `data` copies them.
const BYTES_OF_VALUE: usize = 64;
const DEEPEST: usize = 100;
const MERGE: &str = "<<";

/// Parses YAML or JSON; empty documents are null. `repeated` collects remarks about duplicate keys, the last of which wins.
pub(crate) fn documents(
    name: &str,
    text: &str,
    repeated: Option<&mut Vec<String>>,
) -> Result<Vec<Arc<Tree>>, Problems> {
    let problem =
        |text: String| Problems(vec![InputProblem::of(name, format!("is not YAML or JSON: {text}"))]);
    if text.len() > MAX_BYTES {
        return Err(problem(format!("has more than {} MiB", MAX_BYTES >> 20)));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    yaml(text, repeated).or_else(|malformed| {
        // JSON that is not YAML: several objects without a separator.
        let json =
            || serde_json::Deserializer::from_str(text).into_iter().map(|tree| tree.map(Arc::new)).collect();
        let trees: Option<Result<_, _>> = text.trim_start().starts_with('{').then(json);
        let trees = trees.and_then(Result::ok);
        trees.ok_or_else(|| {
            let mut problems = problem(format!("{}: {}", malformed.place, malformed.text));
            problems.0[0].excerpt = excerpt(text, malformed.place);
            problems
        })
    })
}

pub fn values(name: &str, text: &str) -> Result<Vec<Value>, Problems> {
    Ok(documents(name, text, None)?.iter().map(|tree| data(tree)).collect())
}

/// Like [`values`], but the last of duplicate keys wins, with a remark for each.
pub fn values_of_later_keys(name: &str, text: &str) -> Result<(Vec<Value>, Vec<String>), Problems> {
    let mut remarks = Vec::new();
    let documents = documents(name, text, Some(&mut remarks))?;
    Ok((documents.iter().map(|tree| data(tree)).collect(), remarks))
}

pub(crate) fn data(tree: &Tree) -> Value {
    serde_json::to_value(tree).expect("a tree has text keys and finite numbers")
}

fn yaml(text: &str, repeated: Option<&mut Vec<String>>) -> Result<Vec<Arc<Tree>>, Malformed> {
    let options = options! { flow_nesting_limit: DEEPEST, block_nesting_limit: DEEPEST };
    let events = Parser::new_from_str_with_options(text, options);
    let mut loader = Loader { events, at: Marker::default(), anchors: BTreeMap::new(), repeated };
    let mut documents = Vec::new();
    while let Some((event, span)) = loader.next()? {
        documents.push(loader.tree(event, &span, 0)?.0);
    }
    Ok(documents)
}

/// Up to 76 columns of the line, and a caret below the position, each after a line break.
fn excerpt(text: &str, place: TextPosition) -> String {
    let line: Vec<char> = text.lines().nth(place.line - 1).unwrap_or_default().chars().collect();
    let shown = |part: &[char]| visible(&part.iter().collect::<String>());
    let at = line.len().min(place.column - 1);
    let start = at.saturating_sub(60);
    let (before, after) = (shown(&line[start..at]), shown(&line[at..line.len().min(start + 76)]));
    let (margin, column) = (place.line.to_string().len(), before.chars().count());
    format!("\n  {} | {before}{after}\n  {:margin$} | {:column$}^", place.line, "", "")
}

struct Malformed {
    place: TextPosition,
    text: String,
}

impl Malformed {
    fn at(marker: &Marker, text: impl std::fmt::Display) -> Self {
        Self { place: place(marker), text: text.to_string() }
    }

    fn too_deep(marker: &Marker) -> Self {
        Self::at(marker, format_args!("lists and mappings are nested more than {DEEPEST} deep"))
    }

    fn unknown_tag(tag: &Tag, span: &Span) -> Self {
        let start = span.tag_start().unwrap_or(span.start);
        Self::at(&start, format_args!("the tag {}{} is unknown; remove it", tag.handle(), tag.suffix()))
    }
}

impl From<ScanError> for Malformed {
    fn from(error: ScanError) -> Self {
        let fault = error.info();
        match remedy(error.kind()) {
            _ if *error.kind() == ErrorKind::RecursionLimitExceeded => Self::too_deep(error.marker()),
            Some(remedy) => Self::at(error.marker(), format_args!("{fault}; {remedy}")),
            None => Self::at(error.marker(), fault),
        }
    }
}

fn place(marker: &Marker) -> TextPosition {
    TextPosition { line: marker.line(), column: marker.col() + 1 }
}

type CountedTree = (Arc<Tree>, usize);

struct Loader<'t, 'r> {
    events: Parser<'t, StrInput<'t>>,
    at: Marker,
    anchors: BTreeMap<usize, CountedTree>,
    repeated: Option<&'r mut Vec<String>>,
}

impl<'t> Loader<'t, '_> {
    /// `None` at the end of a list, a mapping or the input.
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Malformed> {
        while let Some((event, span)) = self.events.next().transpose()? {
            self.at = span.start;
            match event {
                Event::DocumentStart(..) => self.anchors.clear(),
                Event::SequenceEnd | Event::MappingEnd => return Ok(None),
                Event::Alias(..) | Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) => {
                    return Ok(Some((event, span)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn tree(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<CountedTree, Malformed> {
        let (anchor, value, size) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                // The parser reports an empty value as `~`.
                let text = if span.is_empty() { Cow::Borrowed("") } else { text };
                let kind = kind(&text, style, tag.as_deref(), span)?;
                let size = 1 + text.len() / BYTES_OF_VALUE;
                (anchor, TreeValue::Scalar { text: text.into_owned(), kind }, size)
            }
            Event::SequenceStart(_, anchor, tag) => {
                enter(tag.as_deref(), span, depth)?;
                let (mut items, mut size) = (Vec::new(), 1);
                while let Some((event, span)) = self.next()? {
                    items.push(self.within(event, &span, depth, &mut size)?);
                }
                (anchor, TreeValue::List(items), size)
            }
            Event::MappingStart(_, anchor, tag) => {
                enter(tag.as_deref(), span, depth)?;
                let (fields, size) = self.fields(place(&span.start), depth)?;
                (anchor, fields, size)
            }
            Event::Alias(anchor) => {
                let text = "the alias refers to a value that contains it";
                return self.anchors.get(&anchor).cloned().ok_or_else(|| Malformed::at(&span.start, text));
            }
            _ => return Err(Malformed::at(&span.start, "expected a value here")),
        };
        let tree = Arc::new(Tree { place: Some(place(&span.start)), value });
        if anchor != 0 {
            self.anchors.insert(anchor, (Arc::clone(&tree), size));
        }
        Ok((tree, size))
    }

    fn within(
        &mut self,
        event: Event<'t>,
        span: &Span,
        depth: usize,
        size: &mut usize,
    ) -> Result<Arc<Tree>, Malformed> {
        let (tree, more) = self.tree(event, span, depth + 1)?;
        *size = size.saturating_add(more);
        if *size > MAX_VALUES {
            let text =
                format!("more than {MAX_VALUES} values, aliases included; a long string counts as several");
            return Err(Malformed::at(&self.at, text));
        }
        Ok(tree)
    }

    fn fields(&mut self, start: TextPosition, depth: usize) -> Result<(TreeValue, usize), Malformed> {
        let (mut fields, mut size) = (Vec::new(), 1);
        // Entries of `<<`, overridden by the mapping's own.
        let (mut places, mut merged) = (BTreeMap::new(), Vec::new());
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::SequenceStart(..) | Event::MappingStart(..)) {
                // A template's unquoted {{ also parses as such a key.
                let text = "a list or a mapping can't be a key; quote a string that begins with [ or {, and \
                            render templates first";
                return Err(Malformed::at(&span.start, text));
            }
            let key = self.within(event, &span, depth, &mut size)?;
            let TreeValue::Scalar { text, kind } = &key.value else {
                return Err(Malformed::at(&self.at, "a list or a mapping can't be a key"));
            };
            // As in sigs.k8s.io/yaml: `yes` becomes the key "true", and 0x10 the key "16".
            let key = match kind {
                ScalarKind::Bool(value) => value.to_string(),
                ScalarKind::Whole(number) => number.to_string(),
                ScalarKind::Text | ScalarKind::Null | ScalarKind::Float => text.clone(),
            };
            let again = place(&self.at);
            if let Some(first) = places.insert(key.clone(), again) {
                let Some(repeated) = &mut self.repeated else {
                    let text = format!("the key {key:?} is repeated; the first is at {first}");
                    return Err(Malformed::at(&self.at, text));
                };
                repeated
                    .push(format!("the key {key:?} appears at {first} and at {again}; the later one wins"));
            }
            let Some((event, span)) = self.next()? else { break };
            let value = self.within(event, &span, depth, &mut size)?;
            match key == MERGE {
                true => merged
                    .extend(mappings(value).ok_or_else(|| {
                        Malformed::at(&self.at, "<< takes a mapping or a list of mappings")
                    })?),
                // On conversion to data, the last of duplicate keys wins.
                false => fields.push((key, value)),
            }
        }
        for (key, tree) in merged.iter().flat_map(|tree| tree.fields()) {
            if !places.contains_key(key) {
                places.insert(key.clone(), start);
                fields.push((key.clone(), Arc::clone(tree)));
            }
        }
        Ok((TreeValue::Map(fields), size))
    }
}

fn enter(tag: Option<&Tag>, span: &Span, depth: usize) -> Result<(), Malformed> {
    match tag.filter(|tag| !tag.is_yaml_core_schema()) {
        Some(tag) => Err(Malformed::unknown_tag(tag, span)),
        None if depth == DEEPEST => Err(Malformed::too_deep(&span.start)),
        None => Ok(()),
    }
}

fn mappings(tree: Arc<Tree>) -> Option<Vec<Arc<Tree>>> {
    let trees = if let TreeValue::List(items) = &tree.value { items.clone() } else { vec![tree] };
    trees.iter().all(|tree| matches!(tree.value, TreeValue::Map(_))).then_some(trees)
}

fn kind(text: &str, style: ScalarStyle, tag: Option<&Tag>, span: &Span) -> Result<ScalarKind, Malformed> {
    match tag {
        None if style == ScalarStyle::Plain => Ok(ScalarKind::of_plain(text)),
        None => Ok(ScalarKind::Text),
        Some(tag) if tag.is_yaml_core_schema() => match tag.suffix() {
            "str" => Ok(ScalarKind::Text),
            "int" | "float" | "bool" | "null" => Ok(ScalarKind::of_plain(text)),
            _ => Err(Malformed::unknown_tag(tag, span)),
        },
        Some(tag) if tag.handle().is_empty() && tag.suffix() == "!" => Ok(ScalarKind::Text),
        Some(tag) => Err(Malformed::unknown_tag(tag, span)),
    }
}

/// Remedies for faults seen in practice; the parser reports others too.
fn remedy(kind: &ErrorKind) -> Option<String> {
    let remedy = match kind {
        ErrorKind::TabInIndentation
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabNotAllowed
        | ErrorKind::InvalidBlockEntryWhitespace
        | ErrorKind::InvalidMappingValueWhitespace => "indent with spaces instead of tabs",
        // The fault's position is the start of the string.
        ErrorKind::TabInPlainScalar => "indent the following lines with spaces, not tabs",
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry => {
            "align the entries of one level, and put nothing after a closing bracket"
        }
        ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::InvalidColonPlacement => {
            "put one comma between items in brackets, and close each bracket"
        }
        ErrorKind::UnclosedFlowCollection { open } => {
            return Some(format!("close it with {}", if *open == '{' { '}' } else { ']' }));
        }
        ErrorKind::MismatchedFlowCollectionEnd { .. } | ErrorKind::MisplacedFlowCollectionEnd => {
            "close brackets in the order in which they open"
        }
        ErrorKind::BlockEntryInFlowCollection | ErrorKind::PlainScalarStartsWithDashFlowIndicator => {
            "in brackets, write items without dashes, and quote a string that is a dash; {{- begins a \
             template: render templates first"
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::DocumentIndicatorInQuotedScalar => {
            "end the string with the quote that it begins with"
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar => {
            "double a quote within single quotes, and put nothing after the closing quote"
        }
        ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "write a quote within double quotes as \\\", and put nothing after the closing quote"
        }
        ErrorKind::UnknownQuotedScalarEscape => {
            "double the backslash, or use single quotes, which have no escapes"
        }
        ErrorKind::MappingValueNotAllowed => {
            "align the keys of one level, with a space after the colon; quote a string that contains a colon and a space"
        }
        ErrorKind::SimpleKeyExpected => "put a space after a dash, and a colon and a space after a key",
        ErrorKind::ExpectedDocumentStart => "put --- between documents, and a space after a key's colon",
        ErrorKind::BlockSequenceEntryNotAllowed => "begin the list on a new line",
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => {
            "remove it, or write its escape within double quotes"
        }
        ErrorKind::UnexpectedCharacter { character } => {
            return Some(format!("quote a string that begins with {}", character.escape_default()));
        }
        ErrorKind::CommentNotSeparated => "put a space before the #",
        ErrorKind::CommentInterceptedScalar => {
            "move the comment before or after the string, or use a block string (| or >)"
        }
        ErrorKind::InvalidBlockScalarHeader => {
            "begin the string on the next line; quote a string that begins with | or >"
        }
        ErrorKind::InvalidBlockScalarIndent => "remove the spaces from the empty lines that begin the string",
        ErrorKind::MissingAnchorOrAliasName => "quote a string that begins with * or &, such as \"*\"",
        ErrorKind::UnknownAnchor => {
            "define the anchor (&name) before its use, in the same document; quote a string that begins with *"
        }
        ErrorKind::BomInsideDocument => "save the file without a byte order mark",
        _ => return None,
    };
    Some(remedy.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(text: &str) -> String {
        yaml(text, None)
            .map_or_else(|fault| format!("{}: {}", fault.place, fault.text), |_| "nothing wrong".to_owned())
    }

    #[test]
    fn syntax_error_shows_its_line_with_a_caret() {
        let check = |text: &str, expected: &str| {
            let problems = documents("a.yaml", text, None).expect_err("malformed").to_string();
            let (_, excerpt) = problems.split_once('\n').expect("an excerpt");
            assert_eq!(excerpt, expected);
        };
        check("a: 1\nb: c: d\n", "  2 | b: c: d\n    |     ^");
        check("é: \"\u{1b}x\\d\"", "  1 | é: \"\\u{1b}x\\d\"\n    |     ^");
        check(
            &format!("{}: [x", "y".repeat(900)),
            &format!("  1 | {}: [x\n    | {:60}^", "y".repeat(58), ""),
        );
    }

    #[test]
    fn errors_have_line_and_column() {
        let check = |text: &str, expected: &str| assert_eq!(fault(text), expected, "{text:?}");
        check(
            "a: 1\nb: 2\na: 3\n",
            "line 3, column 1: the key \"a\" is repeated; the first is at line 1, column 1",
        );
        check("a: &x [*x]\n", "line 1, column 8: the alias refers to a value that contains it");
        check("a: !secret b\n", "line 1, column 4: the tag !secret is unknown; remove it");
        check("a: !<x> b\n", "line 1, column 4: the tag x is unknown; remove it");
        check("a: !str b\n", "line 1, column 4: the tag !str is unknown; remove it");
        check("a: !x [b]\n", "line 1, column 4: the tag !x is unknown; remove it");
        check(
            "[a]: b\n",
            "line 1, column 1: a list or a mapping can't be a key; quote a string that begins with [ or {, \
             and render templates first",
        );
        check("a: &x [b]\n*x : c\n", "line 2, column 1: a list or a mapping can't be a key");
        check("<<: 1\n", "line 1, column 5: << takes a mapping or a list of mappings");
        let deep = "lists and mappings are nested more than 100 deep";
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
        assert!(fault(&long).contains("a long string counts as several"), "{}", fault(&long));
        let shared = documents("file", "a: &x {b: 1}\nc: {<<: *x, d: 2}\n", None).expect("YAML");
        assert_eq!(shared[0].at(&["c", "b"]).map(data), Some(json!(1)));
    }

    /// Nested lists with exactly the maximum number of values, and with one more.
    #[test]
    fn documents_have_at_most_four_million_values() {
        let mut list = format!("&l0 [{}]", ["x"; 10].join(","));
        for level in 1..6 {
            let again = vec![format!("*l{}", level - 1); 9].join(",");
            list = format!("&l{level} [{list},{again}]");
        }
        // 1 + 3 * 1111111 + 6 * 111111
        let most = format!("{list},*l5,*l5,*l4,*l4,*l4,*l4,*l4,*l4");
        assert_eq!(fault(&format!("[{most}]")), "nothing wrong");
        assert!(fault(&format!("[{most},x]")).contains("more than 4000000 values"));
    }

    #[test]
    fn input_has_at_most_64_mebibytes() {
        let of_length = |length: usize| format!("[}}{}", " ".repeat(length - 2));
        assert!(fault(&of_length(64 << 20)).starts_with("line 1, column 1: "));
        let error = documents("file", &of_length((64 << 20) + 1), None).expect_err("too long").joined();
        assert_eq!(error, "file: is not YAML or JSON: has more than 64 MiB");
    }

    #[test]
    fn documents_become_data() {
        let check =
            |text: &str, expected: Vec<Value>| assert_eq!(values("file", text), Ok(expected), "{text}");
        let second = json!({"c": {"d": "x"}});
        check(
            "a: 1\nb: [yes, 'yes', ~, 1.5, 0755]\n---\n{\"c\": {\"d\": \"x\"}}\n",
            vec![json!({"a": 1, "b": [true, "yes", null, 1.5, 493]}), second],
        );
        // Kubernetes converts keys to these strings.
        let keys = json!({"true": 1, "false": 2, "16": 3, "10": 4, "no": 5, "1.5": 6});
        check("{yes: 1, OFF: 2, 0x10: 3, 1_0: 4, 'no': 5, 1.5: 6}", vec![keys]);
        let remark = "the key \"a\" appears at line 1, column 1 and at line 3, column 1; the later one wins";
        let later = values_of_later_keys("file", "a: 1\nb: 2\na: 3\n");
        assert_eq!(later, Ok((vec![json!({"a": 3, "b": 2})], vec![remark.to_owned()])));
    }

    #[test]
    fn documents_are_separated() {
        let check = |text: &str, expected: usize| {
            assert_eq!(documents("", text, None).map(|found| found.len()), Ok(expected), "{text:?}");
        };
        check("", 0);
        check("---\n---\na: 1\n...\n", 2);
        check("\u{feff}a: 1\r\nb: 2\r\n", 1);
        check("{\"a\": 1}\n{\"b\": \"\\ud83d\\ude00\"}\n", 2);
        assert!(documents("", "a: &x 1\n---\nb: *x\n", None).is_err(), "another document's anchor");
    }
}
