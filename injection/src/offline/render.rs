//! New values as text: in lines of their own, or in brackets, as what stands around them.

use policy::data::yaml;
use serde_json::Value;

/// How a document is written, as far as new values follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// How many columns a mapping in a mapping is moved in.
    pub(super) step: usize,
    /// How many a list in a mapping is moved in: often none.
    pub(super) list_step: usize,
    /// What ends a line.
    pub(super) newline: &'static str,
    /// Whether it is JSON, in which all text is quoted.
    pub(super) is_json: bool,
    /// What one level of JSON in lines is moved in by.
    pub(super) tab: String,
}

impl Look {
    /// A value in lines of its own from a column on; the first line begins where the text is put, and the last one has no
    /// end.
    pub(super) fn block(&self, value: &Value, column: usize) -> String {
        let lines: Vec<String> = match value {
            Value::Object(fields) if !fields.is_empty() => {
                fields.iter().map(|(key, value)| self.entry(key, value, column)).collect()
            }
            Value::Array(items) if !items.is_empty() => {
                items.iter().map(|item| self.item(item, column)).collect()
            }
            scalar => return self.flow(scalar),
        };
        lines.join(&self.line(column))
    }

    /// An entry of a mapping in lines.
    pub(super) fn entry(&self, key: &str, value: &Value, column: usize) -> String {
        let key = self.text(key);
        if !has_lines(value) {
            return format!("{key}: {}", self.flow(value));
        }
        let inner = column + if value.is_array() { self.list_step } else { self.step };
        format!("{key}:{}{}", self.line(inner), self.block(value, inner))
    }

    /// An item of a list in lines. Its name is what a reader looks for, so it comes first.
    pub(super) fn item(&self, value: &Value, column: usize) -> String {
        let inner = column + 2;
        match value {
            Value::Object(fields) if fields.contains_key("name") => {
                let (name, rest): (Vec<_>, Vec<_>) = fields.iter().partition(|(key, _)| *key == "name");
                let entries = name.into_iter().chain(rest);
                let lines: Vec<String> = entries.map(|(key, value)| self.entry(key, value, inner)).collect();
                format!("- {}", lines.join(&self.line(inner)))
            }
            value => format!("- {}", self.block(value, inner)),
        }
    }

    /// The end of a line, and the space before what stands in the next.
    pub(super) fn line(&self, column: usize) -> String {
        format!("{}{}", self.newline, " ".repeat(column))
    }

    /// A value in one line.
    pub(super) fn flow(&self, value: &Value) -> String {
        match value {
            Value::Object(fields) => {
                let entries: Vec<String> = fields.iter().map(|(key, value)| self.pair(key, value)).collect();
                format!("{{{}}}", entries.join(", "))
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.flow(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::String(text) => self.text(text),
            other => other.to_string(),
        }
    }

    /// An entry of a mapping in one line.
    pub(super) fn pair(&self, key: &str, value: &Value) -> String {
        format!("{}: {}", self.text(key), self.flow(value))
    }

    /// A value of JSON in lines, whose first one begins where the text is put and whose last one stands at `indent`.
    pub(super) fn pretty(&self, value: &Value, indent: &str) -> String {
        let inner = format!("{indent}{}", self.tab);
        let lines = |lines: Vec<String>, [open, close]: [char; 2]| {
            let between = format!(",{}{inner}", self.newline);
            let (newline, lines) = (self.newline, lines.join(&between));
            format!("{open}{newline}{inner}{lines}{newline}{indent}{close}")
        };
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                let entries = fields.iter().map(|(key, value)| self.pretty_pair(key, value, &inner));
                lines(entries.collect(), ['{', '}'])
            }
            Value::Array(items) if !items.is_empty() => {
                lines(items.iter().map(|item| self.pretty(item, &inner)).collect(), ['[', ']'])
            }
            scalar => self.flow(scalar),
        }
    }

    /// An entry of such a mapping.
    pub(super) fn pretty_pair(&self, key: &str, value: &Value, indent: &str) -> String {
        format!("{}: {}", self.text(key), self.pretty(value, indent))
    }

    fn text(&self, text: &str) -> String {
        if self.is_json {
            return Value::from(text).to_string();
        }
        // JSON in quotes is read more easily if its own quotes need no escapes.
        let is_single = text.contains(['"', '\\'])
            && !text.contains('\'')
            && text.chars().all(|c| matches!(c, ' '..='~'));
        if is_single {
            return format!("'{text}'");
        }
        let mut out = String::new();
        yaml::scalar(&mut out, text);
        out
    }
}

/// Whether a value takes lines of its own.
pub(super) fn has_lines(value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
