//! From data to a template's parts, by the words that [`shape`](super::shape) lists; all problems at once.

use super::condition::When;
use super::node::{EACH, Kind, Node, WHOLES};
use super::parameter::Parameter;
use super::shape::{Field, Form, Shape, is_field};
use super::text::Text;
use policy::Problem;
use policy::settings::nearest;
use serde_json::{Map, Value};

/// What is being read, and what is wrong with it so far.
#[derive(Debug)]
pub(super) struct Reader {
    name: String,
    pub(super) problems: Vec<Problem>,
    pub(super) parameters: Vec<Parameter>,
}

impl Reader {
    /// Reads a template of this name.
    pub(super) fn of(name: &str) -> Self {
        Self { name: name.to_owned(), problems: Vec::new(), parameters: Vec::new() }
    }

    /// Something is wrong at a place.
    pub(super) fn problem(&mut self, at: &str, item: Option<&str>, text: &str) {
        let name = format!("{}: {at}", self.name);
        self.problems.push(match item {
            Some(item) => Problem::with_item(&name, item, text),
            None => Problem::of(&name, text),
        });
    }

    /// A word is none of those that are known at a place.
    pub(super) fn unknown<'a>(&mut self, at: &str, word: &str, known: impl Iterator<Item = &'a str> + Clone) {
        let text = match nearest(word, known.clone()) {
            Some(like) => format!("is not known here; did you mean {like}?"),
            None => format!("is not known here; there are {}", known.collect::<Vec<_>>().join(", ")),
        };
        self.problem(at, Some(word), &text);
    }

    /// The entries of a mapping.
    pub(super) fn entries<'a>(&mut self, written: &'a Value, at: &str) -> Option<&'a Map<String, Value>> {
        let entries = written.as_object();
        if entries.is_none() {
            self.problem(at, None, &format!("is {}; expected a mapping", noun(written)));
        }
        entries
    }

    /// A part, by the form that is expected there; `None` where a problem was found.
    pub(super) fn node(&mut self, written: &Value, form: Form, at: &str) -> Option<Node> {
        if let Value::Object(fields) = written
            && let Some(choices) = fields.get("choose")
        {
            for word in fields.keys().filter(|word| *word != "choose") {
                self.unknown(at, word, ["choose"].into_iter());
            }
            return self.choices(choices, form, &format!("{at}.choose"));
        }
        match form {
            Form::Text => self.text(written, Kind::Text, at),
            Form::Word(words) => self.text(written, Kind::Word(words), at),
            Form::Number(least, most) => self.text(written, Kind::Number(least, most), at),
            Form::Bool => self.text(written, Kind::Bool, at),
            Form::Port => self.text(written, Kind::Port, at),
            Form::Field => match written.as_str() {
                Some(path) if is_field(path) => Some(Node::Text(Text::plain(path), Kind::Text)),
                path => {
                    let text = "is no field of a pod; expected one such as metadata.name or status.podIP";
                    self.problem(at, path, text);
                    None
                }
            },
            Form::Texts => {
                let entries = self.entries(written, at)?;
                let mut found = Vec::new();
                for (name, written) in entries {
                    let node = self.node(written, Form::Text, &format!("{at}.{name}"));
                    found.extend(node.map(|node| (name.clone(), node)));
                }
                Some(Node::Texts(found))
            }
            Form::List(of) => match written {
                Value::Array(items) => {
                    let items = items.iter().enumerate();
                    let items = items.map(|(index, item)| self.item(item, *of, &format!("{at}[{index}]")));
                    let items: Vec<Option<Node>> = items.collect();
                    Some(Node::List(items.into_iter().flatten().collect()))
                }
                written => self.whole(written, "a list", at),
            },
            Form::Object(shape) => match written {
                Value::Object(fields) => self.object(fields, shape, at),
                written => self.whole(written, "a mapping", at),
            },
        }
    }

    /// An item of a list, which may stand for several.
    fn item(&mut self, written: &Value, form: Form, at: &str) -> Option<Node> {
        let Some(each) = written.get("each") else { return self.node(written, form, at) };
        match EACH.iter().find(|(name, _)| each.as_str() == Some(name)) {
            Some((_, each)) if matches!(form, Form::Object(shape) if std::ptr::eq(shape, each.shape())) => {
                Some(Node::Each(*each))
            }
            Some((name, each)) => {
                let text =
                    format!("stands for items with {}, which have no place here", each.shape().vital());
                self.problem(&format!("{at}.each"), Some(name), &text);
                None
            }
            None => {
                let each = each.as_str().unwrap_or_default();
                self.unknown(&format!("{at}.each"), each, EACH.iter().map(|(name, _)| *name));
                None
            }
        }
    }

    fn choices(&mut self, written: &Value, form: Form, at: &str) -> Option<Node> {
        let Value::Array(choices) = written else {
            self.problem(at, None, &format!("is {}; expected a list of choices", noun(written)));
            return None;
        };
        let mut found = Vec::new();
        for (index, choice) in choices.iter().enumerate() {
            let at = format!("{at}[{index}]");
            let Some(fields) = self.entries(choice, &at) else { continue };
            for word in fields.keys().filter(|word| !["when", "then"].contains(&word.as_str())) {
                self.unknown(&at, word, ["when", "then"].into_iter());
            }
            let when = fields.get("when").map(|when| When::read(when, &format!("{at}.when"), self));
            match fields.get("then") {
                Some(then) => {
                    let node = self.node(then, form, &format!("{at}.then"));
                    found.extend(node.map(|node| (when, node)));
                }
                None => self.problem(&at, None, "lacks then, the value to choose"),
            }
        }
        Some(Node::Choose(found))
    }

    /// A scalar: as it is, or as `text` with a condition.
    fn text(&mut self, written: &Value, kind: Kind, at: &str) -> Option<Node> {
        if let Value::Object(fields) = written
            && let Some(text) = fields.get("text")
        {
            for word in fields.keys().filter(|word| !["text", "when"].contains(&word.as_str())) {
                self.unknown(at, word, ["text", "when"].into_iter());
            }
            let when = fields.get("when").map(|when| When::read(when, &format!("{at}.when"), self));
            let node = self.text(text, kind, at)?;
            return Some(match when {
                Some(when) => Node::When(when, Box::new(node)),
                None => node,
            });
        }
        let node = match (written, kind) {
            (Value::String(text), _) => {
                let text = Text::read(text, at, self);
                if let Some(literal) = text.literal()
                    && let Err(wrong) = kind.take(literal)
                {
                    self.problem(at, Some(literal), &wrong);
                    return None;
                }
                Node::Text(text, kind)
            }
            (Value::Bool(is), Kind::Bool) => Node::Bool(*is),
            (Value::Number(number), Kind::Number(..) | Kind::Port) => match kind.take(&number.to_string()) {
                Ok(_) => Node::Number(number.as_i64()?),
                Err(wrong) => {
                    self.problem(at, Some(&number.to_string()), &wrong);
                    return None;
                }
            },
            (Value::Number(number), Kind::Text) => Node::Text(Text::plain(&number.to_string()), kind),
            (Value::Bool(is), Kind::Text) => Node::Text(Text::plain(&is.to_string()), kind),
            (written, kind) => {
                self.problem(at, None, &format!("is {}; expected {}", noun(written), kind.noun()));
                return None;
            }
        };
        Some(node)
    }

    fn object(&mut self, written: &Map<String, Value>, shape: &'static Shape, at: &str) -> Option<Node> {
        let mut fields: Vec<(&'static Field, Node)> = Vec::new();
        let mut when = None;
        for (word, value) in written {
            let at = format!("{at}.{word}");
            if word == "when" {
                when = Some(When::read(value, &at, self));
            } else if let Some(field) = shape.fields.iter().find(|field| field.word == word) {
                fields.extend(self.node(value, field.form, &at).map(|node| (field, node)));
            } else {
                let known = shape.fields.iter().map(|field| field.word).chain(["when"]);
                self.unknown(at.trim_end_matches(word).trim_end_matches('.'), word, known);
            }
        }
        for field in shape.fields.iter().filter(|field| field.required && !written.contains_key(field.word)) {
            self.problem(at, None, &format!("lacks {}", field.word));
        }
        let given = shape.one_of.iter().filter(|word| written.contains_key(**word)).count();
        if !shape.one_of.is_empty() && given != 1 {
            let expected = format!("expected one of {}", shape.one_of.join(", "));
            self.problem(at, None, &format!("has {given} of what it may be; {expected}"));
        }
        // In the order of the shape, whatever was written first.
        fields.sort_by_key(|(field, _)| shape.fields.iter().position(|known| known.word == field.word));
        let node = Node::Object(fields, shape.one_of);
        Some(match when {
            Some(when) => Node::When(when, Box::new(node)),
            None => node,
        })
    }

    /// A list or a mapping that the configuration holds as a whole.
    fn whole(&mut self, written: &Value, expected: &str, at: &str) -> Option<Node> {
        let Value::String(text) = written else {
            self.problem(at, None, &format!("is {}; expected {expected}", noun(written)));
            return None;
        };
        let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        let found = WHOLES.iter().find(|(known, _)| Some(*known) == name);
        if found.is_none() {
            let names: Vec<String> = WHOLES.iter().map(|(name, _)| format!("${{{name}}}")).collect();
            let text = format!("is a text; expected {expected}, or one of {}", names.join(", "));
            self.problem(at, Some(written.as_str().unwrap_or_default()), &text);
        }
        found.map(|(_, whole)| Node::Whole(*whole))
    }
}

/// What a value is, in words.
pub(super) fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
