//! The fields of a part of an object, taken one by one; what is left in the end is no field.

use policy::{Problem, settings::nearest};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A part of an object, and where it stands.
pub(in crate::environment) struct Fields<'a> {
    title: &'a str,
    path: String,
    fields: Cow<'a, Map<String, Value>>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The fields of a value, which may be missing. `title` names the object, `path` the part of it.
    pub(in crate::environment) fn of(
        title: &'a str,
        path: &str,
        value: &'a Value,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let path = path.to_owned();
        let fields = match value {
            Value::Object(fields) => Cow::Borrowed(fields),
            Value::Null => Cow::Owned(Map::new()),
            other => {
                let name = format!("{title}, {path}");
                problems.push(Problem::of(&name, format!("{other} is no object; expected one")));
                Cow::Owned(Map::new())
            }
        };
        Self { title, path, fields, known: Vec::new() }
    }

    /// How problems name a field.
    pub(in crate::environment) fn place(&self, field: &str) -> String {
        format!("{}, {}.{field}", self.title, self.path)
    }

    /// A field's value; null where it is missing.
    pub(in crate::environment) fn take(&mut self, field: &'static str) -> Value {
        self.known.push(field);
        self.fields.get(field).cloned().unwrap_or_default()
    }

    pub(in crate::environment) fn text(
        &mut self,
        field: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<String> {
        match self.take(field) {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => self.refuse(
                field,
                &other,
                "is no text; expected one, in quotes where it looks like something else",
                problems,
            ),
        }
    }

    pub(in crate::environment) fn boolean(
        &mut self,
        field: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<bool> {
        match self.take(field) {
            Value::Null => None,
            Value::Bool(is) => Some(is),
            other => self.refuse(
                field,
                &other,
                "is neither true nor false; expected one of them, without quotes",
                problems,
            ),
        }
    }

    pub(in crate::environment) fn list(
        &mut self,
        field: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Vec<Value> {
        match self.take(field) {
            Value::Null => Vec::new(),
            Value::Array(items) => items,
            other => self.refuse(field, &other, "is no list; expected one", problems).unwrap_or_default(),
        }
    }

    fn refuse<T>(
        &self,
        field: &str,
        value: &Value,
        expected: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<T> {
        // As JSON, which tells a text from all else by its quotes.
        problems.push(Problem::of(&self.place(field), format!("{value} {expected}")));
        None
    }

    /// Names the fields that nobody has taken.
    pub(in crate::environment) fn end(&self, problems: &mut Vec<Problem>) {
        for field in self.fields.keys().filter(|field| !self.known.contains(&field.as_str())) {
            let meant = nearest(field, self.known.iter().copied());
            let remedy = match meant {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("expected one of {}", self.known.join(", ")),
            };
            let text = format!("no such field; {remedy}");
            problems.push(Problem::of(&self.place(field), text));
        }
    }
}
