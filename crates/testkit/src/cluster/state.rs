//! The server's state: objects, and their history for watches.

use super::{
    fields::Owners,
    kinds::{Access, Kind, Kinds},
};
use crate::http::Request;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Condvar, Mutex, MutexGuard},
    time::Duration,
};

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Slow(Duration),
    Hang,
    /// The response has this status; the request has no effect.
    Refuse(u16),
    /// The response has this body; the request has no effect.
    Lie(&'static str),
    /// The response ends in the middle; the request has no effect.
    Cut,
    /// The request takes effect, and the connection ends before the response.
    Lost,
    /// A watch's version is rejected as too old.
    Gone,
    /// Another client makes a change before the request takes effect.
    Meanwhile(fn(&mut State)),
}

type Key = (String, String, String, String);

#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) object: Value,
    pub(crate) owners: Owners,
}

#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub(crate) version: u64,
    pub(crate) plural: Option<(String, String)>,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

#[derive(Default)]
pub struct State {
    pub(crate) version: u64,
    /// Versions up to this one are no longer in the history.
    pub(crate) oldest: u64,
    pub(crate) objects: BTreeMap<Key, Entry>,
    pub(crate) log: Vec<Happening>,
    /// Number of times that all watches were cut.
    pub(crate) cuts: u64,
    pub faults: Vec<(&'static str, &'static str, Fault)>,
    pub storms: Vec<(&'static str, &'static str, Fault)>,
    pub requests: Vec<(Access, Request)>,
    pub kinds: Kinds,
    pub(crate) services: BTreeMap<(String, String), SocketAddr>,
    pub(crate) administrator: Option<String>,
    pub(crate) tokens: BTreeMap<String, (String, String)>,
    pub unauthorized: usize,
    /// Calls of webhooks: the webhook's name and the review sent.
    pub reviews: Vec<(String, Value)>,
}

#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) changed: Condvar,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test has failed inside")
    }
}

pub(crate) fn key(kind: &Kind, namespace: &str, name: &str) -> Key {
    (kind.group.clone(), kind.plural.clone(), namespace.to_owned(), name.to_owned())
}

pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

impl State {
    pub(crate) fn entry(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Entry> {
        self.objects.get(&key(kind, namespace, name))
    }

    pub(crate) fn list(&self, kind: &Kind, namespace: &str) -> impl Iterator<Item = &Value> {
        self.objects
            .iter()
            .filter(move |((group, plural, of, _), _)| {
                *group == kind.group && *plural == kind.plural && (namespace.is_empty() || of == namespace)
            })
            .map(|(_, entry)| &entry.object)
    }

    pub fn all(&self, plural: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |((_, of, ..), _)| of == plural).map(|(_, entry)| &entry.object)
    }

    pub fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.all(plural).find(|object| text(object, "namespace") == namespace && text(object, "name") == name)
    }

    /// An object that tests may change without a watch event.
    pub fn find_mut(&mut self, plural: &str, namespace: &str, name: &str) -> Option<&mut Value> {
        let objects = self.objects.iter_mut().filter(|((_, of, ..), _)| of == plural);
        let mut objects = objects.map(|(_, entry)| &mut entry.object);
        objects.find(|object| text(object, "namespace") == namespace && text(object, "name") == name)
    }

    /// Stores an object with a new version, and sets the server's fields.
    pub(crate) fn put(&mut self, kind: &Kind, object: Value) -> Value {
        let (namespace, name) = (text(&object, "namespace").to_owned(), text(&object, "name").to_owned());
        let Entry { object: before, mut owners } =
            self.entry(kind, &namespace, &name).cloned().unwrap_or_default();
        owners.written("somebody", &before, &object, kind);
        self.keep(kind, Entry { object, owners })
    }

    pub(crate) fn keep(&mut self, kind: &Kind, mut entry: Entry) -> Value {
        let object = &mut entry.object;
        let key = key(kind, text(object, "namespace"), text(object, "name"));
        let before = self.objects.get(&key).map(|entry| entry.object.clone());
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.clone().into();
        if kind.plural == "mutatingwebhookconfigurations" {
            fill_in(object);
        }
        let metadata = &mut object["metadata"];
        let inherited =
            |field: &str, new: Value| before.as_ref().map_or(new, |old| old["metadata"][field].clone());
        let uid = match &metadata["uid"] {
            Value::String(given) => given.clone(),
            _ => format!("00000000-0000-4000-8000-{:012}", self.version + 1),
        };
        metadata["uid"] = inherited("uid", uid.into());
        metadata["creationTimestamp"] = inherited("creationTimestamp", "2025-01-01T00:00:00Z".into());
        let generation = inherited("generation", 1.into());
        metadata["generation"] = generation;
        if kind.plural == "namespaces" {
            let name = metadata["name"].clone();
            metadata["labels"]["kubernetes.io/metadata.name"] = name;
        }
        if let Some(before) = &before {
            object["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
            let managed = entry.owners.managed(kind);
            object["metadata"]["managedFields"] = managed;
            if object == before {
                self.objects.insert(key, entry.clone());
                return entry.object;
            }
            if before["spec"] != object["spec"] {
                let generation = before["metadata"]["generation"].as_u64().unwrap_or(1) + 1;
                object["metadata"]["generation"] = generation.into();
            }
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        object["metadata"]["managedFields"] = entry.owners.managed(kind);
        if kind.plural == "customresourcedefinitions" {
            object["status"]["conditions"] = json!([{ "type": "Established", "status": "True" }]);
            self.kinds.define(object);
        }
        let object = object.clone();
        self.objects.insert(key, entry);
        self.happen(kind, before, Some(object.clone()));
        object
    }

    /// True if the history has a deletion of this object.
    pub fn was_deleted(&self, plural: &str, name: &str) -> bool {
        self.log.iter().any(|happening| {
            let is_of = happening.plural.as_ref().is_some_and(|(_, of)| of == plural);
            let gone = happening.before.as_ref().filter(|_| happening.after.is_none());
            is_of && gone.is_some_and(|object| text(object, "name") == name)
        })
    }

    /// Removes an object, or marks it as deleted while finalizers hold it.
    pub(crate) fn remove(&mut self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        let mut entry = self.entry(kind, namespace, name)?.clone();
        if entry.object["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty()) {
            entry.object["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:01Z".into();
            return Some(self.keep(kind, entry));
        }
        self.objects.remove(&key(kind, namespace, name));
        self.version += 1;
        let mut object = entry.object;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.happen(kind, Some(object.clone()), None);
        Some(object)
    }

    /// Creates or changes an object like another client. Its namespace is created too.
    pub fn place(&mut self, object: &Value) -> Value {
        let kind = self.kinds.of_object(object).expect("a kind that is served").clone();
        let namespace = object["metadata"]["namespace"].as_str();
        if let Some(name) = namespace
            && self.find("namespaces", "", name).is_none()
        {
            let namespaces = self.kinds.of_plural("namespaces").expect("always served").clone();
            self.put(&namespaces, json!({ "metadata": { "name": name } }));
        }
        assert_eq!(namespace.is_some(), kind.namespaced, "{object}");
        self.put(&kind, object.clone())
    }

    pub fn delete(&mut self, plural: &str, namespace: &str, name: &str) {
        let kind = self.kinds.of_plural(plural).expect("a kind that is served").clone();
        self.remove(&kind, namespace, name);
    }

    fn happen(&mut self, kind: &Kind, before: Option<Value>, after: Option<Value>) {
        let plural = Some((kind.group.clone(), kind.plural.clone()));
        self.log.push(Happening { version: self.version, plural, before, after });
    }

    pub(crate) fn bookmark(&mut self) {
        self.version += 1;
        self.log.push(Happening { version: self.version, plural: None, before: None, after: None });
    }

    pub fn compact(&mut self) {
        self.version += 1;
        self.forget();
    }

    pub(crate) fn forget(&mut self) {
        self.oldest = self.version;
        self.log.clear();
    }

    pub(crate) fn take_fault(&mut self, access: &Access) -> Option<Fault> {
        let meets =
            |(verb, plural, _): &(&str, &str, Fault)| *verb == access.verb && *plural == access.resource;
        match self.faults.iter().position(meets) {
            Some(at) => Some(self.faults.remove(at).2),
            None => self.storms.iter().find(|storm| meets(storm)).map(|storm| storm.2),
        }
    }
}

/// Sets the real server's defaults (`admissionregistration.k8s.io/v1`).
fn fill_in(configuration: &mut Value) {
    let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        for (field, value) in [
            ("matchPolicy", json!("Equivalent")),
            ("failurePolicy", json!("Fail")),
            ("reinvocationPolicy", json!("Never")),
            ("timeoutSeconds", json!(10)),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
        ] {
            if webhook[field].is_null() {
                webhook[field] = value;
            }
        }
        let rules = webhook.get_mut("rules").and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten() {
            if rule["scope"].is_null() {
                rule["scope"] = json!("*");
            }
        }
    }
}
