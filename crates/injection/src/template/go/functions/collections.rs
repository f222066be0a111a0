//! Functions on lists and maps. None changes a map in place: `set`, `unset` and merges return a new map. The module `text`
//! rewrites calls to these functions as assignments, so that variables change as with sprig.

use super::values::{go, union};
use super::{ANY, Fields, FunctionResult, field, fields, functions, is_empty, list, list_of, spend, text};
use super::{texts::texts, whole};
use crate::template::go::data::STRUCT;
use gtmpl_ng::Value;
use std::collections::BTreeMap;

functions! {
    "list" | "tuple" passes 0..=ANY, |args| Ok(Value::Array(args.to_vec()));
    "first" | "mustFirst" passes 1..=1, |args| Ok(list(&args[0])?.first().cloned().unwrap_or(Value::Nil));
    "last" | "mustLast" passes 1..=1, |args| Ok(list(&args[0])?.last().cloned().unwrap_or(Value::Nil));
    "rest" | "mustRest" passes 1..=1, |args| Ok(Value::Array(list(&args[0])?.iter().skip(1).cloned().collect()));
    "initial" | "mustInitial" passes 1..=1, |args| {
        Ok(Value::Array(list(&args[0])?.split_last().map_or(Vec::new(), |(_, initial)| initial.to_vec())))
    };
    "append" | "mustAppend" | "mustPush" | "push" passes 2..=2, |args| Ok(Value::Array([list(&args[0])?, &args[1..]].concat()));
    "prepend" | "mustPrepend" passes 2..=2, |args| Ok(Value::Array([&args[1..], list(&args[0])?].concat()));
    "concat" passes 0..=ANY, |args| Ok(Value::Array(args.iter().map(list).collect::<Result<Vec<_>, _>>()?.concat()));
    "reverse" | "mustReverse" passes 1..=1, |args| Ok(Value::Array(list(&args[0])?.iter().rev().cloned().collect()));
    "compact" | "mustCompact" passes 1..=1, |args| Ok(Value::Array(list(&args[0])?.iter().filter(|item| !is_empty(item)).cloned().collect()));
    "uniq" | "mustUniq" reads 1..=1, |args| unique(list(&args[0])?);
    "without" | "mustWithout" reads 1..=ANY, |args| {
        Ok(Value::Array(list(&args[0])?.iter().filter(|item| !args[1..].contains(item)).cloned().collect()))
    };
    "has" | "mustHas" reads 2..=2, |args| Ok(list(&args[1])?.contains(&args[0]).into());
    "sortAlpha" reads 1..=1, |args| {
        let mut texts = texts(&args[0]);
        texts.sort_unstable();
        Ok(list_of(texts))
    };
    "slice" reads 1..=4, |args| go(gtmpl_ng::funcs::slice, args);
    "until" passes 1..=1, until;
    "dict" passes 0..=ANY, |args| Ok(Value::Map(pairs(args).collect()));
    "strdict" passes 0..=ANY, |args| Ok(Value::Map(pairs(args).map(|(key, value)| (key, text(&value).into())).collect()));
    "get" passes 2..=2, |args| Ok(field(&args[0], &args[1])?.cloned().unwrap_or_else(|| "".into()));
    "hasKey" passes 2..=2, |args| Ok(field(&args[0], &args[1])?.is_some().into());
    "set" passes 3..=3, |args| {
        let mut changed = fields(&args[0])?;
        changed.insert(text(&args[1]), args[2].clone());
        Ok(Value::Map(changed))
    };
    "unset" passes 2..=2, |args| {
        let mut changed = fields(&args[0])?;
        changed.remove(&text(&args[1]));
        Ok(Value::Map(changed))
    };
    "keys" passes 1..=ANY, keys;
    "values" passes 1..=1, |args| Ok(Value::Array(sorted_fields(&args[0])?.into_values().collect()));
    "pick" passes 1..=ANY, |args| picked(args, true);
    "omit" passes 1..=ANY, |args| picked(args, false);
    "pluck" passes 1..=ANY, |args| {
        let found = args[1..].iter().filter_map(|map| field(map, &args[0]).transpose());
        Ok(Value::Array(found.map(|found| found.cloned()).collect::<Result<_, _>>()?))
    };
    "dig" passes 3..=ANY, dig;
    "merge" | "mustMerge" passes 1..=ANY, |args| merged(args, false);
    "mergeOverwrite" | "mustMergeOverwrite" passes 1..=ANY, |args| merged(args, true);
    "mergeMaps" passes 0..=ANY, |args| Ok(Value::Map(union(args)?));
    "deepCopy" | "mustDeepCopy" passes 1..=1, |args| Ok(args[0].clone());
}

fn unique(items: &[Value]) -> FunctionResult {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        // Compares each item with its predecessors; each comparison costs about 8 bytes.
        spend(kept.len() * 8)?;
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    Ok(Value::Array(kept))
}

/// Maximum count of a counting function, as in the engine's own loops.
const MAX_ITEMS: u64 = 10_000;

fn until(args: &[Value]) -> FunctionResult {
    let end = whole(&args[0]);
    let count = end.unsigned_abs();
    if count > MAX_ITEMS {
        return Err(format!("would count {count} numbers, more than {MAX_ITEMS}"));
    }
    Ok(if end < 0 { list_of((end + 1..=0).rev()) } else { list_of(0..end) })
}

/// Keys and values; the last key may lack its value.
fn pairs(args: &[Value]) -> impl Iterator<Item = (String, Value)> {
    args.chunks(2).map(|pair| (text(&pair[0]), pair.get(1).cloned().unwrap_or_else(|| "".into())))
}

/// The named fields, or all others. A list of names counts as its names.
fn picked(args: &[Value], are_wanted: bool) -> FunctionResult {
    let each = |arg: &Value| match arg {
        Value::Array(items) => items.iter().map(text).collect(),
        single => vec![text(single)],
    };
    let names: Vec<String> = args[1..].iter().flat_map(each).collect();
    let found = fields(&args[0])?.into_iter().filter(|(key, _)| names.contains(key) == are_wanted);
    Ok(Value::Map(found.collect()))
}

/// Sorted: Go's order is random.
fn sorted_fields(map: &Value) -> Result<BTreeMap<String, Value>, String> {
    Ok(fields(map)?.into_iter().filter(|(key, _)| key != STRUCT).collect())
}

fn keys(args: &[Value]) -> FunctionResult {
    let mut all = Vec::new();
    for arg in args {
        all.extend(sorted_fields(arg)?.into_keys());
    }
    all.sort_unstable();
    Ok(list_of(all))
}

/// Arguments: nested keys; the default; the map.
fn dig(args: &[Value]) -> FunctionResult {
    let (path, ends) = args.split_at(args.len() - 2);
    let mut found = &ends[1];
    for key in path {
        match field(found, key)? {
            Some(value) => found = value,
            None => return Ok(ends[0].clone()),
        }
    }
    Ok(found.clone())
}

/// Merges maps recursively. The first value of a key wins; with `overwrites`, the last.
fn merged(args: &[Value], overwrites: bool) -> FunctionResult {
    let mut target = fields(&args[0])?;
    for arg in &args[1..] {
        merge(&mut target, fields(arg)?, overwrites);
    }
    Ok(Value::Map(target))
}

fn merge(target: &mut Fields, from: Fields, overwrites: bool) {
    for (key, value) in from {
        match (target.get_mut(&key), value) {
            (Some(Value::Map(inner)), Value::Map(value)) => merge(inner, value, overwrites),
            (Some(other), value) if overwrites || super::is_empty(other) => *other = value,
            (Some(_), _) => {}
            (None, value) => {
                target.insert(key, value);
            }
        }
    }
}
