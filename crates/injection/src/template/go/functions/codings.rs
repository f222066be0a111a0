//! Functions for JSON, YAML, base 64 and checksums. Checksums cause new pods when a configuration changes; no secret depends on
//! them.

use super::{ANY, Fields, FunctionResult, functions, text, values::union};
use crate::template::go::data::{self, fields_in_order, json_fields};
use crate::template::go::standin;
use data_encoding::{BASE64, HEXLOWER};
use gtmpl_ng::Value;
use mesh::data::{ScalarKind, Tree, yaml};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::fmt::Write;

functions! {
    "toJson" | "mustToJson" passes 1..=1, |args| Ok(json(&args[0]).into());
    "toJsonMap" passes 0..=ANY, |args| Ok(json(&Value::Map(union(args)?)).into());
    "fromJson" reads 1..=1, |args| Ok(from_json(&text(&args[0])).unwrap_or(Value::Nil));
    "mustFromJson" reads 1..=1, |args| from_json(&text(&args[0]));
    "fromYaml" reads 1..=1, |args| {
        let read = mesh::pod::values("fromYaml", &text(&args[0])).map_err(|problems| problems.joined())?;
        Ok(read.first().map_or(Value::Nil, data::plain))
    };
    "b64enc" reads 1..=1, |args| Ok(BASE64.encode(text(&args[0]).as_bytes()).into());
    "b64dec" reads 1..=1, |args| decoded(&text(&args[0]));
    "sha1sum" reads 1..=1, digest::<Sha1>;
    "sha256sum" reads 1..=1, digest::<Sha256>;
}

/// True for characters that JSON escapes, that YAML reads as a line break or does not allow, and, with `html`, markup characters
/// that Go's writer escapes.
fn needs_code(c: char, html: bool) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
        || (html && matches!(c, '<' | '>' | '&'))
}

/// Resolves stand-ins whose originals will be escaped and thus harmless; others stay.
fn meant(text: &str, html: bool) -> String {
    let is_escaped = |c: char| matches!(c, '"' | '\\') || needs_code(c, html);
    text.chars().map(|c| Some(standin::original(c)).filter(|meant| is_escaped(*meant)).unwrap_or(c)).collect()
}

/// JSON in Go's format for variables and annotations.
pub(crate) fn as_go_writes(json: &str) -> String {
    escaped(json, true)
}

/// JSON with escapes that `serde_json` omits. Outside of strings, line breaks are the only such characters.
fn escaped(json: &str, html: bool) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && needs_code(c, html) {
            write!(out, "\\u{:04x}", u32::from(c)).expect("text takes all");
        } else {
            out.push(c);
        }
    }
    out
}

pub(super) fn quoted(text: &str) -> String {
    escaped(&serde_json::to_string(&meant(text, false)).expect("a string is JSON"), false)
}

/// A value as one line of JSON: keys of maps sorted, fields of structures by their JSON names.
pub(in crate::template::go) fn json(value: &Value) -> String {
    let tree = tree(value, fields_in_order, &|text| meant(text, true));
    escaped(&serde_json::to_string(&tree).expect("a tree is JSON"), true)
}

pub(super) fn yaml(value: &Value) -> String {
    yaml::block(&tree(value, json_fields, &str::to_owned))
}

type FieldOrder = fn(&Fields) -> Vec<(String, &Value)>;

fn tree(value: &Value, ordered: FieldOrder, text: &dyn Fn(&str) -> String) -> Tree {
    match value {
        Value::NoValue | Value::Nil | Value::Function(_) => Tree::default(),
        Value::Bool(is) => Tree::scalar(is.to_string(), ScalarKind::Bool(*is)),
        Value::Number(number) => serde_json::from_str(&number.to_string()).unwrap_or_default(),
        Value::String(of) => Tree::scalar(text(of), ScalarKind::Text),
        Value::Array(items) => Tree::list(items.iter().map(|item| tree(item, ordered, text))),
        Value::Map(fields) | Value::Object(fields) => Tree::map(
            ordered(fields).into_iter().map(|(key, value)| (text(&key), tree(value, ordered, text))),
        ),
    }
}

/// Decodes base 64; ignores line breaks and trailing bits, like Go.
fn decoded(text: &str) -> FunctionResult {
    let mut lenient = BASE64.specification();
    lenient.check_trailing_bits = false;
    lenient.ignore.push_str("\r\n");
    let lenient = lenient.encoding().expect("the alphabet of RFC 4648");
    let bytes = lenient.decode(text.as_bytes()).map_err(|error| format!("got invalid base64: {error}"))?;
    String::from_utf8(bytes).map(Value::from).map_err(|_| "got bytes that are not UTF-8".to_owned())
}

pub(super) fn from_json(text: &str) -> FunctionResult {
    let read: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("got invalid JSON: {error}"))?;
    Ok(data::plain(&read))
}

fn digest<D: Digest>(args: &[Value]) -> FunctionResult {
    Ok(HEXLOWER.encode(&D::digest(text(&args[0]))).into())
}
