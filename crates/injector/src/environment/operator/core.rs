//! Scheduling of work: events in, work out, without a clock or network.
//!
//! Events are collected until none has come for a while, up to a limit. Changes that break requests are not delayed: a new active
//! or owning VirtualEnvironment, or the loss of a managed object. Only the leader acts; a new leader checks all namespaces.

use super::store::{Lost, ObjectStore, Ranking, Resource};
use backon::ExponentialBackoff;
use environment::changes::{Changes, adoptions, changes, orphans};
use environment::conditions::{conditions, idle, status};
use environment::inventory::AllowedHost;
use environment::routes::{Plan, plan};
use kube::runtime::watcher::Event;
use mesh::Problems;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum delay that events cause, in debounce intervals.
const MAX_DEBOUNCES: u32 = 6;
/// Minimum and maximum delay after failures.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) store: ObjectStore,
    ranking: Ranking,
    debounce: Duration,
    hosts: Vec<AllowedHost>,
    leading: bool,
    due: BTreeMap<String, Due>,
    failures: BTreeMap<String, ExponentialBackoff>,
    /// Objects that were recreated immediately, with the active VirtualEnvironment and the time: if one is lost again soon,
    /// another program deletes it, and repairs must be slower.
    repaired: BTreeMap<Lost, (Option<String>, Instant)>,
    /// Time at which a namespace lost its only VirtualEnvironment. It may be recreated, so its routes are kept for the debounce
    /// interval, whatever else is due.
    abandoned: BTreeMap<String, Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    since: Instant,
    at: Instant,
    /// True if further events don't change the time.
    is_firm: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WorkOutcome {
    Done,
    /// The object was changed or deleted meanwhile. A watch will report the change.
    Outdated,
    Failed,
}

#[derive(Clone, Debug)]
pub(super) struct NamespaceWork {
    pub(super) namespace: String,
    pub(super) changes: Changes,
    /// Plan of the active VirtualEnvironment; `None` without one.
    plan: Option<Result<Plan, Problems>>,
    /// Names and generations of VirtualEnvironments that are not being deleted, the active one first. The plan used these
    /// generations; newer ones may exist when the status is written.
    ranked: Vec<(String, Option<i64>)>,
}

impl NamespaceWork {
    pub(super) fn notes(&self) -> Vec<String> {
        match &self.plan {
            Some(Ok(plan)) => plan.warnings.iter().chain(&self.changes.foreign).cloned().collect(),
            Some(Err(problems)) => problems.0.iter().map(ToString::to_string).collect(),
            None => Vec::new(),
        }
    }
}

impl Core {
    pub(super) fn new(debounce: Duration, hosts: Vec<AllowedHost>) -> Self {
        Self { debounce, hosts, ..Self::default() }
    }

    pub(super) fn handle(&mut self, resource: Resource, event: Event<Value>, now: Instant) {
        let was_complete = self.store.is_complete();
        let touched = self.store.take(resource, event);
        for namespace in touched.namespaces {
            self.defer(namespace, now);
        }
        if resource == Resource::Environments {
            self.rank(now);
        }
        for lost in touched.lost {
            // Without an active VirtualEnvironment, the garbage collector removes all objects, or a successor comes.
            let acting = self.ranking.get(&lost.namespace).map(|ranked| ranked.first().cloned().flatten());
            if acting.is_some_and(|acting| self.may_repair(&lost, acting, now)) {
                self.expedite(lost.namespace, now);
            }
        }
        if !was_complete && self.store.is_complete() {
            self.all_due(now);
        }
    }

    fn rank(&mut self, now: Instant) {
        let before = std::mem::replace(&mut self.ranking, self.store.ranking());
        let gone = before.keys().filter(|namespace| !self.ranking.contains_key(*namespace));
        self.abandoned.extend(gone.map(|namespace| (namespace.clone(), now)));
        self.abandoned.retain(|namespace, _| !self.ranking.contains_key(namespace));
        for (namespace, ranked) in self.ranking.clone() {
            if before.get(&namespace) != Some(&ranked) {
                self.expedite(namespace, now);
            }
        }
    }

    fn may_repair(&mut self, lost: &Lost, acting: Option<String>, now: Instant) -> bool {
        let window = self.debounce;
        self.repaired.retain(|_, (_, at)| now < *at + window);
        if self.repaired.get(lost).is_some_and(|(by, _)| *by == acting) {
            return false;
        }
        self.repaired.insert(lost.clone(), (acting, now));
        true
    }

    fn defer(&mut self, namespace: String, now: Instant) {
        let (wait, longest) = (self.debounce, self.debounce * MAX_DEBOUNCES);
        let due = self.due.entry(namespace).or_insert(Due { since: now, at: now + wait, is_firm: false });
        // Work that is already due is not delayed.
        if due.at > now && !due.is_firm {
            due.at = (now + wait).min(due.since + longest);
        }
    }

    /// Makes work due now, regardless of later events.
    fn expedite(&mut self, namespace: String, now: Instant) {
        let due = self.due.entry(namespace).or_insert(Due { since: now, at: now, is_firm: true });
        (due.at, due.is_firm) = (due.at.min(now), true);
    }

    fn all_due(&mut self, now: Instant) {
        for namespace in self.store.namespaces() {
            self.due.insert(namespace, Due { since: now, at: now, is_firm: true });
        }
    }

    pub(super) fn lead(&mut self, leading: bool, now: Instant) {
        if leading && !self.leading {
            self.failures.clear();
            self.all_due(now);
        }
        self.leading = leading;
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        let may_act = self.leading && self.store.is_complete();
        may_act.then(|| self.due.values().map(|due| due.at).min()).flatten()
    }

    pub(super) fn start(&mut self, now: Instant) -> Option<NamespaceWork> {
        self.next_due().filter(|next| *next <= now)?;
        let (namespace, _) = self.due.iter().min_by_key(|(_, due)| due.at)?;
        let namespace = namespace.clone();
        self.due.remove(&namespace);
        match self.abandoned.remove(&namespace) {
            Some(gone) if now < gone + self.debounce => {
                let due = Due { since: now, at: gone + self.debounce, is_firm: true };
                self.abandoned.insert(namespace.clone(), gone);
                self.due.insert(namespace, due);
                self.start(now)
            }
            Some(_) | None => Some(self.work(namespace)),
        }
    }

    fn work(&self, namespace: String) -> NamespaceWork {
        let here = self.store.within(&namespace);
        let ranked = here.ranked();
        let plan = ranked.first().map(|oldest| plan(oldest, &here.services, &here.workloads, &self.hosts));
        let changes = match &plan {
            Some(Ok(plan)) => changes(&ranked, plan, &here.existing),
            Some(Err(_)) => adoptions(&ranked, &here.existing),
            None => {
                let uids = here.environments.iter().filter_map(|(one, _)| one.uid.as_deref()).collect();
                Changes { steps: orphans(&here.existing, &uids), ..Changes::default() }
            }
        };
        let ranked = ranked.iter().map(|one| (one.name.clone(), one.generation)).collect();
        NamespaceWork { namespace, changes, plan, ranked }
    }

    /// Statuses to write after the work, by name. `failed` describes refused writes; `now` is the time in RFC 3339.
    pub(super) fn statuses(
        &self,
        work: &NamespaceWork,
        failed: &[String],
        now: &str,
    ) -> Vec<(String, Value)> {
        let all = self.store.within(&work.namespace).environments;
        let (Some(plan), Some((acting, _))) = (&work.plan, work.ranked.first()) else { return Vec::new() };
        let written = work.ranked.iter().filter_map(|(name, generation)| {
            let (_, before) = all.iter().find(|(one, _)| one.name == *name)?;
            let conditions =
                if name == acting { conditions(plan, &work.changes, failed) } else { idle(acting) };
            Some((name.clone(), status(before, *generation, &conditions, now)?))
        });
        written.collect()
    }

    /// Ends the work. Failed or outdated work is retried after increasing delays, outdated work earlier after an event.
    pub(super) fn finished(&mut self, namespace: &str, outcome: WorkOutcome, now: Instant) {
        if outcome == WorkOutcome::Done {
            self.failures.remove(namespace);
            return;
        }
        let backoff = || cluster::backoff(FIRST_DELAY, MAX_DELAY, false);
        let delays = self.failures.entry(namespace.to_owned()).or_insert_with(backoff);
        let delay = delays.next().unwrap_or(MAX_DELAY);
        let again = Due { since: now, at: now + delay, is_firm: true };
        let due = self.due.entry(namespace.to_owned()).or_insert(again);
        due.is_firm = true;
        due.at = match outcome {
            // Events received meanwhile wait too: their work would also fail.
            WorkOutcome::Failed => due.at.max(again.at),
            WorkOutcome::Outdated | WorkOutcome::Done => due.at.min(again.at),
        };
    }
}
