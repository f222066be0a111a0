//! What the API server has told: the objects that decide about routes, reduced to what matters of them.
//!
//! A list that begins anew replaces what there was when it is complete, and not before.

use injection::environment::{
    existing::Existing,
    spec::VirtualEnvironment,
    standing::ranked,
    world::{Service, Workload},
};
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

/// What happened to a resource.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A list begins.
    Begin,
    /// An object of the list.
    Listed(Value),
    /// The list is complete.
    Done,
    /// An object is there, or was changed.
    Applied(Value),
    Deleted(Value),
}

/// An object, as far as it matters.
#[derive(Clone, Debug)]
enum Fact {
    Environment { environment: Box<VirtualEnvironment>, status: Value },
    Service(Box<Service>),
    Workload(Workload),
    Object(Existing),
}

impl Fact {
    /// Whether the routes may be others because of the difference.
    fn says_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Environment { environment: a, .. }, Self::Environment { environment: b, .. }) => a == b,
            (Self::Service(a), Self::Service(b)) => a == b,
            (Self::Workload(a), Self::Workload(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a.says_as(b),
            (Self::Environment { .. } | Self::Service(_) | Self::Workload(_) | Self::Object(_), _) => false,
        }
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

/// Namespace and name.
type Key = (String, String);
type Facts = BTreeMap<Key, Fact>;

#[derive(Debug, Default)]
struct Shelf {
    facts: Facts,
    /// The list that is not complete yet.
    coming: Option<Facts>,
    listed: bool,
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Store([Shelf; 7]);

impl Store {
    /// Takes an event.
    pub(super) fn take(&mut self, resource: Resource, event: Event) -> Touched {
        let shelf = &mut self.0[resource as usize];
        let lost = |(namespace, name): &Key, fact: &Fact| match fact {
            Fact::Object(there) if there.is_ours() => {
                Some(Lost { namespace: namespace.clone(), resource, name: name.clone() })
            }
            Fact::Object(_) | Fact::Environment { .. } | Fact::Service(_) | Fact::Workload(_) => None,
        };
        match event {
            Event::Begin => {
                shelf.coming = Some(Facts::new());
                Touched::default()
            }
            Event::Listed(object) => {
                let facts = shelf.coming.get_or_insert_default();
                facts.extend(fact(resource, object));
                Touched::default()
            }
            Event::Done => {
                let new = shelf.coming.take().unwrap_or_default();
                let old = std::mem::replace(&mut shelf.facts, new);
                shelf.listed = true;
                let is_same = |key: &Key| match (old.get(key), shelf.facts.get(key)) {
                    (Some(old), Some(new)) => old.says_as(new),
                    _ => false,
                };
                let keys = old.keys().chain(shelf.facts.keys());
                let namespaces = keys.filter(|key| !is_same(key)).map(|key| key.0.clone()).collect();
                let gone = old.iter().filter(|(key, _)| !shelf.facts.contains_key(*key));
                Touched { namespaces, lost: gone.filter_map(|(key, fact)| lost(key, fact)).collect() }
            }
            Event::Applied(object) => {
                let Some((key, fact)) = fact(resource, object) else { return Touched::default() };
                let is_same = shelf.facts.get(&key).is_some_and(|old| old.says_as(&fact));
                let touched = if is_same { Touched::default() } else { Touched::namespace(key.0.clone()) };
                shelf.facts.insert(key, fact);
                touched
            }
            Event::Deleted(object) => {
                let gone = key(&object).and_then(|key| shelf.facts.remove_entry(&key));
                let Some((key, fact)) = gone else { return Touched::default() };
                let lost = lost(&key, &fact).into_iter().collect();
                Touched { lost, ..Touched::namespace(key.0) }
            }
        }
    }

    /// Whether all that is watched was listed once.
    pub(super) fn is_complete(&self) -> bool {
        self.0.iter().all(|shelf| shelf.listed)
    }

    fn of(&self, resource: Resource, namespace: &str) -> impl Iterator<Item = &Fact> {
        let facts = &self.0[resource as usize].facts;
        let from = facts.range((namespace.to_owned(), String::new())..);
        from.take_while(move |((of, _), _)| of == namespace).map(|(_, fact)| fact)
    }

    /// The VirtualEnvironments of a namespace, with what their status says.
    pub(super) fn environments(&self, namespace: &str) -> Vec<(&VirtualEnvironment, &Value)> {
        let found = self.of(Resource::Environments, namespace).filter_map(|fact| match fact {
            Fact::Environment { environment, status } => Some((&**environment, status)),
            Fact::Service(_) | Fact::Workload(_) | Fact::Object(_) => None,
        });
        found.collect()
    }

    pub(super) fn services(&self, namespace: &str) -> Vec<Service> {
        let found = self.of(Resource::Services, namespace).filter_map(|fact| match fact {
            Fact::Service(service) => Some((**service).clone()),
            Fact::Environment { .. } | Fact::Workload(_) | Fact::Object(_) => None,
        });
        found.collect()
    }

    pub(super) fn workloads(&self, namespace: &str) -> Vec<Workload> {
        let both = [Resource::Deployments, Resource::StatefulSets];
        let found =
            both.into_iter().flat_map(|resource| self.of(resource, namespace)).filter_map(
                |fact| match fact {
                    Fact::Workload(workload) => Some(workload.clone()),
                    Fact::Environment { .. } | Fact::Service(_) | Fact::Object(_) => None,
                },
            );
        found.collect()
    }

    pub(super) fn existing(&self, namespace: &str) -> Vec<Existing> {
        let all = [Resource::VirtualServices, Resource::DestinationRules, Resource::EnvoyFilters];
        let found =
            all.into_iter().flat_map(|resource| self.of(resource, namespace)).filter_map(|fact| match fact {
                Fact::Object(existing) => Some(existing.clone()),
                Fact::Environment { .. } | Fact::Service(_) | Fact::Workload(_) => None,
            });
        found.collect()
    }

    /// The VirtualEnvironments that count, by their UIDs in the order in which they act, of each namespace with one.
    pub(super) fn standing(&self) -> BTreeMap<String, Vec<Option<String>>> {
        let of = |namespace: String| {
            let all = self.environments(&namespace);
            let ranked = ranked(all.iter().map(|(one, _)| *one));
            let uids: Vec<Option<String>> = ranked.iter().map(|one| one.uid.clone()).collect();
            (!uids.is_empty()).then_some((namespace, uids))
        };
        self.with_environments().into_iter().filter_map(of).collect()
    }

    fn with_environments(&self) -> BTreeSet<String> {
        let keys = self.0[Resource::Environments as usize].facts.keys();
        keys.map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Namespaces in which there is something to do, or something of ours.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        let keys = |resource: Resource| self.0[resource as usize].facts.iter();
        let all = [Resource::VirtualServices, Resource::DestinationRules, Resource::EnvoyFilters];
        let ours = all.into_iter().flat_map(keys).filter_map(|((namespace, _), fact)| match fact {
            Fact::Object(existing) => existing.is_ours().then_some(namespace),
            Fact::Environment { .. } | Fact::Service(_) | Fact::Workload(_) => None,
        });
        self.with_environments().into_iter().chain(ours.cloned()).collect()
    }
}

fn key(object: &Value) -> Option<Key> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).map(str::to_owned);
    Some((text("/metadata/namespace")?, text("/metadata/name")?))
}

fn fact(resource: Resource, mut object: Value) -> Option<(Key, Fact)> {
    let key = key(&object)?;
    let fact = match resource {
        Resource::Environments => Fact::Environment {
            environment: Box::new(VirtualEnvironment::read(&object, &key.0)),
            status: object["status"].take(),
        },
        Resource::Services => Fact::Service(Box::new(Service::read(&object, &key.0)?)),
        Resource::Deployments | Resource::StatefulSets => Fact::Workload(Workload::read(&object, &key.0)?),
        Resource::VirtualServices | Resource::DestinationRules | Resource::EnvoyFilters => {
            Fact::Object(Existing::of(object)?)
        }
    };
    Some((key, fact))
}
