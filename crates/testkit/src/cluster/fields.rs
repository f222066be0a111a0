//! Field managers of an object: server-side apply checks them before it changes or removes a field.

use super::{
    kinds::Kind,
    merge::{list_key, strategic},
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Path to a value, in `fieldsV1` segments: `f:NAME`, and `k:{"KEY":VALUE}` for a list item.
type Path = Vec<String>;

/// How a manager came to own a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Apply,
    Update,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners(BTreeMap<(String, Way), BTreeSet<Path>>);

#[derive(Debug)]
pub(crate) struct Conflicts(pub(crate) Vec<String>);

const UNOWNED: [&str; 8] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// An object's values by path.
fn leaves(object: &Value, kind: &Kind) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if !UNOWNED.contains(&name.as_str()) {
                        walk(
                            value,
                            name,
                            vec!["f:metadata".to_owned(), format!("f:{name}")],
                            kind,
                            &mut found,
                        );
                    }
                }
            }
            _ => walk(value, name, vec![format!("f:{name}")], kind, &mut found),
        }
    }
    found
}

fn walk(value: &Value, field: &str, path: Path, kind: &Kind, found: &mut BTreeMap<Path, Value>) {
    let below = |segment: String| {
        let mut path = path.clone();
        path.push(segment);
        path
    };
    match (value, list_key(kind, field)) {
        (Value::Object(fields), _) if !fields.is_empty() => {
            for (name, value) in fields {
                walk(value, name, below(format!("f:{name}")), kind, found);
            }
        }
        (Value::Array(items), Some(key)) => {
            for item in items {
                let path = below(format!("k:{}", json!({ key: item[key] })));
                walk(item, "", path.clone(), kind, found);
                found.insert(path, Value::Null);
            }
        }
        _ => drop(found.insert(path, value.clone())),
    }
}

impl Owners {
    pub(crate) fn written(&mut self, manager: &str, before: &Value, after: &Value, kind: &Kind) {
        let (old, new) = (leaves(before, kind), leaves(after, kind));
        let changed = new.iter().filter(|(path, value)| old.get(*path) != Some(*value));
        let changed: BTreeSet<Path> = changed.map(|(path, _)| path.clone()).collect();
        for owned in self.0.values_mut() {
            owned.retain(|path| new.contains_key(path) && !changed.contains(path));
        }
        if !changed.is_empty() {
            self.0.entry((manager.to_owned(), Way::Update)).or_default().extend(changed);
        }
        self.0.retain(|_, owned| !owned.is_empty());
    }

    pub(crate) fn apply(
        &mut self,
        manager: &str,
        before: &Value,
        desired: &Value,
        force: bool,
        kind: &Kind,
    ) -> Result<Value, Conflicts> {
        let (old, new) = (leaves(before, kind), leaves(desired, kind));
        let me = (manager.to_owned(), Way::Apply);
        let mut conflicts = Vec::new();
        for (owner, owned) in self.0.iter_mut().filter(|(owner, _)| **owner != me) {
            let differs = |path: &Path| new.get(path).is_some_and(|value| old.get(path) != Some(value));
            if force {
                owned.retain(|path| !differs(path));
            } else {
                let found = owned.iter().filter(|path| differs(path));
                conflicts.extend(found.map(|path| format!("{} of {:?}", path.join("."), owner.0)));
            }
        }
        if !conflicts.is_empty() {
            return Err(Conflicts(conflicts));
        }
        let mut object = before.clone();
        strategic(&mut object, desired, kind);
        let mine: BTreeSet<Path> = new.into_keys().collect();
        let had = self.0.insert(me, mine).unwrap_or_default();
        // The deepest first, so that an item is empty before it is removed.
        for path in had.iter().rev().filter(|path| !self.0.values().any(|owned| is_below(owned, path))) {
            take(&mut object, path);
        }
        self.0.retain(|_, owned| !owned.is_empty());
        Ok(object)
    }

    pub(crate) fn managed(&self, kind: &Kind) -> Value {
        let entries = self.0.iter().map(|((manager, way), owned)| {
            let mut fields = json!({});
            for path in owned {
                let mut at = &mut fields;
                for segment in path {
                    at = at
                        .as_object_mut()
                        .expect("fields are objects")
                        .entry(segment)
                        .or_insert_with(|| json!({}));
                }
            }
            json!({ "manager": manager, "operation": format!("{way:?}"), "apiVersion": kind.api_version(),
                "fieldsType": "FieldsV1", "fieldsV1": fields })
        });
        entries.collect()
    }
}

fn is_below(owned: &BTreeSet<Path>, path: &Path) -> bool {
    owned.iter().any(|other| other.starts_with(path))
}

/// Removes the value at a path, then the empty parts around it.
fn take(value: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    if let Some(name) = first.strip_prefix("f:") {
        let Some(fields) = value.as_object_mut() else { return };
        if let (false, Some(inner)) = (rest.is_empty(), fields.get_mut(name)) {
            take(inner, rest);
        }
        let is_empty = |value: &Value| {
            value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
        };
        if rest.is_empty() || fields.get(name).is_some_and(is_empty) {
            fields.remove(name);
        }
    } else if let Some(items) = value.as_array_mut() {
        let key: Value = serde_json::from_str(first.trim_start_matches("k:")).expect("a key in JSON");
        let (name, desired) = key.as_object().and_then(|key| key.iter().next()).expect("a key in JSON");
        if rest.is_empty() {
            items.retain(|item| item[name] != *desired);
        } else if let Some(item) = items.iter_mut().find(|item| item[name] == *desired) {
            take(item, rest);
        }
    }
}
