//! Strategic merge, as Kubernetes does it: objects merge field by field, and some lists item by item, by the key that the
//! API's types give them.
//!
//! Two documents go in, one comes out, which has the order that `kubectl patch --type=strategic` gives it. The facts are
//! those of `k8s.io/apimachinery/pkg/util/strategicpatch`; the tests ask `kubectl` for the same.

mod list;
mod schema;

pub use schema::{SchemaKind, Strategy};

use list::{merge_items, merge_scalars, order_items};
use serde_json::{Map, Value};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_SCALARS: &str = "$deleteFromPrimitiveList/";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct Unmergeable {
    /// The field, by its path in the patch.
    pub at: String,
    pub what: String,
}

impl Unmergeable {
    fn new(what: impl Into<String>) -> Self {
        Self { at: String::new(), what: what.into() }
    }

    fn within(mut self, field: &str) -> Self {
        self.at = if self.at.is_empty() { field.to_owned() } else { format!("{field}.{}", self.at) };
        self
    }
}

/// Merges a patch onto an object of a kind.
///
/// # Errors
/// When a directive is unknown, or an item of a keyed list lacks its key.
pub fn merge(onto: Value, patch: &Value, kind: SchemaKind) -> Result<Value, Unmergeable> {
    match (onto, patch) {
        (Value::Object(onto), Value::Object(patch)) => object(onto, patch, kind).map(Value::Object),
        _ => Err(Unmergeable::new("both have to be objects")),
    }
}

fn object(
    mut onto: Map<String, Value>,
    patch: &Map<String, Value>,
    kind: SchemaKind,
) -> Result<Map<String, Value>, Unmergeable> {
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
    if let Some(kept) = patch.get(RETAIN_KEYS) {
        let kept = kept.as_array().ok_or_else(|| Unmergeable::new(format!("{RETAIN_KEYS} is not a list")))?;
        let is_kept = |field: &str| kept.iter().any(|name| name == field);
        let sets = |(field, value): &(&String, &Value)| !field.starts_with('$') && !value.is_null();
        if let Some((field, _)) = patch.iter().filter(sets).find(|(field, _)| !is_kept(field)) {
            return Err(Unmergeable::new(format!("{RETAIN_KEYS} lacks {field}, which the patch sets")));
        }
        onto.retain(|field, _| is_kept(field));
    }
    for (field, target) in patch {
        if let Some(list) = field.strip_prefix(DELETE_SCALARS) {
            delete_scalars(&mut onto, list, target)?;
        } else if !field.starts_with('$') {
            let merged = onto.remove(field);
            let merged = value(merged, field, target, kind).map_err(|error| error.within(field))?;
            onto.extend(merged.map(|merged| (field.clone(), merged)));
        }
    }
    for (field, order) in patch {
        if let Some(list) = field.strip_prefix(SET_ORDER) {
            let order = order.as_array().ok_or_else(|| Unmergeable::new(format!("{field} is not a list")))?;
            if let Some(Value::Array(items)) = onto.get_mut(list) {
                match kind.field(list).0 {
                    Strategy::Keyed(key) => order_items(items, order, Some(key)),
                    Strategy::Set => order_items(items, order, None),
                    Strategy::Atomic => {}
                }
            }
        }
    }
    Ok(onto)
}

/// What a field is after the merge; `None` where it is removed.
fn value(
    onto: Option<Value>,
    field: &str,
    target: &Value,
    kind: SchemaKind,
) -> Result<Option<Value>, Unmergeable> {
    let (strategy, inner) = kind.field(field);
    Ok(match (onto, target) {
        (_, Value::Null) => None,
        (Some(Value::Object(onto)), Value::Object(target)) => {
            Some(Value::Object(object(onto, target, inner)?))
        }
        (Some(Value::Array(onto)), Value::Array(target)) => Some(Value::Array(match strategy {
            Strategy::Keyed(key) => merge_items(onto, target, key, inner)?,
            Strategy::Set => merge_scalars(&onto, target),
            Strategy::Atomic => target.clone(),
        })),
        (_, target) => Some(plain(target)),
    })
}

/// A value without directives, and without nulls that delete what is not there.
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
            // Directives of items are about what is there, and here is nothing.
            items.retain(|item| item.get(PATCH).is_none());
            items.iter_mut().for_each(make_plain);
        }
        _ => {}
    }
}

fn delete_scalars(onto: &mut Map<String, Value>, list: &str, gone: &Value) -> Result<(), Unmergeable> {
    let gone =
        gone.as_array().ok_or_else(|| Unmergeable::new(format!("{DELETE_SCALARS}{list} is not a list")))?;
    if let Some(Value::Array(items)) = onto.get_mut(list) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}
