//! Functions of lists.

use super::choices::go;
use super::texts::texts;
use super::{FunctionResult, functions, is_empty, list, spend, text, whole};
use gtmpl_ng::Value;

functions! {
    "list" passes 0..=any |args| Ok(Value::Array(args.to_vec()));
    "first" passes 1..=1 |args| Ok(list(&args[0])?.first().cloned().unwrap_or(Value::Nil));
    "last" passes 1..=1 |args| Ok(list(&args[0])?.last().cloned().unwrap_or(Value::Nil));
    "rest" passes 1..=1 |args| Ok(Value::Array(list(&args[0])?.iter().skip(1).cloned().collect()));
    "initial" passes 1..=1 |args| {
        let items = list(&args[0])?;
        Ok(Value::Array(items[..items.len().saturating_sub(1)].to_vec()))
    };
    "append" passes 2..=2 |args| Ok(Value::Array([list(&args[0])?, &args[1..]].concat()));
    "prepend" passes 2..=2 |args| Ok(Value::Array([&args[1..], list(&args[0])?].concat()));
    "concat" passes 0..=any concat;
    "reverse" passes 1..=1 |args| Ok(Value::Array(list(&args[0])?.iter().rev().cloned().collect()));
    "compact" passes 1..=1 |args| Ok(Value::Array(list(&args[0])?.iter().filter(|item| !is_empty(item)).cloned().collect()));
    "uniq" reads 1..=1 |args| unique(list(&args[0])?);
    "without" reads 1..=any |args| {
        Ok(Value::Array(list(&args[0])?.iter().filter(|item| !args[1..].contains(item)).cloned().collect()))
    };
    "has" reads 2..=2 |args| Ok(list(&args[1])?.contains(&args[0]).into());
    "sortAlpha" reads 1..=1 sorted;
    "chunk" passes 2..=2 |args| {
        let size = usize::try_from(whole(&args[0])).ok().filter(|size| *size > 0).ok_or("takes a size of at least 1")?;
        Ok(Value::Array(list(&args[1])?.chunks(size).map(|chunk| Value::Array(chunk.to_vec())).collect()))
    };
    "slice" reads 1..=4 slice;
    "until" passes 1..=1 |args| {
        let end = whole(&args[0]);
        counted(0, end, if end < 0 { -1 } else { 1 })
    };
    "untilStep" passes 3..=3 |args| counted(whole(&args[0]), whole(&args[1]), whole(&args[2]));
    "seq" passes 0..=3 seq;
}

/// Of a list, as sprig's; of a text, as Go's own.
fn slice(args: &[Value]) -> FunctionResult {
    let Value::Array(items) = &args[0] else { return go(gtmpl_ng::funcs::slice, args) };
    let at = |index: usize, otherwise: usize| match args.get(index) {
        Some(value) => usize::try_from(whole(value)).ok().filter(|at| *at <= items.len()),
        None => Some(otherwise),
    };
    match (at(1, 0), at(2, items.len())) {
        (Some(from), Some(to)) if from <= to => Ok(Value::Array(items[from..to].to_vec())),
        _ => Err(format!("takes places within the list's {} items", items.len())),
    }
}

fn concat(args: &[Value]) -> FunctionResult {
    let mut all = Vec::new();
    for arg in args {
        all.extend_from_slice(list(arg)?);
    }
    Ok(Value::Array(all))
}

fn unique(items: &[Value]) -> FunctionResult {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        // Each is compared with all before it, and a comparison takes as long as a few bytes.
        spend(kept.len() * 8)?;
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    Ok(Value::Array(kept))
}

fn sorted(args: &[Value]) -> FunctionResult {
    let mut texts = texts(&args[0]);
    texts.sort_unstable();
    Ok(Value::Array(texts.into_iter().map(Value::from).collect()))
}

/// The most items that a function may count up to, as the engine's own loops.
const MAX_ITEMS: u64 = 10_000;

fn counted(start: i64, end: i64, step: i64) -> FunctionResult {
    if step == 0 || step.is_positive() != (end > start) {
        return Ok(Value::Array(Vec::new()));
    }
    let count = start.abs_diff(end).div_ceil(step.unsigned_abs());
    if count > MAX_ITEMS {
        return Err(format!("would count {count} numbers, more than {MAX_ITEMS}"));
    }
    let numbers = (0..).map_while(|index: i64| start.checked_add(index.checked_mul(step)?));
    let is_before = |number: &i64| if step > 0 { *number < end } else { *number > end };
    Ok(Value::Array(numbers.take_while(is_before).map(Value::from).collect()))
}

/// The shell's: end; start and end; start, step and end; both ends count.
fn seq(args: &[Value]) -> FunctionResult {
    let numbers: Vec<i64> = args.iter().map(whole).collect();
    let (start, step, end) = match *numbers.as_slice() {
        [] => return Ok("".into()),
        [end] => (1, None, end),
        [start, end] => (start, None, end),
        [start, step, end, ..] => (start, Some(step), end),
    };
    let direction = if end < start { -1 } else { 1 };
    let past = end.checked_add(direction).ok_or("has no end")?;
    let Value::Array(items) = counted(start, past, step.unwrap_or(direction))? else { return Ok("".into()) };
    Ok(items.iter().map(text).collect::<Vec<_>>().join(" ").into())
}
