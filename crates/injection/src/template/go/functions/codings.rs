//! Functions that write values as JSON, YAML and base 64, and read them.

use super::maps::union;
use super::{FunctionResult, functions, is_nothing, text};
use crate::template::go::fields::{fields_in_order, json_fields};
use crate::template::go::{data, standin};
use data_encoding::{BASE32, BASE64, Encoding};
use gtmpl_ng::Value;
use mesh::data::{ScalarKind, Tree, yaml};
use std::fmt::Write;
use std::sync::LazyLock;

functions! {
    "toJSON" passes 1..=1 |args| Ok(if is_nothing(&args[0]) { "{}".into() } else { json(&args[0]).into() });
    "toJson" passes 1..=1 |args| Ok(json(&args[0]).into());
    "toRawJson" passes 1..=1 |args| Ok(written(&args[0], false).into());
    "toPrettyJson" passes 1..=1 |args| Ok(pretty(&args[0]).into());
    "toJsonMap" passes 0..=any |args| Ok(json(&Value::Map(union(args)?)).into());
    "toYaml" passes 1..=1 |args| Ok(yaml::block(&tree(&args[0])).into());
    "fromJSON" reads 1..=1 |args| Ok(from_json(&text(&args[0])).unwrap_or_else(|_| "{}".into()));
    "fromJson" reads 1..=1 |args| Ok(from_json(&text(&args[0])).unwrap_or(Value::Nil));
    "mustFromJson" reads 1..=1 |args| from_json(&text(&args[0]));
    "fromYaml" reads 1..=1 from_yaml;
    "b32enc" reads 1..=1 |args| Ok(BASE32.encode(text(&args[0]).as_bytes()).into());
    "b32dec" reads 1..=1 |args| decoded(&LENIENT_BASE32, "base 32", &text(&args[0]));
    "b64enc" reads 1..=1 |args| Ok(BASE64.encode(text(&args[0]).as_bytes()).into());
    "b64dec" reads 1..=1 |args| decoded(&LENIENT_BASE64, "base 64", &text(&args[0]));
}

/// Text in double quotes, as JSON has it; with `escapes_html` as Go's writer has it, which other texts may hold that a browser
/// reads.
pub(super) fn quoted(text: &str, escapes_html: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        // What a stand-in means is escaped, and then harmless; what needs no escape stays a stand-in.
        match standin::original(c) {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if needs_code(control) || (escapes_html && matches!(control, '<' | '>' | '&')) => {
                write!(out, "\\u{:04x}", u32::from(control)).expect("text takes all");
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// What JSON writes as a number, and what YAML takes for the end of a line or for nothing that it knows.
fn needs_code(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// A value as JSON in one line: keys of maps sorted, fields of structures by their names in JSON.
pub(in super::super) fn json(value: &Value) -> String {
    written(value, true)
}

fn written(value: &Value, escapes_html: bool) -> String {
    let mut out = String::new();
    write_json(&mut out, value, escapes_html);
    out
}

fn write_json(out: &mut String, value: &Value, escapes_html: bool) {
    match value {
        Value::NoValue | Value::Nil | Value::Function(_) => out.push_str("null"),
        Value::Bool(is) => out.push_str(if *is { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => out.push_str(&quoted(text, escapes_html)),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item, escapes_html);
            }
            out.push(']');
        }
        Value::Map(fields) | Value::Object(fields) => {
            out.push('{');
            for (index, (key, value)) in fields_in_order(fields).into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&quoted(&key, escapes_html));
                out.push(':');
                write_json(out, value, escapes_html);
            }
            out.push('}');
        }
    }
}

fn tree(value: &Value) -> Tree {
    match value {
        Value::NoValue | Value::Nil | Value::Function(_) => Tree::default(),
        Value::Bool(is) => Tree::scalar(is.to_string(), ScalarKind::Bool(*is)),
        Value::Number(number) => serde_json::from_str(&number.to_string()).unwrap_or_default(),
        Value::String(text) => Tree::scalar(text, ScalarKind::Text),
        Value::Array(items) => Tree::list(items.iter().map(tree)),
        Value::Map(fields) | Value::Object(fields) => {
            Tree::map(json_fields(fields).into_iter().map(|(key, value)| (key, tree(value))))
        }
    }
}

static LENIENT_BASE32: LazyLock<Encoding> = LazyLock::new(|| lenient(&BASE32));
static LENIENT_BASE64: LazyLock<Encoding> = LazyLock::new(|| lenient(&BASE64));

/// An encoding that ignores line breaks and the bits after the last byte, as Go does.
fn lenient(strict: &Encoding) -> Encoding {
    let mut specification = strict.specification();
    specification.check_trailing_bits = false;
    specification.ignore.push_str("\r\n");
    specification.encoding().expect("the alphabet of RFC 4648")
}

fn decoded(encoding: &Encoding, name: &str, text: &str) -> FunctionResult {
    let bytes = encoding.decode(text.as_bytes()).map_err(|error| format!("is given no {name}: {error}"))?;
    String::from_utf8(bytes).map(Value::from).map_err(|_| "finds bytes that are not UTF-8 text".to_owned())
}

fn pretty(value: &Value) -> String {
    // Of what we wrote ourselves, so it is read.
    let read: serde_json::Value = serde_json::from_str(&json(value)).unwrap_or_default();
    let mut out = String::new();
    for c in format!("{read:#}").chars() {
        // Outside of texts there are none of these but line breaks, which within texts are escaped already.
        if matches!(c, '<' | '>' | '&') || (c != '\n' && needs_code(c)) {
            write!(out, "\\u{:04x}", u32::from(c)).expect("text takes all");
        } else {
            out.push(c);
        }
    }
    out
}

fn from_json(text: &str) -> FunctionResult {
    let read: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("is given invalid JSON: {error}"))?;
    Ok(data::plain(&read))
}

fn from_yaml(args: &[Value]) -> FunctionResult {
    let read = mesh::pod::values("fromYaml", &text(&args[0])).map_err(|problems| problems.joined())?;
    Ok(read.first().map_or(Value::Nil, data::plain))
}
