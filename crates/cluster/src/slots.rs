//! How many connections a server has open at once.
//!
//! To admit another, a connection that has made no request yet is closed, else the one that has been idle for the longest
//! time, so that idle clients never hold up others, whether they say nothing by intent or by a defect. Another one waits
//! only where every connection is being answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Admits at most `capacity` connections.
#[derive(Debug)]
pub struct Slots {
    capacity: usize,
    inner: Mutex<Inner>,
    /// A slot is free, or a connection may be evicted.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Counts changes of state, so that they have an order.
    sequence: u64,
    open: Vec<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    id: u64,
    state: ConnectionState,
    entered_at: u64,
    close: Arc<Notify>,
    is_closing: bool,
}

/// What a connection is doing, in the order in which connections are closed for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionState {
    /// It has made no request yet.
    Silent,
    /// Its requests are answered.
    Idle,
    Busy,
}

/// The room that one connection takes, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    id: u64,
    close: Arc<Notify>,
}

impl Slots {
    pub fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, inner: Mutex::default(), changed: Notify::new() })
    }

    /// Takes a slot. Where there is none, a connection is evicted; where all are busy, this waits.
    pub async fn take(self: &Arc<Self>) -> Slot {
        loop {
            if let Some(slot) = self.try_take() {
                return slot;
            }
            self.evict_one();
            self.changed.notified().await;
        }
    }

    /// Evicts one connection that is not busy, unless an eviction is under way. Called as well where `accept` fails for want
    /// of file descriptors.
    pub fn evict_one(&self) {
        let mut inner = self.inner();
        if inner.open.iter().any(|open| open.is_closing) {
            return;
        }
        let evictable = inner.open.iter_mut().filter(|open| open.state != ConnectionState::Busy);
        if let Some(first) = evictable.min_by_key(|open| (open.state, open.entered_at)) {
            first.is_closing = true;
            first.close.notify_one();
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let mut inner = self.inner();
        if inner.open.len() >= self.capacity {
            return None;
        }
        let (id, close) = (inner.tick(), Arc::new(Notify::new()));
        inner.open.push(OpenConnection {
            id,
            state: ConnectionState::Silent,
            entered_at: id,
            close: Arc::clone(&close),
            is_closing: false,
        });
        Some(Slot { slots: Arc::clone(self), id, close })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn tick(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

impl Slot {
    pub fn begin_request(&self) {
        self.enter(ConnectionState::Busy);
    }

    pub fn end_request(&self) {
        self.enter(ConnectionState::Idle);
        // Another connection may wait for an idle one.
        self.slots.changed.notify_one();
    }

    /// Whether it has made no request, so that no answer can be on its way.
    pub fn is_silent(&self) -> bool {
        let inner = self.slots.inner();
        inner.open.iter().any(|open| open.id == self.id && open.state == ConnectionState::Silent)
    }

    /// Waits until another connection needs the room.
    pub async fn evicted(&self) {
        self.close.notified().await;
    }

    fn enter(&self, state: ConnectionState) {
        let mut inner = self.slots.inner();
        let sequence = inner.tick();
        if let Some(open) = inner.open.iter_mut().find(|open| open.id == self.id) {
            (open.state, open.entered_at) = (state, sequence);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.inner().open.retain(|open| open.id != self.id);
        self.slots.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::{
        runtime::Builder,
        task,
        time::{sleep, timeout},
    };

    fn run<T>(work: impl Future<Output = T>) -> T {
        Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(work)
    }

    /// Ends with its number when its room is wanted.
    fn serve(number: usize, slot: Slot) -> task::JoinHandle<usize> {
        task::spawn(async move {
            slot.evicted().await;
            number
        })
    }

    #[test]
    fn silent_ones_go_first_then_the_longest_idle_and_busy_ones_never() {
        run(async {
            let slots = Slots::new(4);
            let mut open = Vec::new();
            for _ in 0..4 {
                open.push(slots.take().await);
            }
            for at in [0, 1, 2] {
                open[at].begin_request();
            }
            for at in [1, 0] {
                open[at].end_request();
            }
            // 0 is idle, 1 is idle for longer, 2 is busy, 3 has said nothing.
            let mut served: Vec<_> = open.into_iter().enumerate().map(|(at, slot)| serve(at, slot)).collect();
            task::yield_now().await;
            let mut kept = Vec::new();
            for expected in [3, 1, 0] {
                let slot = timeout(Duration::from_secs(5), slots.take()).await.expect("room");
                slot.begin_request();
                kept.push(slot);
                let at = served.iter().position(task::JoinHandle::is_finished).expect("one has ended");
                assert_eq!(served.remove(at).await.expect("no panic"), expected);
            }
            // All are busy now: the next one waits until one is answered.
            assert!(timeout(Duration::from_millis(50), slots.take()).await.is_err());
            let first = kept.remove(0);
            let answering = task::spawn(async move {
                sleep(Duration::from_millis(50)).await;
                first.end_request();
                first.evicted().await;
            });
            timeout(Duration::from_secs(5), slots.take()).await.expect("room");
            answering.await.expect("no panic");
        });
    }
}
