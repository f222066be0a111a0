//! Connections: a limited number at once, over TLS, with HTTP/1.1 or HTTP/2. Each has time limits, and a shutdown still
//! answers requests in flight.

use super::{routes::WebhookServer, tls::HTTP_2};
use cluster::slots::{Slot, Slots};
use hyper::{Request, Version, body::Incoming, header::CONNECTION, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::io::InspectReader;

/// Maximum request head, in bytes. The API server sends a few hundred.
const MAX_HEAD: u16 = 16 * 1024;
/// Simultaneous requests of one HTTP/2 connection; a client delays further ones, or opens another connection. Go's servers
/// have the same limit.
const MAX_STREAMS: u32 = 250;

/// Serves until `stop` is true, then finishes requests in progress within their time limits.
pub(super) async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    max_connections: usize,
    server: Arc<WebhookServer>,
    stop: watch::Receiver<bool>,
) {
    let slots = Slots::new(max_connections);
    let (mut open, mut stopped) = (JoinSet::new(), stop.clone());
    loop {
        let (stream, slot) = tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => break,
            accepted = slots.accept(&listener) => accepted,
        };
        while open.try_join_next().is_some() {}
        let (server, stop, tls) = (Arc::clone(&server), stop.clone(), tls.clone());
        let connection = AcceptedConnection { server, stop, slot: Arc::new(slot) };
        open.spawn(async move {
            connection.server.metrics.connections.inc();
            connection.negotiate(tls, stream).await;
            connection.server.metrics.connections.dec();
        });
    }
    // The kernel then refuses new connections, which would otherwise hang.
    drop(listener);
    while open.join_next().await.is_some() {}
}

struct AcceptedConnection {
    server: Arc<WebhookServer>,
    stop: watch::Receiver<bool>,
    slot: Arc<Slot>,
}

/// Request that is being read or answered. Dropped once its answer is made, or when its client cancels it.
pub(super) struct InFlightRequest {
    timer: Arc<IoTimeout>,
    slot: Arc<Slot>,
    is_complete: bool,
}

impl InFlightRequest {
    fn new(timer: &Arc<IoTimeout>, slot: &Arc<Slot>) -> Self {
        timer.begin_request();
        slot.begin_request();
        Self { timer: Arc::clone(timer), slot: Arc::clone(slot), is_complete: false }
    }

    /// The body is complete, so the connection is no longer evicted.
    pub(super) fn complete(&mut self) {
        self.is_complete = true;
        self.slot.complete_request();
    }

    pub(super) async fn evicted(&self) {
        self.slot.evicted().await;
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.timer.end_request();
        self.slot.end_request(self.is_complete);
    }
}

impl AcceptedConnection {
    async fn negotiate(&self, tls: TlsAcceptor, stream: TcpStream) {
        // Without TCP_NODELAY, an answer may wait until the client has acknowledged the previous one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection ended before its first request");
            return;
        }
        let agreed = tokio::select! {
            agreed = timeout(self.server.timeout, tls.accept(stream)) => {
                agreed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
            () = self.slot.evicted() => Err(io::ErrorKind::ConnectionAborted.into()),
        };
        match agreed {
            Ok(stream) => self.requests(stream).await,
            Err(error) => {
                self.server.metrics.handshakes_failed.inc();
                tracing::debug!(%error, "TLS handshake failed");
            }
        }
    }

    async fn requests(&self, stream: TlsStream<TcpStream>) {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
        let timer = Arc::new(IoTimeout::new(self.server.timeout, !is_http2));
        let last_answer = Arc::new(Notify::new());
        let service = service_fn(|request: Request<Incoming>| {
            let (is_http2, last_answer) = (request.version() == Version::HTTP_2, Arc::clone(&last_answer));
            let in_flight = InFlightRequest::new(&timer, &self.slot);
            let answer = Arc::clone(&self.server).answer(request, in_flight);
            async move {
                let mut answer = answer.await;
                // HTTP/2 replaces this HTTP/1.1 header with a frame (GOAWAY).
                if is_http2 && answer.headers_mut().remove(CONNECTION).is_some() {
                    last_answer.notify_one();
                }
                Ok::<_, Infallible>(answer)
            }
        });
        let reading = Arc::clone(&timer);
        let stream = InspectReader::new(stream, move |bytes| {
            if !bytes.is_empty() {
                reading.bytes_received();
            }
        });
        let mut http = auto::Builder::new(TokioExecutor::new());
        // `IoTimeout` sets the time limits: hyper's own would end idle connections as early as slow ones.
        http.http1().header_read_timeout(None).max_buf_size(MAX_HEAD.into());
        http.http2().max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEAD.into());
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        let mut stop = self.stop.clone();
        let mut ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = timer.expired() => None,
            _ = stop.wait_for(|stop| *stop) => None,
            () = last_answer.notified() => None,
            // A connection that has made a request may still be receiving its answer.
            () = self.slot.evicted() => if self.slot.is_silent() { return } else { None },
        };
        if ended.is_none() {
            // The connection answers received requests, and accepts no more; HTTP/2 announces that with GOAWAY.
            connection.as_mut().graceful_shutdown();
            timer.shut_down();
            ended = tokio::select! {
                ended = connection => Some(ended),
                () = timer.expired() => None,
            };
        }
        if let Some(Err(error)) = ended {
            tracing::debug!(error, "a connection was aborted");
        }
    }
}

/// Longer than Go's client keeps an unused connection (90 s), so that the client closes it: no request is sent into a
/// closing connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Time for a client to agree on closing a connection without requests (HTTP/2 GOAWAY).
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Deadline of a connection: for a request's beginning, the end of its head, and its body and answer.
///
/// Idle connections are kept long, because the API server reuses them. Once a request has begun, the limit is short: a client
/// that sends a head byte by byte holds a connection no longer than one that sends none. HTTP/2 also sends bytes between requests
/// (PING), so its requests begin with their complete head.
#[derive(Debug)]
struct IoTimeout {
    timeout: Duration,
    deadline: watch::Sender<Instant>,
    /// True if no bytes have come since the last answer.
    idle: AtomicBool,
    in_flight: AtomicUsize,
    bytes_begin_request: bool,
    is_shutting_down: AtomicBool,
}

impl IoTimeout {
    fn new(timeout: Duration, bytes_begin_request: bool) -> Self {
        Self {
            timeout,
            deadline: watch::Sender::new(Instant::now() + timeout),
            idle: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            bytes_begin_request,
            is_shutting_down: AtomicBool::new(false),
        }
    }

    fn bytes_received(&self) {
        if self.bytes_begin_request && self.idle.swap(false, Ordering::Relaxed) {
            self.deadline.send_replace(Instant::now() + self.timeout);
        }
    }

    /// Called after a complete head: allows time for the body and the answer.
    fn begin_request(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.deadline.send_replace(Instant::now() + 2 * self.timeout);
    }

    /// Called when an answer is ready, or the client has cancelled.
    fn end_request(&self) {
        if self.in_flight.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.idle.store(true, Ordering::Relaxed);
            let is_ending = self.is_shutting_down.load(Ordering::Relaxed);
            let timeout = if is_ending { SHUTDOWN_TIMEOUT } else { IDLE_TIMEOUT };
            self.deadline.send_replace(Instant::now() + timeout);
        }
    }

    /// Called before the connection closes: requests in flight keep their time limit; an idle or expired connection gets little
    /// time.
    fn shut_down(&self) {
        self.is_shutting_down.store(true, Ordering::Relaxed);
        let is_idle = self.in_flight.load(Ordering::Relaxed) == 0 && self.idle.load(Ordering::Relaxed);
        let (now, most) = (Instant::now(), if is_idle { SHUTDOWN_TIMEOUT } else { 2 * self.timeout });
        self.deadline
            .send_modify(|deadline| *deadline = (*deadline).max(now + SHUTDOWN_TIMEOUT).min(now + most));
    }

    async fn expired(&self) {
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
