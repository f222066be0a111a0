//! Limits a server's open connections. Beyond the limit, a new connection evicts the one whose request has been incomplete
//! longest, else the longest idle one, so slow clients never hold up others. A connection with a complete request is busy and not
//! evicted; if all are busy, the new one waits.

use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

/// Closing connections may exceed the capacity by an eighth: an eviction takes up to a second if the client does not answer, and
/// new connections should not wait.
const CLOSING_PART: usize = 8;
/// Delay after a failed accept, most likely for lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Slots {
    capacity: usize,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Orders state changes.
    sequence: u64,
    /// Keyed by the order of opening.
    open: BTreeMap<u64, OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    state: ConnectionState,
    entered_at: u64,
    /// Requests with incomplete bodies; `complete` counts requests being answered.
    incomplete: usize,
    complete: usize,
    close: CancellationToken,
}

/// In eviction order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionState {
    Incomplete,
    Idle,
    Busy,
}

/// One connection's share of the limit, freed when dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    id: u64,
    close: CancellationToken,
}

impl Slots {
    pub fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, inner: Mutex::default(), changed: Notify::new() })
    }

    pub async fn accept(self: &Arc<Self>, listener: &TcpListener) -> (TcpStream, Slot) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return (stream, self.take().await),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    self.evict_one();
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    async fn take(self: &Arc<Self>) -> Slot {
        loop {
            if let Some(slot) = self.try_take() {
                return slot;
            }
            if !self.evict_one() {
                self.changed.notified().await;
            }
        }
    }

    /// Evicts one connection that is not busy, unless too many are closing. Returns true if one was evicted.
    fn evict_one(&self) -> bool {
        let inner = self.inner.lock();
        let closing = inner.closing();
        let evictable = inner.open.values().filter(|open| !open.close.is_cancelled());
        let first = evictable
            .filter(|open| open.state != ConnectionState::Busy)
            .min_by_key(|open| (open.state, open.entered_at));
        let evicted = first.filter(|_| closing <= self.capacity / CLOSING_PART);
        evicted.map(|first| first.close.cancel()).is_some()
    }

    fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let mut inner = self.inner.lock();
        if inner.open.len() - inner.closing() >= self.capacity {
            return None;
        }
        let (id, close) = (inner.tick(), CancellationToken::new());
        let state = ConnectionState::Incomplete;
        let open = OpenConnection { state, entered_at: id, incomplete: 0, complete: 0, close: close.clone() };
        inner.open.insert(id, open);
        Some(Slot { slots: Arc::clone(self), id, close })
    }
}

impl Inner {
    fn closing(&self) -> usize {
        self.open.values().filter(|open| open.close.is_cancelled()).count()
    }

    fn tick(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

impl Slot {
    pub fn begin_request(&self) {
        self.change(|open| open.incomplete += 1);
    }

    /// Marks a request's body as complete; its answer follows.
    pub fn complete_request(&self) {
        self.change(|open| (open.incomplete, open.complete) = (open.incomplete - 1, open.complete + 1));
    }

    /// Ends a request, answered or aborted, complete or not.
    pub fn end_request(&self, was_complete: bool) {
        self.change(|open| *(if was_complete { &mut open.complete } else { &mut open.incomplete }) -= 1);
        // A waiting connection may evict this one, now idle.
        self.slots.changed.notify_one();
    }

    /// True if the connection has made no request, so no answer can be in flight.
    pub fn is_silent(&self) -> bool {
        let inner = self.slots.inner.lock();
        let own = inner.open.get(&self.id);
        own.is_some_and(|open| open.incomplete == 0 && open.state == ConnectionState::Incomplete)
    }

    pub async fn evicted(&self) {
        self.close.cancelled().await;
    }

    fn change(&self, change: impl FnOnce(&mut OpenConnection)) {
        let mut inner = self.slots.inner.lock();
        let sequence = inner.tick();
        let Some(open) = inner.open.get_mut(&self.id) else { return };
        change(open);
        let state = match (open.complete, open.incomplete) {
            (0, 0) => ConnectionState::Idle,
            (0, _) => ConnectionState::Incomplete,
            _ => ConnectionState::Busy,
        };
        if open.state != state {
            (open.state, open.entered_at) = (state, sequence);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.inner.lock().open.remove(&self.id);
        self.slots.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{runtime::Builder, task, time::timeout};

    fn run<T>(work: impl Future<Output = T>) -> T {
        Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(work)
    }

    /// Returns `number` once evicted.
    fn serve(number: usize, slot: Slot) -> task::JoinHandle<usize> {
        task::spawn(async move {
            slot.evicted().await;
            number
        })
    }

    #[test]
    fn the_longest_incomplete_goes_first_then_the_longest_idle_and_busy_ones_never() {
        run(async {
            let slots = Slots::new(5);
            let mut open = Vec::new();
            for _ in 0..5 {
                open.push(slots.take().await);
            }
            for at in [0, 1, 2, 4] {
                open[at].begin_request();
            }
            for at in [0, 1, 2] {
                open[at].complete_request();
            }
            for at in [1, 0] {
                open[at].end_request(true);
            }
            // 0 is idle, 1 has been idle for longer, 2 is busy, 3 has sent nothing, 4 has sent a head without a body.
            let served: Vec<_> = open.into_iter().enumerate().map(|(at, slot)| serve(at, slot)).collect();
            task::yield_now().await;
            let mut kept = Vec::new();
            for (before, expected) in [3, 4, 1, 0].into_iter().enumerate() {
                let slot = timeout(Duration::from_secs(5), slots.take()).await.expect("room");
                slot.begin_request();
                slot.complete_request();
                kept.push(slot);
                while !served[expected].is_finished() {
                    task::yield_now().await;
                }
                assert_eq!(served.iter().filter(|one| one.is_finished()).count(), before + 1);
            }
            // All are busy: the next one waits for an answer.
            assert!(timeout(Duration::from_millis(50), slots.take()).await.is_err());
            let first = kept.remove(0);
            let answering = task::spawn(async move {
                sleep(Duration::from_millis(50)).await;
                first.end_request(true);
                first.evicted().await;
            });
            timeout(Duration::from_secs(5), slots.take()).await.expect("room");
            answering.await.expect("no panic");
        });
    }

    #[test]
    fn a_connection_that_is_slow_to_close_keeps_no_other_out() {
        run(async {
            let slots = Slots::new(1);
            let _closing = slots.take().await;
            let _next = timeout(Duration::from_secs(5), slots.take()).await.expect("room");
            assert!(
                timeout(Duration::from_millis(50), slots.take()).await.is_err(),
                "too many would be open"
            );
        });
    }
}
