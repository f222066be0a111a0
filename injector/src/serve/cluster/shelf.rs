//! What is known of one resource, by names: read by reviews, written by a watch.
//!
//! A list that begins anew replaces what there was when it is complete, and not before.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError, RwLock},
};

pub(super) struct Shelf<T> {
    pub(super) resource: &'static str,
    known: RwLock<BTreeMap<String, T>>,
    standing: Mutex<Standing>,
}

#[derive(Clone, Debug, Default)]
struct Standing {
    /// It was listed once, or the API server has said that we may not.
    settled: bool,
    current: bool,
    /// What went wrong last, while it is wrong.
    wrong: Option<String>,
    errors: u64,
}

/// How a watch is, for those who run the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct State {
    pub(in crate::serve) resource: &'static str,
    /// Whether it is known as the API server tells it, and not as it was once, or not at all.
    pub(in crate::serve) current: bool,
    pub(in crate::serve) errors: u64,
}

impl<T> Shelf<T> {
    pub(super) fn new(resource: &'static str) -> Self {
        Self { resource, known: RwLock::default(), standing: Mutex::default() }
    }

    /// What a complete list holds.
    pub(super) fn replace(&self, all: BTreeMap<String, T>) {
        let count = all.len();
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = all;
        let mut standing = self.standing();
        let was = std::mem::replace(&mut standing.current, true);
        (standing.settled, standing.wrong) = (true, None);
        drop(standing);
        if !was {
            tracing::info!(resource = self.resource, count, "watched");
        }
    }

    pub(super) fn put(&self, name: String, value: T) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(name, value);
    }

    pub(super) fn remove(&self, name: &str) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Something went wrong: it is counted each time, and told where it is something else than before. What is known stays.
    pub(super) fn disturbed(&self, wrong: String, is_forbidden: bool) {
        let mut standing = self.standing();
        standing.errors += 1;
        standing.current = false;
        standing.settled |= is_forbidden;
        if standing.wrong.as_ref() != Some(&wrong) {
            tracing::warn!(
                resource = self.resource,
                error = wrong,
                "not watched; reviews go on with what is known"
            );
            standing.wrong = Some(wrong);
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.standing().settled
    }

    pub(super) fn state(&self) -> State {
        let standing = self.standing();
        State { resource: self.resource, current: standing.current, errors: standing.errors }
    }

    /// Whether this holds for all of them, and there is one.
    pub(super) fn all(&self, holds: impl Fn(&T) -> bool) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        !known.is_empty() && known.values().all(holds)
    }

    /// The name of the first for which this holds.
    pub(super) fn first(&self, holds: impl Fn(&T) -> bool) -> Option<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(_, value)| holds(value)).map(|(name, _)| name.clone())
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Shelf<T> {
    pub(super) fn find(&self, name: &str) -> Option<T> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}
