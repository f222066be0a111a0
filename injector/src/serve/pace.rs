//! How long a client may take: to begin a request, and to end its head.
//!
//! A connection on which nothing happens is kept for long, because the API server keeps its own. Once a request has begun,
//! patience is short: who sends a head byte by byte holds a connection as long as one who sends none. HTTP/2 sends bytes
//! between requests too (PING), so there a request begins with its complete head.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    time::{Instant, sleep_until},
};

/// Longer than Go's client keeps a connection that it doesn't use (90 s), so that it is the client who ends it: no request
/// is sent into a connection that is just being closed.
const IDLE: Duration = Duration::from_secs(120);

/// The clock of one connection.
#[derive(Debug)]
pub(crate) struct Pace {
    patience: Duration,
    deadline: watch::Sender<Instant>,
    /// Nothing has come since the last answer.
    idle: AtomicBool,
    /// Requests without an answer.
    open: AtomicUsize,
    /// Bytes on an idle connection begin a request.
    bytes_ask: bool,
}

impl Pace {
    /// A connection has just been opened, for a request that should come soon. `bytes_ask`: bytes on an idle connection
    /// begin a request.
    pub(crate) fn new(patience: Duration, bytes_ask: bool) -> Self {
        let deadline = watch::Sender::new(Instant::now() + patience);
        let (idle, open) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { patience, deadline, idle, open, bytes_ask }
    }

    fn arrived(&self) {
        if self.bytes_ask && self.idle.swap(false, Ordering::Relaxed) {
            self.deadline.send_replace(Instant::now() + self.patience);
        }
    }

    /// A head is complete: there is time for a body, and for an answer to be made of it.
    pub(crate) fn asked(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.deadline.send_replace(Instant::now() + 2 * self.patience);
    }

    /// An answer is on its way, or its client has given it up. Whether it was the last one.
    pub(crate) fn answered(&self) -> bool {
        let is_last = self.open.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last {
            self.idle.store(true, Ordering::Relaxed);
            self.deadline.send_replace(Instant::now() + IDLE);
        }
        is_last
    }

    /// The connection is about to end: what is being answered still has its time, and silence has no longer one.
    pub(crate) fn ends(&self) {
        let end = Instant::now() + 2 * self.patience;
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

/// A stream that tells its clock when something has come.
#[derive(Debug)]
pub(crate) struct Paced<S> {
    stream: S,
    pace: Arc<Pace>,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S, pace: Arc<Pace>) -> Self {
        Self { stream, pace }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.pace.arrived();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
