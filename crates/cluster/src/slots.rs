//! How many connections a server has open at once.
//!
//! For a further one, the connection that has been silent for the longest time is closed, so that idle clients never
//! hold up others, whether they say nothing by intent or by a defect. Only where every connection is being answered does
//! another one wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Room for so many connections.
#[derive(Debug)]
pub struct Slots {
    most: usize,
    inner: Mutex<Inner>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Counts changes, as a clock.
    now: u64,
    open: Vec<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    id: u64,
    state: ConnectionState,
    since: u64,
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
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, inner: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a slot. Closes the longest idle connection where there is none, and waits where none is idle.
    pub async fn take(self: &Arc<Self>) -> Slot {
        loop {
            if let Some(slot) = self.try_take() {
                return slot;
            }
            self.close_idle();
            self.freed.notified().await;
        }
    }

    /// Has the longest idle connection closed, if there is one and none is being closed already. Without file descriptors no
    /// connection can be accepted either.
    pub fn close_idle(&self) {
        let mut inner = self.inner();
        if inner.open.iter().any(|open| open.is_closing) {
            return;
        }
        let idle = inner.open.iter_mut().filter(|open| open.state != ConnectionState::Busy);
        if let Some(longest) = idle.min_by_key(|open| (open.state, open.since)) {
            longest.is_closing = true;
            longest.close.notify_one();
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let mut inner = self.inner();
        if inner.open.len() >= self.most {
            return None;
        }
        let (id, close) = (inner.tick(), Arc::new(Notify::new()));
        inner.open.push(OpenConnection {
            id,
            state: ConnectionState::Silent,
            since: id,
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
        self.now += 1;
        self.now
    }
}

impl Slot {
    pub fn begin_request(&self) {
        self.enter(ConnectionState::Busy);
    }

    pub fn end_request(&self) {
        self.enter(ConnectionState::Idle);
        // Another connection may wait for an idle one.
        self.slots.freed.notify_one();
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
        let now = inner.tick();
        if let Some(open) = inner.open.iter_mut().find(|open| open.id == self.id) {
            (open.state, open.since) = (state, now);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.inner().open.retain(|open| open.id != self.id);
        self.slots.freed.notify_one();
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

    #[test]
    fn a_slot_that_is_given_back_is_taken_again() {
        run(async {
            let slots = Slots::new(1);
            for _ in 0..100 {
                let slot = timeout(Duration::from_secs(5), slots.take()).await.expect("room");
                assert!(slot.is_silent() && slots.try_take().is_none());
                slot.begin_request();
                assert!(!slot.is_silent());
            }
        });
    }
}
