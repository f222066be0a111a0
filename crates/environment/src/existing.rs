//! Existing objects of the managed kinds, and their ownership: an object is managed if its controller is a VirtualEnvironment.
//! Owners can get lost (`kubectl delete --cascade=orphan`): without a controller, an object is managed if it has the label
//! `managed-by`, and either a VirtualEnvironment owns it or [`MANAGER`] last wrote the fields that determine traffic
//! (`managedFields`).

use crate::resource::{GROUP, KIND, VERSION, VirtualEnvironment};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub const VIRTUAL_SERVICE: &str = "VirtualService";
pub const DESTINATION_RULE: &str = "DestinationRule";
pub const ENVOY_FILTER: &str = "EnvoyFilter";

pub const KINDS: [&str; 3] = [VIRTUAL_SERVICE, DESTINATION_RULE, ENVOY_FILTER];

pub const MANAGER: &str = "sidecar-injector-environment";
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const US: &str = "sidecar-injector";

pub(crate) fn metadata(environment: &VirtualEnvironment, name: &str) -> Value {
    json!({"name": name, "namespace": environment.namespace, "labels": {MANAGED_BY: US}})
}

/// All VirtualEnvironments of a namespace as owners, the first one as controller: the garbage collector deletes objects whose
/// owners are all gone. `blockOwnerDeletion` is not set: it needs another permission, and deletions must not wait for routes. A
/// VirtualEnvironment from a file has no uid and can't own.
pub(crate) fn owners(ranked: &[&VirtualEnvironment]) -> Vec<Value> {
    let owner = |(rank, environment): (usize, &&VirtualEnvironment)| {
        let (uid, version) = (environment.uid.as_ref()?, format!("{GROUP}/{VERSION}"));
        let mut owner = json!({"apiVersion": version, "kind": KIND, "name": environment.name, "uid": uid});
        if rank == 0 {
            owner["controller"] = json!(true);
        }
        Some(owner)
    };
    ranked.iter().enumerate().filter_map(owner).collect()
}

/// An object of a managed kind. A foreign object is stored without its spec: only its existence matters.
#[derive(Clone, Debug, PartialEq)]
pub struct Existing {
    object: Value,
    is_ours: bool,
}

impl Existing {
    pub fn of(mut object: Value) -> Option<Self> {
        let is_istio =
            object["apiVersion"].as_str().is_some_and(|version| version.starts_with("networking.istio.io/"));
        if !(is_istio && KINDS.iter().any(|kind| object["kind"] == **kind)) {
            return None;
        }
        let mut managers = Value::Null;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            managers = metadata.remove("managedFields").unwrap_or_default();
            metadata.remove("annotations");
        }
        let is_ours = is_ours(&object, &managers);
        if !is_ours {
            object["spec"].take();
        }
        Some(Self { object, is_ours })
    }

    /// The object without annotations and managed fields.
    pub fn object(&self) -> &Value {
        &self.object
    }

    fn text(&self, at: &str) -> &str {
        self.object.pointer(at).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// True for objects that may be changed and deleted.
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// True if VirtualEnvironments own the object, but none in `uids`.
    pub(crate) fn is_orphan_without(&self, uids: &BTreeSet<&str>) -> bool {
        let mut ours = references(&self.object).filter(|owner| is_environment(owner)).peekable();
        let is_there = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid));
        self.is_ours && ours.peek().is_some() && !ours.any(is_there)
    }

    /// The new owners, or `None` if the VirtualEnvironments already match `target`. Owners of other kinds stay.
    pub(crate) fn owners_to_be(&self, target: &[Value]) -> Option<Vec<Value>> {
        let identity =
            |owner: &Value| (owner["uid"].as_str().map(str::to_owned), owner["controller"] == true);
        let (ours, others): (Vec<&Value>, Vec<&Value>) =
            references(&self.object).partition(|owner| is_environment(owner));
        let [there, desired] =
            [ours, target.iter().collect()].map(|all| all.into_iter().map(identity).collect::<BTreeSet<_>>());
        let differs = there != desired && !target.is_empty();
        differs.then(|| others.into_iter().chain(target).cloned().collect())
    }

    /// Compares contents, regardless of the version.
    pub fn says_as(&self, other: &Self) -> bool {
        let parts = [
            "/spec",
            "/metadata/labels",
            "/metadata/ownerReferences",
            "/metadata/uid",
            "/metadata/deletionTimestamp",
        ];
        self.is_ours == other.is_ours
            && parts.iter().all(|at| self.object.pointer(at) == other.object.pointer(at))
    }

    pub(crate) fn is(&self, kind: &str, name: &str) -> bool {
        self.kind() == kind && self.name() == name
    }

    pub(crate) fn is_going(&self) -> bool {
        self.object.pointer("/metadata/deletionTimestamp").is_some()
    }

    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    pub fn version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    /// True if the object has the target's labels and spec fields; additional ones are ignored.
    pub(crate) fn has(&self, target: &Value) -> bool {
        let within = |at: &str| match (self.object.pointer(at), target.pointer(at)) {
            (Some(Value::Object(there)), Some(Value::Object(target))) => {
                target.iter().all(|(key, value)| there.get(key).is_some_and(|there| is_equal(there, value)))
            }
            (_, None) => true,
            (Some(there), Some(target)) => is_equal(there, target),
            (None, Some(_)) => false,
        };
        within("/metadata/labels") && within("/spec")
    }
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

fn is_environment(owner: &Value) -> bool {
    let group = owner["apiVersion"].as_str().and_then(|version| version.split_once('/'));
    owner["kind"] == KIND && group.is_some_and(|(group, _)| group == GROUP)
}

fn is_ours(object: &Value, managers: &Value) -> bool {
    let is_labelled = object.pointer("/metadata/labels").is_some_and(|labels| labels[MANAGED_BY] == US);
    match references(object).find(|owner| owner["controller"] == true) {
        Some(owner) => is_environment(owner),
        None if references(object).any(is_environment) => is_labelled,
        None => is_labelled && is_written_by_us(object, managers),
    }
}

/// True if [`MANAGER`] last wrote the deciding field: the API server assigns a changed field to the new manager.
fn is_written_by_us(object: &Value, managers: &Value) -> bool {
    let decides = match object["kind"].as_str() {
        Some(VIRTUAL_SERVICE) => "f:http",
        Some(DESTINATION_RULE) => "f:subsets",
        _ => "f:configPatches",
    };
    let mut managers = managers.as_array().into_iter().flatten();
    managers.any(|entry| entry["manager"] == MANAGER && !entry["fieldsV1"]["f:spec"][decides].is_null())
}

/// JSON equality in which 50.0 equals 50: the API server reformats numbers.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| is_equal(a, b));
            a.len() == b.len() && a.iter().all(has)
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn existing(change: impl FnOnce(&mut Value)) -> Existing {
        let owner =
            json!({"apiVersion": "env.alibaba.com/v1alpha2", "kind": KIND, "uid": "u-1", "controller": true});
        let mut object = json!({
            "apiVersion": "networking.istio.io/v1", "kind": DESTINATION_RULE,
            "metadata": {
                "name": "cart", "uid": "u", "resourceVersion": "7", "labels": {"a": "1"}, "annotations": {"b": "2"},
                "ownerReferences": [owner],
            },
            "spec": {"host": "cart", "subsets": [{"name": "a", "weight": 1}]},
        });
        change(&mut object);
        Existing::of(object).expect("one of our kinds")
    }

    #[test]
    fn other_kinds_are_ignored() {
        for (version, kind, expected) in [
            ("networking.istio.io/v1alpha3", ENVOY_FILTER, true),
            ("networking.istio.io/v1", "Gateway", false),
            ("example.com/v1", VIRTUAL_SERVICE, false),
        ] {
            let found = Existing::of(json!({"apiVersion": version, "kind": kind}));
            assert_eq!(found.is_some(), expected, "{version} {kind}");
        }
    }

    #[test]
    fn equal_content_ignores_the_version() {
        let first = existing(|_| {});
        for (place, field, value, expected) in [
            ("/spec", "host", json!("cart"), true),
            ("", "apiVersion", json!("networking.istio.io/v1beta1"), true),
            ("/metadata", "resourceVersion", json!("8"), true),
            ("/metadata", "annotations", json!({}), true),
            ("/metadata", "managedFields", json!([{"manager": "other"}]), true),
            ("/spec", "host", json!("other"), false),
            ("/metadata", "labels", json!({}), false),
            ("/metadata/ownerReferences/0", "uid", json!("u-2"), false),
            ("/metadata", "ownerReferences", json!([]), false),
            ("/metadata", "uid", json!("v"), false),
            ("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z"), false),
        ] {
            let second =
                existing(|object| object.pointer_mut(place).expect("a mapping")[field] = value.clone());
            let found = (first.says_as(&second), second.says_as(&first));
            assert_eq!(found, (expected, expected), "{place} {field} {value}");
        }
        assert_eq!((first.version(), first.uid()), ("7", "u"));
        assert_eq!((first.kind(), first.name(), first.is_going()), (DESTINATION_RULE, "cart", false));
        assert!(existing(|object| object["metadata"]["deletionTimestamp"] = json!("x")).is_going());
        let mut foreign = existing(|object| object["metadata"]["ownerReferences"] = json!([]));
        assert_eq!((foreign.is_ours(), foreign.object.pointer("/spec")), (false, Some(&Value::Null)));
        foreign.is_ours = true;
        assert!(!foreign.says_as(&first));
    }

    #[test]
    fn further_fields_of_an_object_are_foreign_and_stay() {
        let there = existing(|_| {});
        for (target, expected) in [
            (json!({}), true),
            (json!({"metadata": {"labels": {}}, "spec": {"host": "cart"}}), true),
            (json!({"metadata": {"labels": {"a": "1"}}}), true),
            (json!({"metadata": {"labels": {"a": "2"}}}), false),
            (json!({"metadata": {"labels": {"b": "1"}}}), false),
            (json!({"metadata": {"labels": "a"}}), false),
            (json!({"spec": {"subsets": [{"name": "a", "weight": 1.0}]}}), true),
            (json!({"spec": {"subsets": [{"name": "a", "weight": 1.5}]}}), false),
            (json!({"spec": {"subsets": [{"name": "a"}]}}), false),
            (json!({"spec": {"subsets": [{"name": "a", "w": 1}]}}), false),
            (json!({"spec": {"subsets": []}}), false),
        ] {
            assert_eq!(there.has(&target), expected, "{target}");
        }
        let bare = existing(|object| object["metadata"]["labels"] = Value::Null);
        assert!(!bare.has(&json!({"metadata": {"labels": {"a": "1"}}})));
        let bare = existing(|object| drop(object.as_object_mut().and_then(|fields| fields.remove("spec"))));
        assert_eq!([json!({}), json!({"spec": {}})].map(|target| bare.has(&target)), [true, false]);
    }

    #[test]
    fn the_deciding_field_depends_on_the_kind() {
        let fields = ["f:http", "f:subsets", "f:configPatches"];
        for (at, kind) in KINDS.into_iter().enumerate() {
            for (field, name) in fields.into_iter().enumerate() {
                for manager in [MANAGER, "other"] {
                    let entry = json!({"manager": manager, "fieldsV1": {"f:spec": {name: {}}}});
                    let orphan = json!({
                        "apiVersion": "networking.istio.io/v1", "kind": kind,
                        "metadata": {"labels": {MANAGED_BY: US}, "managedFields": [{"manager": "first"}, entry]},
                    });
                    let is_ours = Existing::of(orphan).expect("one of our kinds").is_ours();
                    assert_eq!(is_ours, at == field && manager == MANAGER, "{kind} {name} {manager}");
                }
            }
        }
    }
}
