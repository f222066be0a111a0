//! Memory and turns shared by requests of similar body length, so long bodies take nothing from short ones.
//!
//! A body takes memory as it arrives, not as announced. If its class has no memory left, the body that has been incomplete
//! longest is evicted; if all are complete, the new one waits for an answer to one of them.

use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum body of each class, and the memory of the class, in bytes. Pods with few containers have short bodies. The last class
/// has no limit, because no body longer than [`injection::review::MAX_BYTES`] is read.
const CLASSES: [(usize, usize); 3] = [(64 << 10, 16 << 20), (512 << 10, 16 << 20), (usize::MAX, 32 << 20)];

pub(super) struct SizeClasses {
    memory: Mutex<Ledger>,
    freed: Notify,
    turns: [Arc<Semaphore>; CLASSES.len()],
}

struct Ledger {
    left: [usize; CLASSES.len()],
    sequence: u64,
    /// Bodies by age, without evicted ones.
    bodies: BTreeMap<u64, Body>,
}

struct Body {
    class: usize,
    length: usize,
    is_complete: bool,
    evict: Arc<Notify>,
}

pub(super) struct Share {
    classes: Arc<SizeClasses>,
    id: u64,
    class: usize,
    evict: Arc<Notify>,
}

impl Ledger {
    fn remove(&mut self, id: u64) -> Option<Body> {
        let body = self.bodies.remove(&id)?;
        self.left[body.class] += body.length;
        Some(body)
    }
}

impl SizeClasses {
    /// Answers `threads` short bodies at once, but only one of each longer class: their reviews take a hundred times as much
    /// memory as the text.
    pub(super) fn new(threads: usize) -> Arc<Self> {
        let left = CLASSES.map(|(_, memory)| memory);
        let memory = Ledger { left, sequence: 0, bodies: BTreeMap::new() };
        let turns = [threads, 1, 1].map(|at_once| Arc::new(Semaphore::new(at_once)));
        Arc::new(Self { memory: Mutex::new(memory), freed: Notify::new(), turns })
    }
}

impl Share {
    pub(super) fn of(classes: &Arc<SizeClasses>) -> Self {
        let evict = Arc::new(Notify::new());
        let mut memory = classes.memory.lock();
        memory.sequence += 1;
        let id = memory.sequence;
        let body = Body { class: 0, length: 0, is_complete: false, evict: Arc::clone(&evict) };
        memory.bodies.insert(id, body);
        Self { classes: Arc::clone(classes), id, class: 0, evict }
    }

    pub(super) fn eviction(&self) -> Arc<Notify> {
        Arc::clone(&self.evict)
    }

    /// Takes memory for a body of this length, waiting if necessary.
    pub(super) async fn grow(&mut self, length: usize) {
        let classes = Arc::clone(&self.classes);
        loop {
            let freed = classes.freed.notified();
            if self.try_grow(length) {
                return;
            }
            freed.await;
        }
    }

    /// Takes memory if available, evicting others. An evicted body gets none.
    fn try_grow(&mut self, length: usize) -> bool {
        let class = CLASSES.iter().position(|(max, _)| length <= *max).unwrap_or(CLASSES.len() - 1);
        let mut memory = self.classes.memory.lock();
        let Some(mut own) = memory.remove(self.id) else { return false };
        while memory.left[class] < length {
            let mut others = memory.bodies.iter().filter(|(_, body)| body.class == class);
            let Some((&oldest, _)) = others.find(|(_, body)| !body.is_complete) else { break };
            memory.remove(oldest).inspect(|evicted| evicted.evict.notify_one());
        }
        let is_granted = memory.left[class] >= length;
        if is_granted {
            if own.class != class {
                self.classes.freed.notify_waiters();
            }
            (own.class, own.length) = (class, length);
            self.class = class;
        }
        memory.left[own.class] -= own.length;
        memory.bodies.insert(self.id, own);
        is_granted
    }

    /// Marks the body as complete, which excludes it from eviction. Returns false if it was evicted.
    pub(super) fn complete(&mut self) -> bool {
        let mut memory = self.classes.memory.lock();
        memory.bodies.get_mut(&self.id).map(|own| own.is_complete = true).is_some()
    }

    pub(super) async fn turn(&self) -> OwnedSemaphorePermit {
        let turns = Arc::clone(&self.classes.turns[self.class]);
        turns.acquire_owned().await.expect("semaphores are never closed")
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.classes.memory.lock().remove(self.id);
        self.classes.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const LONG: usize = 6 << 20;

    fn grown(classes: &Arc<SizeClasses>, length: usize) -> Share {
        let mut share = Share::of(classes);
        assert!(share.grow(length).now_or_never().is_some(), "it has to wait");
        share
    }

    #[test]
    fn the_oldest_incomplete_body_is_evicted_and_complete_ones_never() {
        let classes = SizeClasses::new(2);
        let mut open: Vec<Share> = (0..20).map(|_| grown(&classes, LONG)).collect();
        let evicted = |share: &Share| share.eviction().notified().now_or_never().is_some();
        // The memory suffices for five bodies.
        assert_eq!(
            open.iter().map(evicted).collect::<Vec<_>>(),
            (0..20).map(|at| at < 15).collect::<Vec<_>>()
        );
        let complete: Vec<bool> = open.iter_mut().map(Share::complete).collect();
        assert_eq!(complete.iter().filter(|is| **is).count(), 5);
        let mut next = Share::of(&classes);
        assert!(next.grow(LONG).now_or_never().is_none(), "complete bodies are not evicted");
        open.pop();
        assert!(next.grow(LONG).now_or_never().is_some() && next.complete());
        // Short bodies have separate memory.
        assert!(grown(&classes, 1 << 10).complete());
        drop((open, next));
        assert_eq!(classes.memory.lock().left, CLASSES.map(|(_, memory)| memory));
    }

    #[test]
    fn a_slow_review_does_not_delay_a_plain_one() {
        let classes = SizeClasses::new(1);
        let [long, other, short, plain] = [LONG, LONG, 30 << 10, 2 << 10].map(|length| {
            let mut share = grown(&classes, length);
            assert!(share.complete());
            share
        });
        let turn = long.turn().now_or_never();
        assert!(turn.is_some() && other.turn().now_or_never().is_none());
        let running = plain.turn().now_or_never().expect("short bodies have separate turns");
        assert!(short.turn().now_or_never().is_none());
        drop(running);
        assert!(short.turn().now_or_never().is_some());
        drop(turn);
        assert!(other.turn().now_or_never().is_some());
    }
}
