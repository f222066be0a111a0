//! The fields of a part of an object, taken one by one; what is left in the end is known to nobody.

use policy::Problem;
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
                problems.push(Problem::with_item(
                    &name,
                    &other.to_string(),
                    "is not what stands there; expected an object",
                ));
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
            other => self.refuse(field, &other, "expected a text", problems),
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
            other => self.refuse(field, &other, "expected true or false", problems),
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
            other => self.refuse(field, &other, "expected a list", problems).unwrap_or_default(),
        }
    }

    fn refuse<T>(
        &self,
        field: &str,
        value: &Value,
        expected: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<T> {
        problems.push(Problem::with_item(&self.place(field), &value.to_string(), expected));
        None
    }

    /// Names the fields that nobody has taken.
    pub(in crate::environment) fn end(&self, problems: &mut Vec<Problem>) {
        for field in self.fields.keys().filter(|field| !self.known.contains(&field.as_str())) {
            let text = format!("is known to nobody; expected one of {}", self.known.join(", "));
            problems.push(Problem::of(&self.place(field), text));
        }
    }
}
