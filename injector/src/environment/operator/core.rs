//! What is to be done, and when: events in, work out. No clock, no network.
//!
//! The first VirtualEnvironment of a namespace acts at once. Later events wait until none has come for a while, but not for
//! ever. Only the leader acts; whoever becomes it looks at everything.

use super::store::{Event, Resource, Store};
use injection::environment::{
    changes::{Changes, Step, changes, orphans},
    routes::{Plan, plan},
    standing::{Condition, acting, conditions, idle, status},
};
use policy::Problems;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How many waits events may put it off at most.
const MOST_WAITS: u32 = 6;
/// The longest pause after a failure.
const LONGEST: Duration = Duration::from_secs(60);

/// What is known, and what is due.
#[derive(Debug)]
pub(super) struct Core {
    store: Store,
    debounce: Duration,
    /// The version of Istio's objects.
    istio: &'static str,
    leading: bool,
    due: BTreeMap<String, Due>,
    failures: BTreeMap<String, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    since: Instant,
    at: Instant,
}

/// What a namespace needs.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) namespace: String,
    pub(super) steps: Vec<Step>,
    /// The one that acts: its name, and what it is told; `None` where there is none.
    acting: Option<Acting>,
    /// What the others are told.
    idle: Vec<(String, Vec<Condition>)>,
}

#[derive(Clone, Debug)]
struct Acting {
    name: String,
    plan: Result<Plan, Problems>,
    changes: Changes,
}

impl Work {
    /// What is odd, in words.
    pub(super) fn notes(&self) -> Vec<String> {
        let Some(acting) = &self.acting else { return Vec::new() };
        match &acting.plan {
            Ok(plan) => plan.warnings.iter().chain(&acting.changes.foreign).cloned().collect(),
            Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Core {
    pub(super) fn new(debounce: Duration, istio: &'static str) -> Self {
        let (due, failures) = (BTreeMap::new(), BTreeMap::new());
        Self { store: Store::default(), debounce, istio, leading: false, due, failures }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Another version of Istio's objects is served than was known.
    pub(super) fn speak(&mut self, istio: &'static str) {
        self.istio = istio;
    }

    /// Something was told.
    pub(super) fn see(&mut self, resource: Resource, event: Event, now: Instant) {
        let was_complete = self.store.is_complete();
        let had = (resource == Resource::Environments).then(|| self.store.with_environments());
        for namespace in self.store.take(resource, event) {
            let is_first = had.as_ref().is_some_and(|had| !had.contains(&namespace));
            self.put_off(namespace, if is_first { Duration::ZERO } else { self.debounce }, now);
        }
        if !was_complete && self.store.is_complete() {
            self.all_due(now);
        }
    }

    fn put_off(&mut self, namespace: String, wait: Duration, now: Instant) {
        let longest = self.debounce * MOST_WAITS;
        let due = self.due.entry(namespace).or_insert(Due { since: now, at: now + wait });
        // What is due already is not put off.
        if due.at > now {
            due.at = (now + wait).min(due.since + longest);
        }
    }

    fn all_due(&mut self, now: Instant) {
        for namespace in self.store.namespaces() {
            self.due.insert(namespace, Due { since: now, at: now });
        }
    }

    /// We lead from now on, or no more.
    pub(super) fn lead(&mut self, leading: bool, now: Instant) {
        if leading && !self.leading {
            self.failures.clear();
            self.all_due(now);
        }
        self.leading = leading;
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Instant> {
        let may_act = self.leading && self.store.is_complete();
        may_act.then(|| self.due.values().map(|due| due.at).min()).flatten()
    }

    /// The work that is due, if there is some.
    pub(super) fn start(&mut self, now: Instant) -> Option<Work> {
        self.next().filter(|next| *next <= now)?;
        let (namespace, _) = self.due.iter().min_by_key(|(_, due)| due.at)?;
        let namespace = namespace.clone();
        self.due.remove(&namespace);
        Some(self.work(namespace))
    }

    /// What a namespace needs now.
    fn work(&self, namespace: String) -> Work {
        let all = self.store.environments(&namespace);
        let existing = self.store.existing(&namespace);
        let uids: BTreeSet<&str> = all.iter().filter_map(|(one, _)| one.uid.as_deref()).collect();
        let Some(oldest) = acting(all.iter().map(|(one, _)| *one)) else {
            return Work { steps: orphans(&existing, &uids), namespace, acting: None, idle: Vec::new() };
        };
        let (services, workloads) = (self.store.services(&namespace), self.store.workloads(&namespace));
        let plan = plan(oldest, &services, &workloads, self.istio);
        let changes = plan.as_ref().map(|plan| changes(oldest, plan, &existing)).unwrap_or_default();
        let others = all.iter().filter(|(one, _)| *one != oldest);
        let idle = others.map(|(one, _)| (one.name.clone(), idle(oldest))).collect();
        Work {
            steps: changes.steps.clone(),
            namespace,
            acting: Some(Acting { name: oldest.name.clone(), plan, changes }),
            idle,
        }
    }

    /// The statuses that are to be written after the work, by name. `failed` are writes that were refused, in words; `now`
    /// is the time as RFC 3339 says it.
    pub(super) fn statuses(&self, work: &Work, failed: &[String], now: &str) -> Vec<(String, Value)> {
        let all = self.store.environments(&work.namespace);
        let told = work.acting.iter().map(|one| (&one.name, conditions(&one.plan, &one.changes, failed)));
        let told = told.chain(work.idle.iter().map(|(name, conditions)| (name, conditions.clone())));
        let written = told.filter_map(|(name, conditions)| {
            let (one, before) = all.iter().find(|(one, _)| one.name == *name)?;
            Some((name.clone(), status(before, one.generation, &conditions, now)?))
        });
        written.collect()
    }

    /// The work on a namespace has ended. What has failed is tried again, later and later.
    pub(super) fn finished(&mut self, namespace: &str, well: bool, now: Instant) {
        if well {
            self.failures.remove(namespace);
            return;
        }
        let failures = self.failures.entry(namespace.to_owned()).or_default();
        let wait = Duration::from_secs(1).saturating_mul(1 << (*failures).min(6)).min(LONGEST);
        *failures += 1;
        let due = Due { since: now, at: now + wait };
        let earlier = self.due.entry(namespace.to_owned()).or_insert(due);
        // What came meanwhile waits too: it would fail alike.
        earlier.at = earlier.at.max(due.at);
    }
}
