//! Strategic merge by Kubernetes' rules (`k8s.io/apimachinery/pkg/util/strategicpatch`): objects merge field by field, and some
//! lists item by item, by the key in the API's types. The order matches `kubectl patch --type=strategic`, as tests verify.
//! `$patch` is the only known directive; only programs that compare versions write others.

use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

type JsonFields = Map<String, Value>;

const PATCH: &str = "$patch";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct Unmergeable {
    pub at: String,
    pub what: String,
}

type MergeResult<T> = Result<T, Unmergeable>;

impl Unmergeable {
    fn new(what: impl Into<String>) -> Self {
        Self { at: String::new(), what: what.into() }
    }

    fn within(mut self, field: &str) -> Self {
        self.at = if self.at.is_empty() { field.to_owned() } else { format!("{field}.{}", self.at) };
        self
    }
}

/// Merges a patch; fails on an unknown directive, or a keyed list's item without its key.
pub fn merge(onto: Value, patch: &Value, kind: SchemaKind) -> Result<Value, Unmergeable> {
    match (onto, patch) {
        (Value::Object(onto), Value::Object(patch)) => object(onto, patch, kind).map(Value::Object),
        _ => Err(Unmergeable::new("both must be objects")),
    }
}

fn object(mut onto: JsonFields, patch: &JsonFields, kind: SchemaKind) -> MergeResult<JsonFields> {
    match patch.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
        None => {}
        Some("delete") => return Ok(Map::new()),
        Some("replace") => {
            let mut whole = patch.clone();
            whole.remove(PATCH);
            return Ok(whole);
        }
        Some(other) => return Err(Unmergeable::new(format!("{PATCH} {other:?} is unknown"))),
    }
    for (field, target) in patch.iter().filter(|(field, _)| *field != PATCH) {
        if field.starts_with('$') {
            return Err(Unmergeable::new(format!("{field} is not supported; expected {PATCH}, or none")));
        }
        let merged = onto.remove(field);
        let merged = value(merged, field, target, kind).map_err(|error| error.within(field))?;
        onto.extend(merged.map(|merged| (field.clone(), merged)));
    }
    Ok(onto)
}

fn value(onto: Option<Value>, field: &str, target: &Value, kind: SchemaKind) -> MergeResult<Option<Value>> {
    let (strategy, inner) = kind.field(field);
    Ok(match (onto, target) {
        (_, Value::Null) => None,
        (Some(Value::Object(onto)), Value::Object(target)) => {
            Some(Value::Object(object(onto, target, inner)?))
        }
        (Some(Value::Array(onto)), Value::Array(target)) => Some(Value::Array(match strategy {
            Strategy::Keyed(key) => items(onto, target, key, inner)?,
            Strategy::Set => merge_scalars(&onto, target),
            Strategy::Atomic => target.clone(),
        })),
        (_, target) => Some(plain(target)),
    })
}

/// Removes directives, and nulls, which would delete fields.
fn plain(value: &Value) -> Value {
    let mut plain = value.clone();
    make_plain(&mut plain);
    plain
}

fn make_plain(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|field, value| !field.starts_with('$') && !value.is_null());
            fields.values_mut().for_each(make_plain);
        }
        Value::Array(items) => {
            // Items with directives refer to existing items, of which there are none.
            items.retain(|item| item.get(PATCH).is_none());
            items.iter_mut().for_each(make_plain);
        }
        _ => {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaKind {
    /// `Pod`, and `PodTemplateSpec`, which has the same fields.
    Pod,
    Meta,
    Spec,
    Container,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Atomic,
    /// Items are objects, merged by this field.
    Keyed(&'static str),
    /// Items are distinct scalars.
    Set,
}

impl SchemaKind {
    /// Returns the field's list strategy, and the schema of its items, or of a non-list value.
    pub fn field(self, name: &str) -> (Strategy, Self) {
        match (self, name) {
            (Self::Pod, "metadata") => (Strategy::Atomic, Self::Meta),
            (Self::Pod, "spec") => (Strategy::Atomic, Self::Spec),
            (Self::Meta, "finalizers") => (Strategy::Set, Self::Other),
            (Self::Meta, "ownerReferences") => (Strategy::Keyed("uid"), Self::Other),
            (Self::Spec, "containers" | "ephemeralContainers" | "initContainers") => {
                (Strategy::Keyed("name"), Self::Container)
            }
            (Self::Spec, "imagePullSecrets" | "resourceClaims" | "schedulingGates" | "volumes") => {
                (Strategy::Keyed("name"), Self::Other)
            }
            (Self::Spec, "hostAliases") => (Strategy::Keyed("ip"), Self::Other),
            (Self::Spec, "topologySpreadConstraints") => (Strategy::Keyed("topologyKey"), Self::Other),
            (Self::Container, "env") => (Strategy::Keyed("name"), Self::Other),
            (Self::Container, "ports") => (Strategy::Keyed("containerPort"), Self::Other),
            (Self::Container, "volumeDevices") => (Strategy::Keyed("devicePath"), Self::Other),
            (Self::Container, "volumeMounts") => (Strategy::Keyed(MOUNT_PATH), Self::Other),
            _ => (Strategy::Atomic, Self::Other),
        }
    }
}

/// Index of each key's first item. Lists may have 100,000 items, so a search per item would be too slow.
type KeyPlaces<'a> = HashMap<Option<Cow<'a, Value>>, usize>;

fn items(mut onto: Vec<Value>, patch: &[Value], key: &str, kind: SchemaKind) -> MergeResult<Vec<Value>> {
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
            Some("merge") => return Err(Unmergeable::new("an item can't have $patch: merge")),
            Some(other) => return Err(Unmergeable::new(format!("{PATCH} {other:?} is unknown"))),
        }
    }
    if replaces {
        return Ok(rest.into_iter().cloned().collect());
    }
    let before = keys(&onto, key);
    onto.retain(|item| !deleted.contains(&identity(item, key)));
    let kept = keys(&onto, key);
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

fn merge_scalars(onto: &[Value], patch: &[Value]) -> Vec<Value> {
    let mut seen: HashSet<&Value> = HashSet::new();
    let merged = onto.iter().chain(patch).filter(|item| seen.insert(*item)).cloned().collect();
    let own = |item| key_of(item, None);
    ordered(merged, &places(patch.iter().map(own)), &places(onto.iter().map(own)), None)
}

fn key_of<'a>(item: &'a Value, key: Option<&str>) -> Option<Cow<'a, Value>> {
    match key {
        Some(key) => identity(item, key),
        None => Some(Cow::Borrowed(item)),
    }
}

/// Owned keys, which remain valid when items are moved.
fn keys(items: &[Value], key: &str) -> Vec<Option<Cow<'static, Value>>> {
    items.iter().map(|item| identity(item, key).map(|key| Cow::Owned(key.into_owned()))).collect()
}

fn places<'a>(keys: impl Iterator<Item = Option<Cow<'a, Value>>>) -> KeyPlaces<'a> {
    let mut places = KeyPlaces::new();
    for (place, key) in keys.enumerate() {
        places.entry(key).or_insert(place);
    }
    places
}

/// Orders the patch's items as in the patch, and remaining items as before. A remaining item precedes a patch item only if it did
/// before (`normalizeElementOrder`).
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

/// Key of volume mounts. The kubelet and the runtime clean a path before mounting it; the API server compares strings.
pub(crate) const MOUNT_PATH: &str = "mountPath";

/// The shortest equivalent path (Go's `path.Clean`).
pub(crate) fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !["", "."].contains(part)) {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            ("..", None) if is_absolute => {}
            _ => parts.push(part),
        }
    }
    match (is_absolute, parts.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => ".".to_owned(),
        (false, path) => path,
    }
}

/// The value that identifies an item of a keyed list: a mount's clean path, else the field's value.
pub(crate) fn identity<'a>(item: &'a Value, key: &str) -> Option<Cow<'a, Value>> {
    match item.get(key)? {
        Value::String(path) if key == MOUNT_PATH => Some(Cow::Owned(clean(path).into())),
        value => Some(Cow::Borrowed(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A quadratic merge takes minutes.
    #[test]
    fn lists_of_many_items_merge() {
        let count = testkit::scope::runs(40_000, 10_000);
        let all = |item: fn(usize) -> Value| -> Vec<Value> { (0..count).map(item).collect() };
        let old = all(|number| json!({"name": number, "value": "old"}));
        let mut patch = all(|number| json!({"name": number, "value": "new"}));
        patch.reverse();
        let merged = items(old.clone(), &patch, "name", SchemaKind::Other).expect("they merge");
        assert!(merged == patch);
        let deletions = all(|number| json!({"name": number, "$patch": "delete"}));
        assert_eq!(items(old, &deletions, "name", SchemaKind::Other), Ok(Vec::new()));
        let numbers = all(Value::from);
        let mut reversed = numbers.clone();
        reversed.reverse();
        assert!(merge_scalars(&numbers, &reversed) == reversed);
    }

    #[test]
    fn of_two_items_with_one_key_the_first_is_merged() {
        let item = |value: &str| json!({"name": "a", "value": value});
        let merged = items(vec![item("1"), item("2")], &[item("3")], "name", SchemaKind::Other);
        assert_eq!(merged, Ok(vec![item("3"), item("2")]));
        let mount = |path: &str, name: &str| json!({"mountPath": path, "name": name});
        let merged = items(vec![mount("/a", "1")], &[mount("/b/../a/", "2")], "mountPath", SchemaKind::Other);
        assert_eq!(merged, Ok(vec![mount("/b/../a/", "2")]));
        let merged = items(Vec::new(), &[item("1"), item("2")], "name", SchemaKind::Other);
        assert_eq!(merged, Ok(vec![item("2")]));
    }

    #[test]
    fn a_directive_that_is_not_a_string_is_refused() {
        for directive in [json!(1), Value::Null] {
            let patch = [json!({"name": "a", "$patch": directive})];
            let error = items(Vec::new(), &patch, "name", SchemaKind::Other).expect_err("unknown");
            assert_eq!(error.what, "$patch \"\" is unknown");
        }
    }
}
