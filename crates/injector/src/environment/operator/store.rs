//! A cluster's objects that determine routes, and each event's changes.

use environment::inventory::{InventoryWorkload, Service};
use environment::{conditions::ranked, existing::Existing, resource::VirtualEnvironment};
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
type ResourceTable = cluster::watch::Store<NamespacedName, WatchedObject>;

/// Parts of an object that determine routes.
#[derive(Debug)]
enum WatchedObject {
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

    /// True if `other` results in the same routes.
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
}

/// UIDs of each namespace's VirtualEnvironments, in order of precedence, except those being deleted.
pub(super) type Ranking = BTreeMap<String, Vec<Option<String>>>;

#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) namespaces: BTreeSet<String>,
    pub(super) lost: Vec<Lost>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lost {
    pub(super) namespace: String,
    resource: Resource,
    name: String,
}

#[derive(Default)]
pub(super) struct NamespaceObjects<'a> {
    pub(super) environments: Vec<(&'a VirtualEnvironment, &'a Value)>,
    pub(super) services: Vec<&'a Service>,
    pub(super) workloads: Vec<&'a InventoryWorkload>,
    pub(super) existing: Vec<&'a Existing>,
}

impl<'a> NamespaceObjects<'a> {
    pub(super) fn ranked(&self) -> Vec<&'a VirtualEnvironment> {
        ranked(self.environments.iter().map(|(one, _)| *one))
    }
}

#[derive(Debug, Default)]
pub(super) struct ObjectStore([ResourceTable; Resource::ALL.len()]);

impl ObjectStore {
    pub(super) fn take(&mut self, resource: Resource, event: Event<Value>) -> Touched {
        let mut touched = Touched::default();
        let table = &mut self.0[resource as usize];
        if let Event::Delete(object) = &event {
            // A VirtualEnvironment of this name may have been recreated before the deletion is reported.
            if let Some(WatchedObject::Environment(known, _)) =
                key(object).and_then(|key| table.known().get(&key))
                && let (Some(known), Some(uid)) = (&known.uid, object["metadata"]["uid"].as_str())
                && uid != known
            {
                return touched;
            }
        }
        let changed = table.take(event, |object| {
            let key = key(&object)?;
            let fact = WatchedObject::read(resource, object, &key.0)?;
            Some((key, fact))
        });
        for (key, before) in changed {
            let now = table.known().get(&key);
            if before.as_ref().zip(now).is_some_and(|(before, now)| before.is_same(now)) {
                continue;
            }
            let is_gone = now.is_none();
            let (namespace, name) = key;
            touched.namespaces.insert(namespace.clone());
            if is_gone && before.is_some_and(|before| before.is_ours()) {
                touched.lost.push(Lost { namespace, resource, name });
            }
        }
        touched
    }

    pub(super) fn is_complete(&self) -> bool {
        self.0.iter().all(ResourceTable::is_listed)
    }

    pub(super) fn within(&self, namespace: &str) -> NamespaceObjects<'_> {
        let first = (namespace.to_owned(), String::new());
        let mut found = NamespaceObjects::default();
        for table in &self.0 {
            let here = table.known().range(&first..).take_while(|((of, _), _)| of == namespace);
            for (_, fact) in here {
                match fact {
                    WatchedObject::Environment(environment, status) => {
                        found.environments.push((environment, status));
                    }
                    WatchedObject::Service(service) => found.services.push(service),
                    WatchedObject::Workload(workload) => found.workloads.push(workload),
                    WatchedObject::Existing(object) => found.existing.push(object),
                }
            }
        }
        found
    }

    pub(super) fn ranking(&self) -> Ranking {
        let of = |namespace: String| {
            let ranked = self.within(&namespace).ranked();
            let uids: Vec<Option<String>> = ranked.iter().map(|one| one.uid.clone()).collect();
            (!uids.is_empty()).then_some((namespace, uids))
        };
        self.with_environments().into_iter().filter_map(of).collect()
    }

    fn with_environments(&self) -> BTreeSet<String> {
        let environments = self.0[Resource::Environments as usize].known();
        environments.keys().map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Namespaces with a VirtualEnvironment or a managed object.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        let objects = self.0.iter().flat_map(ResourceTable::known).filter(|(_, fact)| fact.is_ours());
        let of_objects = objects.map(|((namespace, _), _)| namespace.clone());
        self.with_environments().into_iter().chain(of_objects).collect()
    }
}

fn key(object: &Value) -> Option<NamespacedName> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).map(str::to_owned);
    Some((text("/metadata/namespace")?, text("/metadata/name")?))
}
