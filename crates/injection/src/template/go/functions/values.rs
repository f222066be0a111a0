//! Values of templates as functions take them.

use gtmpl_ng::Value;

/// A value as text; empty where there is none.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::NoValue | Value::Nil => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// As Go's `Sprint` writes it.
pub(super) fn printed(value: &Value) -> String {
    if is_nothing(value) { "<nil>".to_owned() } else { value.to_string() }
}

pub(super) fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::NoValue | Value::Nil)
}

/// Whether sprig takes it for empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::NoValue | Value::Nil => true,
        Value::Bool(is) => !is,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Map(fields) | Value::Object(fields) => fields.is_empty(),
        Value::Number(_) => *value == Value::from(0_u8),
        Value::Function(_) => false,
    }
}

/// A whole number, as sprig makes one of anything: what is none counts as 0.
pub(super) fn whole(value: &Value) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap_or_else(|| truncated(number.as_f64().unwrap_or(0.0))),
        Value::String(text) => of_literal(text).unwrap_or(0),
        Value::Bool(is) => i64::from(*is),
        _ => 0,
    }
}

/// Without the part after the point; the nearest that fits where it is out of range.
#[expect(clippy::cast_possible_truncation, reason = "the cast is the saturating one that is wanted")]
fn truncated(number: f64) -> i64 {
    number.trunc() as i64
}

/// A number as Go's source has it: hexadecimal, octal and binary ones too, those with `_` between digits, and one with
/// nothing but zeros after its point.
fn of_literal(text: &str) -> Option<i64> {
    let text = text
        .split_once('.')
        .filter(|(_, part)| !part.is_empty() && part.bytes().all(|b| b == b'0'))
        .map_or(text, |(whole, _)| whole);
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let digits = digits.strip_prefix('+').filter(|_| sign.is_empty()).unwrap_or(digits).to_ascii_lowercase();
    let (digits, base) = match digits.as_bytes() {
        [b'0', b'x', ..] => (&digits[2..], 16),
        [b'0', b'b', ..] => (&digits[2..], 2),
        [b'0', b'o', ..] => (&digits[2..], 8),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits.as_str(), 10),
    };
    let divides =
        !digits.ends_with('_') && !digits.contains("__") && (base != 10 || !digits.starts_with('_'));
    if digits.starts_with(['+', '-']) || !divides {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{}", digits.replace('_', "")), base).ok()
}

pub(super) fn list_of(items: impl IntoIterator<Item: Into<Value>>) -> Value {
    Value::Array(items.into_iter().map(Into::into).collect())
}

pub(super) fn map_of<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

pub(super) fn list(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::Array(items) => Ok(items),
        Value::NoValue | Value::Nil => Ok(&[]),
        other => Err(format!("takes a list, and is given {}", kind(other))),
    }
}

pub(super) type Fields = std::collections::HashMap<String, Value>;

pub(super) fn fields(value: &Value) -> Result<Fields, String> {
    match value {
        Value::Map(fields) | Value::Object(fields) => Ok(fields.clone()),
        Value::NoValue | Value::Nil => Ok(Fields::new()),
        other => Err(format!("takes a map, and is given {}", kind(other))),
    }
}

pub(super) fn field<'a>(value: &'a Value, key: &Value) -> Result<Option<&'a Value>, String> {
    match (value, key) {
        (Value::Map(fields) | Value::Object(fields), key) => Ok(fields.get(&text(key))),
        (Value::NoValue | Value::Nil, _) => Ok(None),
        (other, _) => Err(format!("takes a map, and is given {}", kind(other))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::NoValue | Value::Nil => "nothing",
        Value::Bool(_) => "a boolean",
        Value::String(_) => "a text",
        Value::Object(_) | Value::Map(_) => "a map",
        Value::Array(_) => "a list",
        Value::Function(_) => "a function",
        Value::Number(_) => "a number",
    }
}
