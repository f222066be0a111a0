//! What is known of the cluster: the objects that decide about routes, and what each event changes of that.

use injection::environment::{
    conditions::ranked,
    existing::Existing,
    inventory::{Service, Workload},
    resource::VirtualEnvironment,
};
use kube::runtime::watcher::Event;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is watched.
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

    /// Its plural name, as the API server has it.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Environments => "virtualenvironments",
            Self::Services => "services",
            Self::Deployments => "deployments",
            Self::StatefulSets => "statefulsets",
            Self::VirtualServices => "virtualservices",
            Self::DestinationRules => "destinationrules",
            Self::EnvoyFilters => "envoyfilters",
        }
    }
}

/// Namespace and name.
type Key = (String, String);
type Table<T> = cluster::store::Store<Key, T>;

/// What is known of an object, as far as it decides about routes.
trait Fact: Sized {
    fn read(object: Value, namespace: &str) -> Option<Self>;

    /// Whether routes are the same with the other one.
    fn is_same(&self, other: &Self) -> bool;

    /// Whether the operator has made the object.
    fn is_ours(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Environment {
    environment: VirtualEnvironment,
    status: Value,
}

impl Fact for Environment {
    fn read(mut object: Value, namespace: &str) -> Option<Self> {
        let environment = VirtualEnvironment::read(&object, namespace);
        Some(Self { environment, status: object["status"].take() })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.environment == other.environment
    }
}

impl Fact for Service {
    fn read(object: Value, namespace: &str) -> Option<Self> {
        Self::read(&object, namespace)
    }

    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

impl Fact for Workload {
    fn read(object: Value, namespace: &str) -> Option<Self> {
        Self::read(&object, namespace)
    }

    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

impl Fact for Existing {
    fn read(object: Value, _: &str) -> Option<Self> {
        Self::of(object)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.says_as(other)
    }

    fn is_ours(&self) -> bool {
        self.is_ours()
    }
}

/// What an event changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    /// Namespaces whose routes may be others now.
    pub(super) namespaces: BTreeSet<String>,
    /// What was ours and is gone.
    pub(super) lost: Vec<Lost>,
}

/// An object of ours that is gone.
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

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Store {
    environments: Table<Environment>,
    services: Table<Service>,
    deployments: Table<Workload>,
    stateful_sets: Table<Workload>,
    virtual_services: Table<Existing>,
    destination_rules: Table<Existing>,
    envoy_filters: Table<Existing>,
}

impl Store {
    /// Takes an event.
    pub(super) fn take(&mut self, resource: Resource, event: Event<Value>) -> Touched {
        match resource {
            Resource::Environments => take(&mut self.environments, resource, event),
            Resource::Services => take(&mut self.services, resource, event),
            Resource::Deployments => take(&mut self.deployments, resource, event),
            Resource::StatefulSets => take(&mut self.stateful_sets, resource, event),
            Resource::VirtualServices => take(&mut self.virtual_services, resource, event),
            Resource::DestinationRules => take(&mut self.destination_rules, resource, event),
            Resource::EnvoyFilters => take(&mut self.envoy_filters, resource, event),
        }
    }

    /// Whether all that is watched was listed once.
    pub(super) fn is_complete(&self) -> bool {
        self.environments.is_listed()
            && self.services.is_listed()
            && [&self.deployments, &self.stateful_sets].iter().all(|table| table.is_listed())
            && self.objects().iter().all(|table| table.is_listed())
    }

    fn objects(&self) -> [&Table<Existing>; 3] {
        [&self.virtual_services, &self.destination_rules, &self.envoy_filters]
    }

    /// The VirtualEnvironments of a namespace, with their statuses.
    pub(super) fn environments(&self, namespace: &str) -> Vec<(&VirtualEnvironment, &Value)> {
        within(&self.environments, namespace).map(|one| (&one.environment, &one.status)).collect()
    }

    pub(super) fn services(&self, namespace: &str) -> Vec<Service> {
        within(&self.services, namespace).cloned().collect()
    }

    pub(super) fn workloads(&self, namespace: &str) -> Vec<Workload> {
        let both = [&self.deployments, &self.stateful_sets].into_iter();
        both.flat_map(|table| within(table, namespace)).cloned().collect()
    }

    pub(super) fn existing(&self, namespace: &str) -> Vec<Existing> {
        self.objects().into_iter().flat_map(|table| within(table, namespace)).cloned().collect()
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
        self.environments.known().keys().map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Namespaces with a VirtualEnvironment, or with an object that the operator has made.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        let objects = self.objects().into_iter().flat_map(Table::known);
        let ours =
            objects.filter(|(_, object)| object.is_ours()).map(|((namespace, _), _)| namespace.clone());
        self.with_environments().into_iter().chain(ours).collect()
    }
}

fn within<'a, T>(table: &'a Table<T>, namespace: &str) -> impl Iterator<Item = &'a T> {
    let from = table.known().range((namespace.to_owned(), String::new())..);
    from.take_while(move |((of, _), _)| of == namespace).map(|(_, fact)| fact)
}

fn take<T: Fact>(table: &mut Table<T>, resource: Resource, event: Event<Value>) -> Touched {
    let lost = |(namespace, name): &Key, fact: &T| {
        fact.is_ours().then(|| Lost { namespace: namespace.clone(), resource, name: name.clone() })
    };
    let read = |object: Value| {
        let key = key(&object)?;
        let fact = T::read(object, &key.0)?;
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
            let is_same = |key: &Key| match (before.get(key), now.get(key)) {
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
            let Some(fact) = table.remove(&key) else { return Touched::default() };
            let lost = lost(&key, &fact).into_iter().collect();
            Touched { lost, ..Touched::namespace(key.0) }
        }
    }
}

fn key(object: &Value) -> Option<Key> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).map(str::to_owned);
    Some((text("/metadata/namespace")?, text("/metadata/name")?))
}
