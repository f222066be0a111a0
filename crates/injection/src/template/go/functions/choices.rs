//! Functions that choose between values, ask what they are, and compare them; among them those of Go's own that look at
//! what texts say.

use super::{ANY, FunctionResult, functions, is_empty, is_nothing, text, whole};
use gtmpl_ng::{Func, NumberKind, Value, funcs};

functions! {
    "default" passes 1..=2, |args| Ok(args.last().filter(|value| !is_empty(value)).unwrap_or(&args[0]).clone());
    "empty" passes 1..=1, |args| Ok(is_empty(&args[0]).into());
    "coalesce" passes 0..=ANY, |args| Ok(args.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil));
    "ternary" passes 3..=3, |args| Ok(args[usize::from(is_empty(&args[2]))].clone());
    "all" passes 0..=ANY, |args| Ok((!args.iter().any(is_empty)).into());
    "any" passes 0..=ANY, |args| Ok(args.iter().any(|value| !is_empty(value)).into());
    "fail" passes 1..=1, |args| Err(refuse(&text(&args[0])));
    "kindOf" passes 1..=1, |args| Ok(kind_of(&args[0]).into());
    "kindIs" passes 2..=2, |args| Ok((text(&args[0]) == kind_of(&args[1])).into());
    "typeOf" passes 1..=1, |args| Ok(type_of(&args[0]).into());
    "typeIsLike" passes 2..=2, |args| Ok((text(&args[0]) == type_of(&args[1])).into());
    "typeIs" passes 2..=2, |args| Ok((text(&args[0]) == type_of(&args[1])).into());
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
    "printf" passes 1..=ANY, |args| go(funcs::printf, args);
    "index" passes 1..=ANY, index;
}

fn refuse(why: &str) -> String {
    super::RENDERING.with_borrow_mut(|rendering| rendering.refused = true);
    format!("was called: {why}")
}

/// Whether the first is one of the others. Nothing equals nothing alone, and may be compared with anything.
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

/// A key that a map of texts lacks is an empty text, as in Go. Maps have no types here, so one that holds nothing but texts
/// counts as such.
fn index(args: &[Value]) -> FunctionResult {
    let mut found = &args[0];
    for (at, key) in args.iter().enumerate().skip(1) {
        found = match (found, key) {
            (Value::Map(fields), Value::String(key)) => match fields.get(key) {
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
            // The rest is the engine's: bytes of texts, and what can't be.
            (other, _) => return go(funcs::index, &[std::slice::from_ref(other), &args[at..]].concat()),
        };
    }
    Ok(found.clone())
}

/// As Go's package reflect names it.
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

/// As Go's `%T` writes it.
fn type_of(value: &Value) -> &'static str {
    match kind_of(value) {
        "invalid" => "<nil>",
        "map" => "map[string]interface {}",
        "slice" => "[]interface {}",
        other => other,
    }
}
