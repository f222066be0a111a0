//! Lists that merge item by item, and the order of what comes out.

use super::{PATCH, SchemaKind, Unmergeable, merge, plain};
use crate::mount_path::identity;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Where each key of a list occurs first. Lists may have 100,000 items, so none is searched for each item of another.
type KeyPlaces<'a> = HashMap<Option<Cow<'a, Value>>, usize>;

pub(super) fn merge_items(
    mut onto: Vec<Value>,
    patch: &[Value],
    key: &str,
    kind: SchemaKind,
) -> Result<Vec<Value>, Unmergeable> {
    let mut rest: Vec<&Value> = Vec::new();
    let mut deleted: HashSet<Option<Cow<'_, Value>>> = HashSet::new();
    let mut replaces = false;
    for item in patch {
        match item.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            Some("replace") => replaces = true,
            _ if item.get(key).is_none() => {
                return Err(Unmergeable::new(format!("an item lacks {key}, which identifies items")));
            }
            None => rest.push(item),
            Some("delete") => {
                deleted.insert(identity(item, key));
            }
            Some("merge") => return Err(Unmergeable::new("an item can't say $patch: merge")),
            Some(other) => return Err(Unmergeable::new(format!("{PATCH} {other:?} is unknown"))),
        }
    }
    if replaces {
        return Ok(rest.into_iter().cloned().collect());
    }
    let before = keys(&onto, Some(key));
    onto.retain(|item| !deleted.contains(&identity(item, key)));
    let kept = keys(&onto, Some(key));
    let mut found = places(kept.into_iter());
    for item in &rest {
        match found.get(&identity(item, key)) {
            Some(&at) => onto[at] = merge(onto[at].take(), item, kind)?,
            None => {
                found.insert(identity(item, key), onto.len());
                onto.push(plain(item));
            }
        }
    }
    let in_patch = places(rest.iter().map(|item| identity(item, key)));
    Ok(ordered(onto, &in_patch, &places(before.into_iter()), Some(key)))
}

pub(super) fn merge_scalars(onto: &[Value], patch: &[Value]) -> Vec<Value> {
    let mut seen: HashSet<&Value> = HashSet::new();
    let merged = onto.iter().chain(patch).filter(|item| seen.insert(*item)).cloned().collect();
    ordered(merged, &places_in(patch, None), &places_in(onto, None), None)
}

/// Brings items into the order of a list of their keys, or scalars into that of a list of the same (`key` is `None`).
pub(super) fn order_items(items: &mut Vec<Value>, order: &[Value], key: Option<&str>) {
    let in_patch = places_in(order, key);
    let before = keys(items, key);
    *items = ordered(std::mem::take(items), &in_patch, &places(before.into_iter()), key);
}

/// What identifies an item: its field `key`, or the scalar itself where there is no such field.
fn key_of<'a>(item: &'a Value, key: Option<&str>) -> Option<Cow<'a, Value>> {
    match key {
        Some(key) => identity(item, key),
        None => Some(Cow::Borrowed(item)),
    }
}

/// The items' keys, which are still known when the items have moved.
fn keys(items: &[Value], key: Option<&str>) -> Vec<Option<Cow<'static, Value>>> {
    items.iter().map(|item| key_of(item, key).map(|key| Cow::Owned(key.into_owned()))).collect()
}

fn places_in<'a>(items: &'a [Value], key: Option<&str>) -> KeyPlaces<'a> {
    places(items.iter().map(|item| key_of(item, key)))
}

fn places<'a>(keys: impl Iterator<Item = Option<Cow<'a, Value>>>) -> KeyPlaces<'a> {
    let mut places = KeyPlaces::new();
    for (place, key) in keys.enumerate() {
        places.entry(key).or_insert(place);
    }
    places
}

/// The items that the patch names, in its order, and the others in the order that they had before. One of the others precedes
/// one of the patch only if it preceded it before (`normalizeElementOrder`).
fn ordered(
    items: Vec<Value>,
    in_patch: &KeyPlaces<'_>,
    before: &KeyPlaces<'_>,
    key: Option<&str>,
) -> Vec<Value> {
    let in_patch = |item: &Value| in_patch.get(&key_of(item, key)).copied();
    let before = |item: &Value| before.get(&key_of(item, key)).copied();
    let (mut listed, mut alone): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| in_patch(item).is_some());
    listed.sort_by_cached_key(in_patch);
    alone.sort_by_cached_key(before);
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Work that is quadratic in the items takes minutes.
    #[test]
    fn lists_of_many_items_merge() {
        let count = testkit::scope::runs(40_000, 10_000);
        let all = |item: fn(usize) -> Value| -> Vec<Value> { (0..count).map(item).collect() };
        let old = all(|number| json!({"name": number, "value": "old"}));
        let mut patch = all(|number| json!({"name": number, "value": "new"}));
        patch.reverse();
        let merged = merge_items(old.clone(), &patch, "name", SchemaKind::Other).expect("they merge");
        assert!(merged == patch);
        let deletions = all(|number| json!({"name": number, "$patch": "delete"}));
        assert_eq!(merge_items(old, &deletions, "name", SchemaKind::Other), Ok(Vec::new()));
        let numbers = all(Value::from);
        let mut reversed = numbers.clone();
        reversed.reverse();
        assert!(merge_scalars(&numbers, &reversed) == reversed);
        let mut ordered = merged;
        order_items(&mut ordered, &all(|number| json!({"name": number})), Some("name"));
        assert!(ordered.iter().map(|item| &item["name"]).eq(&numbers));
    }

    #[test]
    fn of_two_items_with_one_key_the_first_is_merged() {
        let item = |value: &str| json!({"name": "a", "value": value});
        let merged = merge_items(vec![item("1"), item("2")], &[item("3")], "name", SchemaKind::Other);
        assert_eq!(merged, Ok(vec![item("3"), item("2")]));
        let mount = |path: &str, name: &str| json!({"mountPath": path, "name": name});
        let merged =
            merge_items(vec![mount("/a", "1")], &[mount("/b/../a/", "2")], "mountPath", SchemaKind::Other);
        assert_eq!(merged, Ok(vec![mount("/b/../a/", "2")]));
        let merged = merge_items(Vec::new(), &[item("1"), item("2")], "name", SchemaKind::Other);
        assert_eq!(merged, Ok(vec![item("2")]));
    }

    #[test]
    fn a_directive_that_is_not_a_string_is_refused() {
        for directive in [json!(1), Value::Null] {
            let patch = [json!({"name": "a", "$patch": directive})];
            let error = merge_items(Vec::new(), &patch, "name", SchemaKind::Other).expect_err("unknown");
            assert_eq!(error.what, "$patch \"\" is unknown");
        }
    }
}
