//! A document as it was written: its values with the bytes that they stand in.
//!
//! A parser says which values there are, in which order, and roughly where. Where exactly each one begins and ends, with its
//! dash, its colon and its brackets, is found by walking along with the parser: between two values nothing can stand but
//! space, comments and marks. Data is not understood here; `policy::pod` does that.

use super::cursor::Cursor;
use granit_parser::{Event, Parser, ScalarStyle, StrInput};
use std::ops::Range;

/// A value.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// With its anchor and its tag.
    pub(super) span: Range<usize>,
    /// The anchor as it is written, `&name`.
    pub(super) anchor: Option<(usize, Range<usize>)>,
    pub(super) form: Form,
}

/// What it looks like.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Scalar,
    /// A text in lines of its own, behind `|` or `>`.
    Lines,
    /// `*name`, by the number of its anchor.
    Alias(usize),
    List(Style, Vec<Item>),
    Map(Style, Vec<Entry>),
}

/// How a list or a mapping is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// In lines of its own.
    Block,
    /// In brackets: where they open and close.
    Flow { open: usize, close: usize },
    /// `[key: value]`, a mapping without braces.
    Pair,
}

/// An item of a list.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Where its dash is; in brackets, where it begins.
    pub(super) mark: usize,
    pub(super) node: Node,
}

/// An entry of a mapping.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where its key begins.
    pub(super) mark: usize,
    pub(super) key: String,
    /// Behind its colon; behind its key where it has none.
    pub(super) colon: usize,
    pub(super) node: Node,
}

impl Node {
    /// The value at a JSON pointer whose steps have nothing escaped in them.
    pub(super) fn at(&self, pointer: &str) -> Option<&Self> {
        pointer.split('/').skip(1).try_fold(self, |node, step| match &node.form {
            Form::Map(_, entries) => entries.iter().find(|entry| entry.key == step).map(|entry| &entry.node),
            Form::List(_, items) => items.get(step.parse::<usize>().ok()?).map(|item| &item.node),
            Form::Scalar | Form::Lines | Form::Alias(_) => None,
        })
    }

    /// Whether it is an empty list or mapping.
    pub(super) fn is_empty(&self) -> bool {
        match &self.form {
            Form::List(_, items) => items.is_empty(),
            Form::Map(_, entries) => entries.is_empty(),
            Form::Scalar | Form::Lines | Form::Alias(_) => false,
        }
    }

    /// Whether an anchor or an alias stands in it.
    pub(super) fn is_shared(&self) -> bool {
        let own = self.anchor.is_some() || matches!(self.form, Form::Alias(_));
        own || self.children().into_iter().any(Self::is_shared)
    }

    /// How it is written, if it is a list or a mapping.
    pub(super) fn style(&self) -> Option<Style> {
        match &self.form {
            Form::List(style, _) | Form::Map(style, _) => Some(*style),
            Form::Scalar | Form::Lines | Form::Alias(_) => None,
        }
    }

    /// Those that it holds.
    pub(super) fn children(&self) -> Vec<&Self> {
        match &self.form {
            Form::List(_, items) => items.iter().map(|item| &item.node).collect(),
            Form::Map(_, entries) => entries.iter().map(|entry| &entry.node).collect(),
            Form::Scalar | Form::Lines | Form::Alias(_) => Vec::new(),
        }
    }
}

/// The documents of a text; `None` for all where the walk loses the parser, which costs no more than comments.
///
/// A stream of JSON objects is split before it is read.
pub(super) fn written(text: &str) -> Option<Vec<Node>> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    read(text, start..text.len()).or_else(|| {
        let mut ends =
            serde_json::Deserializer::from_str(&text[start..]).into_iter::<serde::de::IgnoredAny>();
        let (mut found, mut at) = (Vec::new(), start);
        while let Some(value) = ends.next() {
            value.ok()?;
            let end = start + ends.byte_offset();
            found.extend(read(text, at..end)?);
            at = end;
        }
        Some(found)
    })
}

fn read(text: &str, range: Range<usize>) -> Option<Vec<Node>> {
    let mut walk = Walk {
        cursor: Cursor::new(text, range.clone()),
        events: Events::new(&text[range.clone()], range.start),
        documents: Vec::new(),
    };
    walk.all()?;
    Some(walk.documents)
}

/// The parser's events, one of which can be looked at before it is taken.
struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Where its text begins.
    start: usize,
    next: Option<(Event<'a>, Range<usize>)>,
}

impl<'a> Events<'a> {
    fn new(text: &'a str, start: usize) -> Self {
        Self { parser: Parser::new_from_str(text), start, next: None }
    }

    fn peek(&mut self) -> Option<&Event<'a>> {
        if self.next.is_none() {
            let (event, span) = self.parser.next()?.ok()?;
            let bytes = span.byte_range()?;
            self.next = Some((event, self.start + bytes.start..self.start + bytes.end));
        }
        self.next.as_ref().map(|(event, ..)| event)
    }

    /// An event, and the bytes where it begins and ends.
    fn take(&mut self) -> Option<(Event<'a>, Range<usize>)> {
        self.peek()?;
        self.next.take()
    }
}

struct Walk<'a> {
    cursor: Cursor<'a>,
    events: Events<'a>,
    documents: Vec<Node>,
}

impl Walk<'_> {
    fn all(&mut self) -> Option<()> {
        loop {
            match self.events.peek()? {
                Event::StreamEnd => return Some(()),
                Event::DocumentStart(explicit, _) => {
                    let explicit = *explicit;
                    self.events.take();
                    self.cursor.open_document(explicit)?;
                    let root = self.node(false)?;
                    self.documents.push(root);
                }
                Event::DocumentEnd | Event::StreamStart => {
                    self.events.take();
                }
                _ => return None,
            }
        }
    }

    fn node(&mut self, in_flow: bool) -> Option<Node> {
        let (event, place) = self.events.take()?;
        let anchor = match &event {
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(_, anchor, _)
            | Event::MappingStart(_, anchor, _) => *anchor,
            _ => 0,
        };
        if matches!(event, Event::Scalar(_, ScalarStyle::Plain, 0, None)) && place.is_empty() {
            // Nothing stands there, not even a place of its own.
            let at = self.cursor.at;
            return Some(Node { span: at..at, anchor: None, form: Form::Scalar });
        }
        self.cursor.skip();
        let start = self.cursor.at;
        let anchored = match &event {
            Event::Alias(_) => None,
            _ => self.cursor.properties(in_flow),
        };
        let anchor = anchored.filter(|_| anchor != 0).map(|range| (anchor, range));
        let form = match event {
            Event::Alias(of) => {
                self.cursor.at = place.end;
                Form::Alias(of)
            }
            Event::Scalar(_, ScalarStyle::Plain, ..) => {
                if !place.is_empty() {
                    self.cursor.at = place.end;
                }
                Form::Scalar
            }
            Event::Scalar(_, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted, ..) => {
                self.cursor.skip();
                self.cursor.quoted()?;
                Form::Scalar
            }
            Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) => {
                self.cursor.skip();
                self.cursor.lines(place)?;
                Form::Lines
            }
            Event::SequenceStart(..) => self.list()?,
            Event::MappingStart(..) => self.map()?,
            _ => return None,
        };
        let end = match &form {
            // A block ends where the last of its values ends.
            Form::List(Style::Block, items) => items.last()?.node.span.end,
            Form::Map(Style::Block | Style::Pair, entries) => entries.last()?.node.span.end,
            _ => self.cursor.at,
        };
        Some(Node { span: start..end, anchor, form })
    }

    fn list(&mut self) -> Option<Form> {
        self.cursor.skip();
        let open = self.cursor.at;
        let in_flow = self.cursor.take("[");
        self.cursor.in_flow += usize::from(in_flow);
        let mut items = Vec::new();
        while !matches!(self.events.peek()?, Event::SequenceEnd) {
            self.cursor.skip();
            if in_flow {
                self.cursor.take(",");
                self.cursor.skip();
            }
            let mark = self.cursor.at;
            if !in_flow && !self.cursor.take("-") {
                return None;
            }
            items.push(Item { mark, node: self.node(in_flow)? });
        }
        self.events.take();
        self.cursor.in_flow -= usize::from(in_flow);
        Some(Form::List(self.style(in_flow, open, "]")?, items))
    }

    fn map(&mut self) -> Option<Form> {
        self.cursor.skip();
        let open = self.cursor.at;
        let braces = self.cursor.take("{");
        // A mapping in brackets without braces of its own, or one in lines: what its first entry looks like tells.
        let pair = !braces && self.cursor.in_flow > 0;
        self.cursor.in_flow += usize::from(braces);
        let in_flow = braces || pair;
        let mut entries = Vec::new();
        while !matches!(self.events.peek()?, Event::MappingEnd) {
            self.cursor.skip();
            if braces {
                self.cursor.take(",");
                self.cursor.skip();
            }
            let mark = self.cursor.at;
            if self.cursor.take_before_space("?") {
                self.cursor.skip();
            }
            let Event::Scalar(key, ..) = self.events.peek()? else { return None };
            let key = key.to_string();
            let node = self.node(in_flow)?;
            let before = self.cursor.at;
            self.cursor.skip();
            if !self.cursor.take(":") {
                self.cursor.at = node.span.end.max(before);
            }
            let colon = self.cursor.at;
            entries.push(Entry { mark, key, colon, node: self.node(in_flow)? });
        }
        self.events.take();
        if pair {
            return Some(Form::Map(Style::Pair, entries));
        }
        self.cursor.in_flow -= usize::from(braces);
        Some(Form::Map(self.style(braces, open, "}")?, entries))
    }

    fn style(&mut self, in_flow: bool, open: usize, end: &str) -> Option<Style> {
        if !in_flow {
            return Some(Style::Block);
        }
        self.cursor.skip();
        if self.cursor.take(",") {
            self.cursor.skip();
        }
        let close = self.cursor.at;
        self.cursor.take(end).then_some(Style::Flow { open, close })
    }
}
