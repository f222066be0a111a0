//! The garbage collector: deletes an object whose owners are all gone, and removes references to missing owners. It acts on each
//! change before the next one, the earliest point possible for the real collector. As documented in Kubernetes ("Garbage
//! Collection", "Owners and Dependents"), an owner is identified by its UID and is cluster-wide or in its dependent's namespace.

use super::state::{Entry, State, text};
use serde_json::{Value, json};

/// Finalizers of an owner that waits for the collector.
pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Solid,
    /// Being deleted, waiting for its dependents to go first.
    Waiting,
    Absent,
}

impl State {
    pub(crate) fn collect(&mut self) {
        while self.collect_one() {}
    }

    fn collect_one(&mut self) -> bool {
        let matters = |entry: &&Entry| {
            let metadata = &entry.object["metadata"];
            !(metadata["ownerReferences"].is_null() && metadata["deletionTimestamp"].is_null())
        };
        let all: Vec<Entry> = self.objects.values().filter(matters).cloned().collect();
        all.into_iter().any(|entry| self.released(&entry.object) || self.collected(entry))
    }

    /// Finishes the deletion of a waiting owner whose dependents are orphaned (orphan) or gone (foreground).
    fn released(&mut self, owner: &Value) -> bool {
        let has = |name: &str| {
            owner["metadata"]["finalizers"].as_array().is_some_and(|all| all.contains(&name.into()))
        };
        if owner["metadata"]["deletionTimestamp"].is_null() || !(has(ORPHAN) || has(FOREGROUND)) {
            return false;
        }
        let uid = &owner["metadata"]["uid"];
        if has(ORPHAN) {
            let dependents: Vec<Entry> = self
                .objects
                .values()
                .filter(|entry| references(&entry.object).any(|one| one["uid"] == *uid))
                .cloned()
                .collect();
            for entry in dependents {
                self.without(entry, std::slice::from_ref(uid));
            }
        } else {
            let mut all = self.objects.values().flat_map(|entry| references(&entry.object));
            if all.any(|one| one["uid"] == *uid && one["blockOwnerDeletion"] == true) {
                return false;
            }
        }
        let kind = self.kinds.of_object(owner).expect("a kind that is served").clone();
        let mut entry =
            self.entry(&kind, text(owner, "namespace"), text(owner, "name")).expect("the owner").clone();
        let finalizers = entry.object["metadata"]["finalizers"].as_array_mut().expect("a list");
        finalizers.retain(|name| name != ORPHAN && name != FOREGROUND);
        let (namespace, name) = (text(owner, "namespace").to_owned(), text(owner, "name").to_owned());
        let is_free = finalizers.is_empty();
        self.keep(&kind, entry);
        if is_free {
            self.remove(&kind, &namespace, &name);
        }
        true
    }

    /// Handles an object with missing owners.
    fn collected(&mut self, entry: Entry) -> bool {
        let object = &entry.object;
        let owners: Vec<(Value, Owner)> =
            references(object).map(|owner| (owner["uid"].clone(), self.owner(object, owner))).collect();
        let is_going = !object["metadata"]["deletionTimestamp"].is_null();
        let lost: Vec<Value> =
            owners.iter().filter(|(_, owner)| *owner != Owner::Solid).map(|(uid, _)| uid.clone()).collect();
        if is_going || lost.is_empty() {
            return false;
        }
        if lost.len() < owners.len() {
            self.without(entry, &lost);
        } else {
            let kind = self.kinds.of_object(object).expect("a kind that is served").clone();
            self.remove(&kind, text(object, "namespace"), text(object, "name"));
        }
        true
    }

    fn owner(&self, object: &Value, reference: &Value) -> Owner {
        let found = self.objects.values().map(|entry| &entry.object).find(|owner| {
            owner["metadata"]["uid"] == reference["uid"]
                && ["", text(object, "namespace")].contains(&text(owner, "namespace"))
        });
        let Some(owner) = found else { return Owner::Absent };
        let metadata = &owner["metadata"];
        let waits = metadata["finalizers"].as_array().is_some_and(|all| all.contains(&FOREGROUND.into()));
        if waits && !metadata["deletionTimestamp"].is_null() { Owner::Waiting } else { Owner::Solid }
    }

    fn without(&mut self, mut entry: Entry, uids: &[Value]) {
        let kind = self.kinds.of_object(&entry.object).expect("a kind that is served").clone();
        let before = entry.object.clone();
        let references =
            entry.object["metadata"]["ownerReferences"].as_array_mut().expect("owner references");
        references.retain(|one| !uids.contains(&one["uid"]));
        if references.is_empty() {
            entry.object["metadata"].as_object_mut().expect("metadata").remove("ownerReferences");
        }
        entry.owners.written("kube-controller-manager", &before, &entry.object, &kind);
        self.keep(&kind, entry);
    }

    /// Makes a deletion wait for the collector, per `propagationPolicy`.
    pub(crate) fn hold(&mut self, entry: &mut Entry, options: &Value) {
        let finalizer = match options["propagationPolicy"].as_str() {
            Some("Orphan") => ORPHAN,
            Some("Foreground") => FOREGROUND,
            _ => return,
        };
        let finalizers = &mut entry.object["metadata"]["finalizers"];
        if finalizers.is_null() {
            *finalizers = json!([]);
        }
        let finalizers = finalizers.as_array_mut().expect("a list");
        if !finalizers.contains(&finalizer.into()) {
            finalizers.push(finalizer.into());
        }
    }
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// Faults in owner references that the API server rejects.
pub(crate) fn faults(object: &Value) -> Option<String> {
    let whole = |one: &Value| {
        ["apiVersion", "kind", "name", "uid"]
            .iter()
            .all(|field| one[field].as_str().is_some_and(|text| !text.is_empty()))
    };
    if !references(object).all(whole) {
        return Some("metadata.ownerReferences: apiVersion, kind, name and uid are required".to_owned());
    }
    let controllers = references(object).filter(|one| one["controller"] == true).count();
    (controllers > 1)
        .then(|| "metadata.ownerReferences: only one reference can have Controller set to true".to_owned())
}
