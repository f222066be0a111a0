//! Connections: a limited number at once, over TLS, by HTTP/1.1 or HTTP/2. Each has time limits, and a shutdown lets requests
//! in flight be answered.

use super::io_timeout::IoTimeout;
use super::routes::WebhookServer;
use super::tls::HTTP_2;
use cluster::slots::{Slot, Slots};
use hyper::{Request, Version, body::Incoming, header::CONNECTION, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::{convert::Infallible, io, pin::pin, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::JoinSet,
    time,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::io::InspectReader;

/// Maximum head of a request, in bytes. The API server's have a few hundred.
const MAX_HEAD: u16 = 16 * 1024;
/// Simultaneous requests of one HTTP/2 connection; a client delays further ones, or opens another connection. Go's servers
/// have the same limit.
const MAX_STREAMS: u32 = 250;

/// Serves until `stop` is true, and then until every request in progress is answered, or its time is up.
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
    // The kernel then refuses new connections, which would otherwise wait in vain.
    drop(listener);
    while open.join_next().await.is_some() {}
}

struct AcceptedConnection {
    server: Arc<WebhookServer>,
    stop: watch::Receiver<bool>,
    slot: Arc<Slot>,
}

/// Request that is being read or answered. It is dropped once its answer is made, or when its client cancels it.
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
            agreed = time::timeout(self.server.timeout, tls.accept(stream)) => {
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
                // HTTP/2 replaces this header of HTTP/1.1 by a frame (GOAWAY).
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
            // The connection answers received requests, and accepts no more; HTTP/2 announces that by GOAWAY.
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
