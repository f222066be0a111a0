//! The objects of a cluster that decide about routes, and the changes that each event brings.

use environment::{
    conditions::ranked,
    existing::Existing,
    inventory::{InventoryWorkload, Service},
    resource::VirtualEnvironment,
};
use kube::runtime::watcher::Event;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    Environments,
    Services,
    Deployments,
    StatefulSets,
    VirtualServices,
    DestinationRules,
    EnvoyFilters,
}

impl Resource {
    pub(super) const ALL: [Self; 7] = [
        Self::Environments,
        Self::Services,
        Self::Deployments,
        Self::StatefulSets,
        Self::VirtualServices,
        Self::DestinationRules,
        Self::EnvoyFilters,
    ];
}

type NamespacedName = (String, String);
type ResourceTable = cluster::store::Store<NamespacedName, WatchedObject>;

/// An object, as far as it decides about routes.
#[derive(Debug)]
enum WatchedObject {
    /// With its status.
    Environment(VirtualEnvironment, Value),
    Service(Service),
    Workload(InventoryWorkload),
    Existing(Existing),
}

impl WatchedObject {
    fn read(resource: Resource, mut object: Value, namespace: &str) -> Option<Self> {
        match resource {
            Resource::Environments => {
                let environment = VirtualEnvironment::read(&object, namespace);
                Some(Self::Environment(environment, object["status"].take()))
            }
            Resource::Services => Service::read(&object, namespace).map(Self::Service),
            Resource::Deployments | Resource::StatefulSets => {
                InventoryWorkload::read(&object, namespace).map(Self::Workload)
            }
            Resource::VirtualServices | Resource::DestinationRules | Resource::EnvoyFilters => {
                Existing::of(object).map(Self::Existing)
            }
        }
    }

    /// True if routes are the same with the other one.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Environment(one, _), Self::Environment(other, _)) => one == other,
            (Self::Service(one), Self::Service(other)) => one == other,
            (Self::Workload(one), Self::Workload(other)) => one == other,
            (Self::Existing(one), Self::Existing(other)) => one.says_as(other),
            _ => false,
        }
    }

    fn is_ours(&self) -> bool {
        matches!(self, Self::Existing(object) if object.is_ours())
    }

    fn uid(&self) -> Option<&str> {
        match self {
            Self::Environment(environment, _) => environment.uid.as_deref(),
            Self::Service(_) | Self::Workload(_) | Self::Existing(_) => None,
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    /// Namespaces whose routes may be others now.
    pub(super) namespaces: BTreeSet<String>,
    pub(super) lost: Vec<Lost>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lost {
    pub(super) namespace: String,
    resource: Resource,
    name: String,
}

impl Touched {
    fn namespace(name: String) -> Self {
        Self { namespaces: BTreeSet::from([name]), lost: Vec::new() }
    }
}

#[derive(Debug, Default)]
pub(super) struct ObjectStore([ResourceTable; Resource::ALL.len()]);

impl ObjectStore {
    pub(super) fn take(&mut self, resource: Resource, event: Event<Value>) -> Touched {
        let table = &mut self.0[resource as usize];
        let lost = |(namespace, name): &NamespacedName, fact: &WatchedObject| {
            fact.is_ours().then(|| Lost { namespace: namespace.clone(), resource, name: name.clone() })
        };
        let read = |object: Value| {
            let key = key(&object)?;
            let fact = WatchedObject::read(resource, object, &key.0)?;
            Some((key, fact))
        };
        match event {
            Event::Init => {
                table.begin();
                Touched::default()
            }
            Event::InitApply(object) => {
                if let Some((key, fact)) = read(object) {
                    table.list(key, fact);
                }
                Touched::default()
            }
            Event::InitDone => {
                let before = table.complete();
                let now = table.known();
                let is_same = |key: &NamespacedName| match (before.get(key), now.get(key)) {
                    (Some(before), Some(now)) => before.is_same(now),
                    _ => false,
                };
                let changed = before.keys().chain(now.keys()).filter(|key| !is_same(key));
                let gone = before.iter().filter(|(key, _)| !now.contains_key(*key));
                Touched {
                    namespaces: changed.map(|key| key.0.clone()).collect(),
                    lost: gone.filter_map(|(key, fact)| lost(key, fact)).collect(),
                }
            }
            Event::Apply(object) => {
                let Some((key, fact)) = read(object) else { return Touched::default() };
                let is_same = table.known().get(&key).is_some_and(|before| before.is_same(&fact));
                let touched = if is_same { Touched::default() } else { Touched::namespace(key.0.clone()) };
                table.insert(key, fact);
                touched
            }
            Event::Delete(object) => {
                let Some(key) = key(&object) else { return Touched::default() };
                // A VirtualEnvironment of this name may have been created again before the deletion is reported.
                let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
                let known = table.known().get(&key).and_then(WatchedObject::uid);
                if known.is_some_and(|known| uid.is_some_and(|uid| uid != known)) {
                    return Touched::default();
                }
                let Some(fact) = table.remove(&key) else { return Touched::default() };
                let lost = lost(&key, &fact).into_iter().collect();
                Touched { lost, ..Touched::namespace(key.0) }
            }
        }
    }

    /// True if all that is watched was listed once.
    pub(super) fn is_complete(&self) -> bool {
        self.0.iter().all(ResourceTable::is_listed)
    }

    fn within<'a, T>(&'a self, namespace: &str, of: impl Fn(&'a WatchedObject) -> Option<T>) -> Vec<T> {
        let first = (namespace.to_owned(), String::new());
        let facts = self.0.iter().flat_map(|table| {
            table.known().range(&first..).take_while(|((of, _), _)| of == namespace).map(|(_, fact)| fact)
        });
        facts.filter_map(of).collect()
    }

    /// With their statuses.
    pub(super) fn environments(&self, namespace: &str) -> Vec<(&VirtualEnvironment, &Value)> {
        self.within(namespace, |fact| match fact {
            WatchedObject::Environment(environment, status) => Some((environment, status)),
            _ => None,
        })
    }

    pub(super) fn services(&self, namespace: &str) -> Vec<Service> {
        self.within(namespace, |fact| match fact {
            WatchedObject::Service(service) => Some(service.clone()),
            _ => None,
        })
    }

    pub(super) fn workloads(&self, namespace: &str) -> Vec<InventoryWorkload> {
        self.within(namespace, |fact| match fact {
            WatchedObject::Workload(workload) => Some(workload.clone()),
            _ => None,
        })
    }

    pub(super) fn existing(&self, namespace: &str) -> Vec<Existing> {
        self.within(namespace, |fact| match fact {
            WatchedObject::Existing(object) => Some(object.clone()),
            _ => None,
        })
    }

    /// The VirtualEnvironments that count, by their UIDs in the order in which they act, of each namespace with one.
    pub(super) fn ranking(&self) -> BTreeMap<String, Vec<Option<String>>> {
        let of = |namespace: String| {
            let all = self.environments(&namespace);
            let ranked = ranked(all.iter().map(|(one, _)| *one));
            let uids: Vec<Option<String>> = ranked.iter().map(|one| one.uid.clone()).collect();
            (!uids.is_empty()).then_some((namespace, uids))
        };
        self.with_environments().into_iter().filter_map(of).collect()
    }

    fn with_environments(&self) -> BTreeSet<String> {
        let environments = self.0[Resource::Environments as usize].known();
        environments.keys().map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Namespaces with a VirtualEnvironment, or with an object that the operator has made.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        let objects = self.0.iter().flat_map(ResourceTable::known).filter(|(_, fact)| fact.is_ours());
        self.with_environments()
            .into_iter()
            .chain(objects.map(|((namespace, _), _)| namespace.clone()))
            .collect()
    }
}

fn key(object: &Value) -> Option<NamespacedName> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).map(str::to_owned);
    Some((text("/metadata/namespace")?, text("/metadata/name")?))
}
