//! How long a client may take: to begin a request, and to end its head.
//!
//! A connection on which nothing happens is kept for long, because the API server keeps its own. Once a request has begun,
//! patience is short: who sends a head byte by byte holds a connection as long as one who sends none.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
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
}

impl Pace {
    /// A connection has just been opened, for a request that should come soon.
    pub(crate) fn new(patience: Duration) -> Self {
        let deadline = watch::Sender::new(Instant::now() + patience);
        Self { patience, deadline, idle: AtomicBool::new(false) }
    }

    fn arrived(&self) {
        if self.idle.swap(false, Ordering::Relaxed) {
            self.deadline.send_replace(Instant::now() + self.patience);
        }
    }

    /// A head is complete: there is time for a body, and for an answer to be made of it.
    pub(crate) fn asked(&self) {
        self.deadline.send_replace(Instant::now() + 2 * self.patience);
    }

    /// The answer is on its way.
    pub(crate) fn answered(&self) {
        self.idle.store(true, Ordering::Relaxed);
        self.deadline.send_replace(Instant::now() + IDLE);
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
