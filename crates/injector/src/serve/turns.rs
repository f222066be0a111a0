//! Turns to be worked on: a few at once, and of those that wait the shortest work first, so that a flood of long works does not
//! delay short ones.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Hands turns out.
#[derive(Clone)]
pub(super) struct Turns(Arc<Mutex<Queue>>);

struct Queue {
    free: usize,
    sequence: u64,
    /// By length and order.
    waiting: BTreeMap<(usize, u64), oneshot::Sender<Turn>>,
}

/// One turn, until it is dropped.
pub(super) struct Turn(Turns);

impl Turns {
    pub(super) fn new(at_once: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue { free: at_once, sequence: 0, waiting: BTreeMap::new() })))
    }

    /// Waits for a turn for a work of this length.
    pub(super) async fn take(&self, length: usize) -> Turn {
        let (sender, receiver) = oneshot::channel();
        self.enqueue(length, sender);
        self.hand_out(0);
        receiver.await.expect("a sender stays in the queue until it has sent")
    }

    fn enqueue(&self, length: usize, sender: oneshot::Sender<Turn>) {
        let mut queue = self.queue();
        queue.sequence += 1;
        let place = (length, queue.sequence);
        queue.waiting.insert(place, sender);
    }

    /// Gives `returned` turns and the free ones to those that wait.
    fn hand_out(&self, returned: usize) {
        let mut queue = self.queue();
        queue.free += returned;
        let mut given_up = Vec::new();
        while queue.free > 0
            && let Some((_, next)) = queue.waiting.pop_first()
        {
            queue.free -= 1;
            given_up.extend(next.send(Turn(self.clone())).err());
        }
        // Their turns are returned now, for which the queue must not be locked.
        drop(queue);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.hand_out(1);
    }
}
