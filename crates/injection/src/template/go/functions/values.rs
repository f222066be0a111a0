//! Value conversions for functions; functions that select, inspect and compare values, including Go's own that read strings;
//! integer arithmetic with errors for overflows.

use super::{ANY, FunctionResult, RENDERING, functions};
use crate::template::go::standin;
use gtmpl_ng::{Func, NumberKind, Value, funcs};
use mesh::data::ScalarKind;

functions! {
    "default" passes 1..=2, |args| Ok(args.last().filter(|value| !is_empty(value)).unwrap_or(&args[0]).clone());
    "empty" passes 1..=1, |args| Ok(is_empty(&args[0]).into());
    "coalesce" passes 0..=ANY, |args| Ok(args.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil));
    "ternary" passes 3..=3, |args| Ok(args[usize::from(is_empty(&args[2]))].clone());
    "all" passes 0..=ANY, |args| Ok((!args.iter().any(is_empty)).into());
    "any" passes 0..=ANY, |args| Ok(args.iter().any(|value| !is_empty(value)).into());
    "fail" passes 1..=1, |args| {
        RENDERING.with_borrow_mut(|rendering| rendering.refused = true);
        Err(format!("was called: {}", text(&args[0])))
    };
    "kindOf" passes 1..=1, |args| Ok(kind_of(&args[0]).into());
    "kindIs" passes 2..=2, |args| Ok((text(&args[0]) == kind_of(&args[1])).into());
    "deepEqual" reads 2..=2, |args| Ok((args[0] == args[1]).into());
    "eq" reads 2..=ANY, |args| equal(args).map(Value::from);
    "ne" reads 2..=2, |args| equal(args).map(|is| (!is).into());
    "lt" reads 2..=2, |args| go(funcs::lt, args);
    "le" reads 2..=2, |args| go(funcs::le, args);
    "gt" reads 2..=2, |args| go(funcs::gt, args);
    "ge" reads 2..=2, |args| go(funcs::ge, args);
    "len" reads 1..=1, |args| if is_nothing(&args[0]) { Ok(0_u8.into()) } else { go(funcs::len, args) };
    "html" reads 0..=ANY, |args| go(funcs::html, args);
    "js" reads 0..=ANY, |args| go(funcs::js, args);
    "urlquery" reads 0..=ANY, |args| go(funcs::urlquery, args);
    "print" passes 0..=ANY, |args| go(funcs::print, args);
    "printf" passes 1..=ANY, printf;
    "index" passes 1..=ANY, index;
    "int" | "int64" reads 1..=1, |args| Ok(whole(&args[0]).into());
    "atoi" reads 1..=1, |args| Ok(text(&args[0]).parse().unwrap_or(0_i64).into());
    "float64" reads 1..=1, |args| Ok(float(&args[0]).into());
    "add" reads 0..=ANY, |args| folded(args, i64::checked_add);
    "add1" reads 1..=1, |args| folded(&[args[0].clone(), 1.into()], i64::checked_add);
    "sub" reads 2..=2, |args| folded(args, i64::checked_sub);
    "mul" reads 1..=ANY, |args| folded(args, i64::checked_mul);
    "div" reads 2..=2, |args| folded(args, i64::checked_div);
    "mod" reads 2..=2, |args| folded(args, i64::checked_rem);
    "max" | "biggest" reads 1..=ANY, |args| folded(args, |one, other| Some(one.max(other)));
    "min" reads 1..=ANY, |args| folded(args, |one, other| Some(one.min(other)));
    "ceil" reads 1..=1, |args| Ok(float(&args[0]).ceil().into());
    "floor" reads 1..=1, |args| Ok(float(&args[0]).floor().into());
    "round" reads 2..=3, |args| {
        let places = i32::try_from(whole(&args[1]).clamp(-300, 300)).unwrap_or(0);
        let scaled = float(&args[0]) * 10_f64.powi(places);
        // Rounds up from this fraction, which negative numbers never reach.
        let up = scaled.fract() >= args.get(2).map_or(0.5, float);
        let rounded = if up { scaled.ceil() } else { scaled.floor() };
        Ok((rounded / 10_f64.powi(places)).into())
    };
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::NoValue | Value::Nil => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value in the format of Go's `Sprint`.
pub(super) fn printed(value: &Value) -> String {
    if is_nothing(value) { "<nil>".to_owned() } else { value.to_string() }
}

pub(super) fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::NoValue | Value::Nil)
}

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

/// Converts a value to an integer like sprig; 0 if not convertible.
pub(super) fn whole(value: &Value) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap_or_else(|| truncated(number.as_f64().unwrap_or(0.0))),
        Value::String(text) => of_literal(text).unwrap_or(0),
        Value::Bool(is) => i64::from(*is),
        _ => 0,
    }
}

/// Drops fractions; saturates if out of range.
#[expect(clippy::cast_possible_truncation, reason = "the saturating cast is intended")]
fn truncated(number: f64) -> i64 {
    number.trunc() as i64
}

/// A Go or YAML 1.1 integer literal, optionally with zeros after a decimal point.
fn of_literal(text: &str) -> Option<i64> {
    let has_no_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b == b'0');
    let text = text.split_once('.').filter(|(_, part)| has_no_part(part)).map_or(text, |(whole, _)| whole);
    let divides = !text.ends_with('_') && !text.contains("__");
    match ScalarKind::of_plain(text) {
        ScalarKind::Whole(number) if divides => number.try_into().ok(),
        _ => None,
    }
}

pub(super) fn list_of(items: impl IntoIterator<Item: Into<Value>>) -> Value {
    Value::Array(items.into_iter().map(Into::into).collect())
}

pub(super) fn list(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::Array(items) => Ok(items),
        Value::NoValue | Value::Nil => Ok(&[]),
        other => Err(format!("takes a list, not a value of kind {}", kind_of(other))),
    }
}

pub(super) type Fields = std::collections::HashMap<String, Value>;

pub(super) fn fields(value: &Value) -> Result<Fields, String> {
    match value {
        Value::Map(fields) | Value::Object(fields) => Ok(fields.clone()),
        Value::NoValue | Value::Nil => Ok(Fields::new()),
        other => Err(format!("takes a map, not a value of kind {}", kind_of(other))),
    }
}

pub(super) fn union(args: &[Value]) -> Result<Fields, String> {
    let mut all = Fields::new();
    for arg in args {
        all.extend(fields(arg)?);
    }
    Ok(all)
}

pub(super) fn field<'a>(value: &'a Value, key: &Value) -> Result<Option<&'a Value>, String> {
    match (value, key) {
        (Value::Map(fields) | Value::Object(fields), key) => Ok(entry(fields, &text(key))),
        (Value::NoValue | Value::Nil, _) => Ok(None),
        (other, _) => Err(format!("takes a map, not a value of kind {}", kind_of(other))),
    }
}

/// Both the map and the key may have stand-ins.
fn entry<'a>(fields: &'a Fields, key: &str) -> Option<&'a Value> {
    let meant = || fields.get(&standin::uncover(key)).or_else(|| fields.get(&standin::cover(key)));
    fields.get(key).or_else(meant)
}

/// Resolves stand-ins for hexadecimal verbs, which print bytes of the original.
fn printf(args: &[Value]) -> FunctionResult {
    let verb = |part: &str| {
        part.trim_start_matches(|c: char| c.is_ascii_digit() || "+-# .[]*".contains(c)).to_owned()
    };
    let writes_bytes = text(&args[0]).split('%').skip(1).any(|part| verb(part).starts_with(['x', 'X']));
    if !writes_bytes || !args.iter().any(standin::is_in) {
        return go(funcs::printf, args);
    }
    let meant: Vec<Value> = args.iter().map(standin::meaning).collect();
    go(funcs::printf, &meant).map(|made| standin::covered(&made))
}

/// True if the first argument equals a later one. Nil equals only nil, and can be compared with anything.
fn equal(args: &[Value]) -> Result<bool, String> {
    for other in &args[1..] {
        let is = match (is_nothing(&args[0]), is_nothing(other)) {
            (false, false) => go(funcs::eq, &[args[0].clone(), other.clone()])? == Value::Bool(true),
            (one, other) => one && other,
        };
        if is {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn go(function: Func, args: &[Value]) -> FunctionResult {
    function(args).map_err(|error| format!("fails: {error}"))
}

/// A missing key of a map of strings yields an empty string, as in Go. A map with only strings counts as such.
fn index(args: &[Value]) -> FunctionResult {
    let mut found = &args[0];
    for (at, key) in args.iter().enumerate().skip(1) {
        found = match (found, key) {
            (Value::Map(fields), Value::String(key)) => match entry(fields, key) {
                Some(value) => value,
                None if fields.values().all(|value| matches!(value, Value::String(_))) => {
                    return Ok("".into());
                }
                None => return Ok(Value::NoValue),
            },
            (Value::Array(items), Value::Number(_)) => {
                let at = usize::try_from(whole(key)).ok();
                at.and_then(|at| items.get(at))
                    .ok_or_else(|| format!("finds no item {key} in {} items", items.len()))?
            }
            // The engine handles other cases: bytes of strings, and errors.
            (other, _) => return go(funcs::index, &[std::slice::from_ref(other), &args[at..]].concat()),
        };
    }
    Ok(found.clone())
}

/// The name in Go's package reflect.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::NoValue | Value::Nil => "invalid",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::Object(_) | Value::Map(_) => "map",
        Value::Array(_) => "slice",
        Value::Function(_) => "func",
        Value::Number(number) => match number.kind() {
            NumberKind::Float(_) => "float64",
            NumberKind::Signed(_) | NumberKind::Unsigned(_) => "int",
        },
    }
}

fn folded(args: &[Value], step: fn(i64, i64) -> Option<i64>) -> FunctionResult {
    let mut numbers = args.iter().map(whole);
    let first = numbers.next().unwrap_or(0);
    let outcome = numbers.try_fold(first, step);
    outcome.map(Value::from).ok_or_else(|| "divides by zero or leaves the range of whole numbers".to_owned())
}

fn float(value: &Value) -> f64 {
    match value {
        Value::Bool(is) => f64::from(u8::from(*is)),
        other => text(other).trim().parse().unwrap_or(0.0),
    }
}
