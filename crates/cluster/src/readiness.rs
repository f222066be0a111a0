//! Readiness of a program: it is ready when everything that blocked it has finished.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<Vec<&'static str>>>);

/// Keeps a program from being ready until it is dropped, by whatever way its owner ends.
#[derive(Debug)]
pub struct Blocker {
    readiness: Readiness,
    reason: &'static str,
}

impl Readiness {
    /// Blocks readiness. The reason is a sentence for those who ask why the program is not ready.
    #[must_use]
    pub fn block(&self, reason: &'static str) -> Blocker {
        self.reasons().push(reason);
        Blocker { readiness: self.clone(), reason }
    }

    /// The reason that has blocked for the longest time; `None` when the program is ready.
    pub fn blocked_by(&self) -> Option<&'static str> {
        self.reasons().first().copied()
    }

    fn reasons(&self) -> MutexGuard<'_, Vec<&'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        let mut reasons = self.readiness.reasons();
        if let Some(at) = reasons.iter().position(|reason| *reason == self.reason) {
            reasons.remove(at);
        }
    }
}
