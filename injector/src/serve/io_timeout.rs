//! How long a client may take: to begin a request, and to end its head.
//!
//! A connection on which nothing happens is kept for long, because the API server keeps its own. Once a request has begun,
//! the limit is short: a client that sends a head byte by byte holds a connection no longer than one that sends none. HTTP/2
//! sends bytes between requests too (PING), so there a request begins with its complete head.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Longer than Go's client keeps a connection that it doesn't use (90 s), so that it is the client who ends it: no request
/// is sent into a connection that is just being closed.
const IDLE: Duration = Duration::from_secs(120);

/// The deadlines of one connection.
#[derive(Debug)]
pub(crate) struct IoTimeout {
    timeout: Duration,
    deadline: watch::Sender<Instant>,
    /// Nothing has come since the last answer.
    idle: AtomicBool,
    /// Requests without an answer.
    open: AtomicUsize,
    /// Bytes on an idle connection begin a request.
    bytes_ask: bool,
}

impl IoTimeout {
    /// A connection has just been opened, for a request that should come soon. `bytes_ask`: bytes on an idle connection
    /// begin a request.
    pub(crate) fn new(timeout: Duration, bytes_ask: bool) -> Self {
        let deadline = watch::Sender::new(Instant::now() + timeout);
        let (idle, open) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { timeout, deadline, idle, open, bytes_ask }
    }

    pub(crate) fn arrived(&self) {
        if self.bytes_ask && self.idle.swap(false, Ordering::Relaxed) {
            self.deadline.send_replace(Instant::now() + self.timeout);
        }
    }

    /// A head is complete: there is time for a body, and for an answer to be made of it.
    pub(crate) fn begin_request(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.deadline.send_replace(Instant::now() + 2 * self.timeout);
    }

    /// An answer is on its way, or its client has given it up. Whether it was the last one.
    pub(crate) fn end_request(&self) -> bool {
        let is_last = self.open.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last {
            self.idle.store(true, Ordering::Relaxed);
            self.deadline.send_replace(Instant::now() + IDLE);
        }
        is_last
    }

    /// The connection is about to end: what is being answered still has its time, and silence has no longer one.
    pub(crate) fn ends(&self) {
        let end = Instant::now() + 2 * self.timeout;
        self.deadline.send_if_modified(|deadline| {
            let is_later = *deadline > end;
            *deadline = end.min(*deadline);
            is_later
        });
    }

    /// Ends when the client has taken too long.
    pub(crate) async fn run_out(&self) {
        let mut changes = self.deadline.subscribe();
        loop {
            let deadline = *changes.borrow_and_update();
            tokio::select! {
                () = sleep_until(deadline) => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }
}
