//! Lists that merge item by item, and the order of what comes out.

use super::{PATCH, SchemaKind, Unmergeable, object, plain};
use serde_json::Value;

pub(super) fn merge_items(
    mut onto: Vec<Value>,
    patch: &[Value],
    key: &str,
    kind: SchemaKind,
) -> Result<Vec<Value>, Unmergeable> {
    for item in patch {
        let is_directive = item.get(PATCH).is_some_and(|directive| directive == "replace");
        if item.get(key).is_none() && !is_directive {
            return Err(Unmergeable::new(format!("an item lacks {key}, which identifies items")));
        }
    }
    let directive = |item: &Value| item.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    let before = keys(&onto, key);
    let mut rest: Vec<&Value> = Vec::new();
    let mut replaces = false;
    for item in patch {
        match directive(item).as_deref() {
            None => rest.push(item),
            Some("replace") => replaces = true,
            Some("delete") => onto.retain(|other| other.get(key) != item.get(key)),
            Some("merge") => return Err(Unmergeable::new("an item can't say $patch: merge")),
            Some(other) => return Err(Unmergeable::new(format!("{PATCH} {other:?} is unknown"))),
        }
    }
    if replaces {
        return Ok(rest.into_iter().cloned().collect());
    }
    for item in &rest {
        match onto.iter_mut().find(|other| other.get(key) == item.get(key)) {
            Some(Value::Object(other)) => {
                let fields = item.as_object().ok_or_else(|| Unmergeable::new("an item is not an object"))?;
                *other = object(std::mem::take(other), fields, kind)?;
            }
            _ => onto.push(plain(item)),
        }
    }
    let names: Vec<Option<&Value>> = rest.iter().map(|item| item.get(key)).collect();
    let before: Vec<Option<&Value>> = before.iter().map(Option::as_ref).collect();
    Ok(ordered(onto, |item| place(&names, item.get(key)), |item| place(&before, item.get(key))))
}

pub(super) fn merge_scalars(onto: &[Value], patch: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for item in onto.iter().chain(patch) {
        if !merged.contains(item) {
            merged.push(item.clone());
        }
    }
    let [names, before] = [patch, onto].map(|items| items.iter().map(Some).collect::<Vec<_>>());
    ordered(merged, |item| place(&names, Some(item)), |item| place(&before, Some(item)))
}

/// Brings items into the order of a list of their keys.
pub(super) fn order_items(items: &mut Vec<Value>, order: &[Value], key: &str) {
    let names: Vec<Option<&Value>> = order.iter().map(|item| item.get(key)).collect();
    let before = keys(items, key);
    let before: Vec<Option<&Value>> = before.iter().map(Option::as_ref).collect();
    let taken = std::mem::take(items);
    *items = ordered(taken, |item| place(&names, item.get(key)), |item| place(&before, item.get(key)));
}

/// The items' keys, which are still known when the items have moved.
fn keys(items: &[Value], key: &str) -> Vec<Option<Value>> {
    items.iter().map(|item| item.get(key).cloned()).collect()
}

/// The same of scalars.
pub(super) fn order_scalars(items: &mut Vec<Value>, order: &[Value]) {
    let names: Vec<Option<&Value>> = order.iter().map(Some).collect();
    let before = items.clone();
    let before: Vec<Option<&Value>> = before.iter().map(Some).collect();
    let taken = std::mem::take(items);
    *items = ordered(taken, |item| place(&names, Some(item)), |item| place(&before, Some(item)));
}

fn place(order: &[Option<&Value>], key: Option<&Value>) -> Option<usize> {
    order.iter().position(|other| *other == key)
}

/// Items of the patch in its order; those that were there alone in theirs, each before an item of the patch only where it
/// was before that one.
fn ordered(
    items: Vec<Value>,
    in_patch: impl Fn(&Value) -> Option<usize>,
    before: impl Fn(&Value) -> Option<usize>,
) -> Vec<Value> {
    let (mut listed, mut alone): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| in_patch(item).is_some());
    listed.sort_by_cached_key(|item| in_patch(item));
    alone.sort_by_cached_key(|item| before(item));
    let mut merged = Vec::with_capacity(listed.len() + alone.len());
    let (mut listed, mut alone) = (listed.into_iter().peekable(), alone.into_iter().peekable());
    loop {
        let first = match (alone.peek(), listed.peek()) {
            (None, None) => return merged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(old), Some(new)) => before(old).zip(before(new)).is_some_and(|(old, new)| old < new),
        };
        merged.extend(if first { alone.next() } else { listed.next() });
    }
}
