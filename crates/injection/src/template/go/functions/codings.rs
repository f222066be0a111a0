//! Functions that write values as JSON, YAML, base 32 and base 64, and read them, and checksums, by which pods are created again when
//! a configuration changes; nothing secret depends on these.

use super::values::union;
use super::{ANY, FunctionResult, functions, text};
use crate::template::go::data::{self, fields_in_order, json_fields};
use crate::template::go::standin;
use data_encoding::{BASE32, BASE64, Encoding, HEXLOWER};
use gtmpl_ng::Value;
use mesh::data::{ScalarKind, Tree, yaml};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use std::fmt::Write;

functions! {
    "toJson" | "mustToJson" passes 1..=1, |args| Ok(json(&args[0]).into());
    "toRawJson" | "mustToRawJson" passes 1..=1, |args| Ok(written(&args[0], false).into());
    "toPrettyJson" | "mustToPrettyJson" passes 1..=1, |args| Ok(pretty(&args[0]).into());
    "toJsonMap" passes 0..=ANY, |args| Ok(json(&Value::Map(union(args)?)).into());
    "fromJson" reads 1..=1, |args| Ok(from_json(&text(&args[0])).unwrap_or(Value::Nil));
    "mustFromJson" reads 1..=1, |args| from_json(&text(&args[0]));
    "fromYaml" reads 1..=1, |args| {
        let read = mesh::pod::values("fromYaml", &text(&args[0])).map_err(|problems| problems.joined())?;
        Ok(read.first().map_or(Value::Nil, data::plain))
    };
    "b32enc" reads 1..=1, |args| Ok(BASE32.encode(text(&args[0]).as_bytes()).into());
    "b32dec" reads 1..=1, |args| decoded(&BASE32, "base 32", &text(&args[0]));
    "b64enc" reads 1..=1, |args| Ok(BASE64.encode(text(&args[0]).as_bytes()).into());
    "b64dec" reads 1..=1, |args| decoded(&BASE64, "base 64", &text(&args[0]));
    "sha1sum" reads 1..=1, digest::<Sha1>;
    "sha256sum" reads 1..=1, digest::<Sha256>;
    "sha512sum" reads 1..=1, digest::<Sha512>;
    "adler32sum" reads 1..=1, |args| Ok(adler32(text(&args[0]).as_bytes()).to_string().into());
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
pub(in crate::template::go) fn json(value: &Value) -> String {
    written(value, true)
}

fn written(value: &Value, escapes_html: bool) -> String {
    match value {
        Value::NoValue | Value::Nil | Value::Function(_) => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text, escapes_html),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| written(item, escapes_html)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Map(fields) | Value::Object(fields) => {
            let fields = fields_in_order(fields).into_iter().map(|(key, value)| {
                format!("{}:{}", quoted(&key, escapes_html), written(value, escapes_html))
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
    }
}

/// A value as YAML in blocks.
pub(super) fn yaml(value: &Value) -> String {
    yaml::block(&tree(value))
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

/// Ignores line breaks and the bits after the last byte, as Go does.
fn decoded(encoding: &Encoding, name: &str, text: &str) -> FunctionResult {
    let mut lenient = encoding.specification();
    lenient.check_trailing_bits = false;
    lenient.ignore.push_str("\r\n");
    let lenient = lenient.encoding().expect("the alphabet of RFC 4648");
    let bytes = lenient.decode(text.as_bytes()).map_err(|error| format!("is given no {name}: {error}"))?;
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

pub(super) fn from_json(text: &str) -> FunctionResult {
    let read: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("is given invalid JSON: {error}"))?;
    Ok(data::plain(&read))
}

fn digest<D: Digest>(args: &[Value]) -> FunctionResult {
    Ok(HEXLOWER.encode(&D::digest(text(&args[0]))).into())
}

/// RFC 1950, section 8.2.
fn adler32(data: &[u8]) -> u32 {
    const PRIME: u32 = 65_521;
    let (one, two) = data.iter().fold((1, 0), |(one, two), byte| {
        let one = (one + u32::from(*byte)) % PRIME;
        (one, (two + one) % PRIME)
    });
    two << 16 | one
}
