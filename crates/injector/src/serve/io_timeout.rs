//! Deadline of a connection: for the begin of a request, the end of its head, and its body and answer.
//!
//! An idle connection is kept for long, because the API server keeps its own. Once a request has begun, the limit is short: a
//! client that sends a head byte by byte holds a connection no longer than one that sends none. HTTP/2 also sends bytes
//! between requests (PING), so there a request begins with its complete head.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Longer than Go's client keeps an unused connection (90 s), so that the client ends it: no request is sent into a closing
/// connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Time for a client to agree on the end of a connection without requests (GOAWAY of HTTP/2).
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct IoTimeout {
    timeout: Duration,
    deadline: watch::Sender<Instant>,
    /// True if no bytes have come since the last answer.
    idle: AtomicBool,
    in_flight: AtomicUsize,
    bytes_begin_request: bool,
    is_shutting_down: AtomicBool,
}

impl IoTimeout {
    pub(crate) fn new(timeout: Duration, bytes_begin_request: bool) -> Self {
        Self {
            timeout,
            deadline: watch::Sender::new(Instant::now() + timeout),
            idle: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            bytes_begin_request,
            is_shutting_down: AtomicBool::new(false),
        }
    }

    pub(crate) fn bytes_received(&self) {
        if self.bytes_begin_request && self.idle.swap(false, Ordering::Relaxed) {
            self.deadline.send_replace(Instant::now() + self.timeout);
        }
    }

    /// Called after a complete head: allows time for the body and the answer.
    pub(crate) fn begin_request(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.deadline.send_replace(Instant::now() + 2 * self.timeout);
    }

    /// Called when an answer is ready, or its client has cancelled it.
    pub(crate) fn end_request(&self) {
        if self.in_flight.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.idle.store(true, Ordering::Relaxed);
            self.deadline.send_replace(Instant::now() + self.idle_timeout());
        }
    }

    fn idle_timeout(&self) -> Duration {
        if self.is_shutting_down.load(Ordering::Relaxed) { SHUTDOWN_TIMEOUT } else { IDLE_TIMEOUT }
    }

    /// Called before the end of the connection: requests in flight keep their time; an idle connection, or one whose time is
    /// up, has little.
    pub(crate) fn shut_down(&self) {
        self.is_shutting_down.store(true, Ordering::Relaxed);
        let is_idle = self.in_flight.load(Ordering::Relaxed) == 0 && self.idle.load(Ordering::Relaxed);
        let (now, most) = (Instant::now(), if is_idle { SHUTDOWN_TIMEOUT } else { 2 * self.timeout });
        self.deadline
            .send_modify(|deadline| *deadline = (*deadline).max(now + SHUTDOWN_TIMEOUT).min(now + most));
    }

    pub(crate) async fn expired(&self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn left(timer: &IoTimeout) -> Duration {
        timer.deadline.borrow().duration_since(Instant::now())
    }

    #[test]
    fn a_shutdown_leaves_time_to_requests_in_flight_and_to_one_that_has_begun() {
        let timer = IoTimeout::new(TIMEOUT, true);
        timer.begin_request();
        timer.begin_request();
        timer.end_request();
        timer.shut_down();
        assert!(left(&timer) > TIMEOUT);

        let timer = IoTimeout::new(TIMEOUT, true);
        timer.begin_request();
        timer.end_request();
        timer.bytes_received();
        timer.shut_down();
        assert!(left(&timer) > TIMEOUT / 2 && left(&timer) <= TIMEOUT);
    }
}
