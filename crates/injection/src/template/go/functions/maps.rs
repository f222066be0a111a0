//! Functions of maps. None changes a map in place: `set`, `unset` and the merging ones return a new one. The module `text`
//! rewrites a template that calls them to an assignment, so that its variable changes as with sprig.

use super::{Fields, FunctionResult, field, fields, functions, text};
use crate::template::go::data::STRUCT;
use gtmpl_ng::Value;

functions! {
    "dict" passes 0..=any dict;
    "strdict" passes 0..=any |args| {
        let Value::Map(made) = dict(args)? else { return Ok(Value::Nil) };
        Ok(Value::Map(made.into_iter().map(|(key, value)| (key, text(&value).into())).collect()))
    };
    "get" passes 2..=2 |args| Ok(field(&args[0], &args[1])?.cloned().unwrap_or_else(|| "".into()));
    "hasKey" passes 2..=2 |args| Ok(field(&args[0], &args[1])?.is_some().into());
    "isset" passes 2..=2 |args| Ok(field(&args[0], &args[1])?.is_some().into());
    "set" passes 3..=3 |args| {
        let mut changed = fields(&args[0])?;
        changed.insert(text(&args[1]), args[2].clone());
        Ok(Value::Map(changed))
    };
    "unset" passes 2..=2 |args| {
        let mut changed = fields(&args[0])?;
        changed.remove(&text(&args[1]));
        Ok(Value::Map(changed))
    };
    "keys" passes 1..=any keys;
    "values" passes 1..=1 |args| {
        let known = fields(&args[0])?;
        let mut known: Vec<(String, Value)> = known.into_iter().filter(|(key, _)| key != STRUCT).collect();
        known.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(Value::Array(known.into_iter().map(|(_, value)| value).collect()))
    };
    "pick" passes 1..=any |args| {
        let target = key_names(&args[1..]);
        Ok(Value::Map(fields(&args[0])?.into_iter().filter(|(key, _)| target.contains(key)).collect()))
    };
    "omit" passes 1..=any |args| {
        let unwanted = key_names(&args[1..]);
        Ok(Value::Map(fields(&args[0])?.into_iter().filter(|(key, _)| !unwanted.contains(key)).collect()))
    };
    "pluck" passes 1..=any |args| {
        let mut found = Vec::new();
        for arg in &args[1..] {
            found.extend(field(arg, &args[0])?.cloned());
        }
        Ok(Value::Array(found))
    };
    "dig" passes 3..=any dig;
    "merge" passes 1..=any |args| merged(args, false);
    "mergeOverwrite" passes 1..=any |args| merged(args, true);
    "mergeMaps" passes 0..=any |args| Ok(Value::Map(union(args)?));
    "omitNil" passes 1..=1 |args| Ok(without_nil(&args[0]).unwrap_or(Value::Nil));
    "deepCopy" passes 1..=1 |args| Ok(args[0].clone());
}

/// Pairs of keys and values; the last key may lack one.
fn dict(args: &[Value]) -> FunctionResult {
    let pair = |pair: &[Value]| (text(&pair[0]), pair.get(1).cloned().unwrap_or_else(|| "".into()));
    Ok(Value::Map(args.chunks(2).map(pair).collect()))
}

fn key_names(args: &[Value]) -> Vec<String> {
    // A list of names counts as the names.
    let each = |arg: &Value| match arg {
        Value::Array(items) => items.iter().map(text).collect(),
        single => vec![text(single)],
    };
    args.iter().flat_map(each).collect()
}

/// Sorted: Go's order is left to chance, which no template can want.
fn keys(args: &[Value]) -> FunctionResult {
    let mut all = Vec::new();
    for arg in args {
        all.extend(fields(arg)?.into_keys().filter(|key| key != STRUCT));
    }
    all.sort_unstable();
    Ok(Value::Array(all.into_iter().map(Value::from).collect()))
}

/// Keys, one within the other; what to answer where one is missing; the map.
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

/// Maps within maps are merged. The first that has a key wins; with `overwrites`, the last.
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

/// The fields of all, the last one's where several have a key.
pub(super) fn union(args: &[Value]) -> Result<Fields, String> {
    let mut all = Fields::new();
    for arg in args {
        all.extend(fields(arg)?);
    }
    Ok(all)
}

/// Removes nil on every level, and the collections that become empty thereby.
fn without_nil(value: &Value) -> Option<Value> {
    match value {
        Value::NoValue | Value::Nil => None,
        Value::Map(fields) => {
            let kept: Fields =
                fields.iter().filter_map(|(key, value)| Some((key.clone(), without_nil(value)?))).collect();
            (fields.is_empty() || !kept.is_empty()).then_some(Value::Map(kept))
        }
        Value::Array(items) => {
            let kept: Vec<Value> = items.iter().filter_map(without_nil).collect();
            (items.is_empty() || !kept.is_empty()).then_some(Value::Array(kept))
        }
        other => Some(other.clone()),
    }
}
