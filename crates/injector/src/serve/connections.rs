//! Serves connections: a limited number at once, over TLS or plain, by HTTP/1.1 or HTTP/2. Each has time limits, and a
//! shutdown lets requests in flight be answered.

use super::io_timeout::{IoTimeout, SHUTDOWN_TIMEOUT};
use super::metrics::ServeMetrics;
use super::tls::HTTP_2;
use cluster::slots::{Slot, Slots};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::CONNECTION,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{convert::Infallible, io, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::JoinSet,
    time::{self, sleep},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::io::InspectReader;

/// The longest head of a request, in bytes. Those of the API server have a few hundred.
const MAX_HEAD: u16 = 16 * 1024;
/// Requests of one connection of HTTP/2 that are answered at once; a client has the others wait, or opens another
/// connection. Go's servers have the same.
const MAX_STREAMS: u32 = 250;
/// The wait where no connection can be accepted, most likely for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

pub(super) struct Acceptor {
    pub(super) listener: TcpListener,
    /// `None` for plain HTTP.
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) metrics: Arc<ServeMetrics>,
    /// The longest time for a handshake, for a head, and for a body.
    pub(super) timeout: Duration,
    /// The most open connections; for further ones, those with incomplete requests are closed, then idle ones.
    pub(super) max_connections: usize,
}

impl Acceptor {
    /// Serves until `stop` says so, and then until every request that has been begun is answered, or its time is up.
    pub(super) async fn serve<F, A>(self, answer: F, mut stop: watch::Receiver<bool>)
    where
        F: Fn(Request<Incoming>, InFlightRequest) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let slots = Slots::new(self.max_connections);
        let mut open = JoinSet::new();
        while let Some((stream, slot)) = self.next(&slots, &mut stop).await {
            while open.try_join_next().is_some() {}
            let connection = AcceptedConnection {
                tls: self.tls.clone(),
                metrics: Arc::clone(&self.metrics),
                timeout: self.timeout,
                stop: stop.clone(),
                slot: Arc::new(slot),
            };
            let answer = answer.clone();
            open.spawn(async move { connection.run(stream, answer).await });
        }
        // A client that connects now is refused by the kernel, instead of waiting in vain.
        drop(self.listener);
        while open.join_next().await.is_some() {}
    }

    /// `None` when it is time to stop.
    async fn next(&self, slots: &Arc<Slots>, stop: &mut watch::Receiver<bool>) -> Option<(TcpStream, Slot)> {
        let accepted = async {
            loop {
                match self.listener.accept().await {
                    Ok((stream, _)) => return (stream, slots.take().await),
                    Err(error) => {
                        tracing::warn!(%error, "no connection can be accepted");
                        slots.evict_one();
                        sleep(ACCEPT_RETRY).await;
                    }
                }
            }
        };
        let stopped = async { stop.wait_for(|stop| *stop).await.is_ok() };
        tokio::select! {
            _ = stopped => None,
            accepted = accepted => Some(accepted),
        }
    }
}

struct AcceptedConnection {
    tls: Option<TlsAcceptor>,
    metrics: Arc<ServeMetrics>,
    timeout: Duration,
    stop: watch::Receiver<bool>,
    slot: Arc<Slot>,
}

/// A request that is being read or answered. It is dropped once its answer is made, or when its client gives it up.
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

    /// Its body has come, so that its connection is not evicted any more.
    pub(super) fn complete(&mut self) {
        self.is_complete = true;
        self.slot.complete_request();
    }

    /// Waits until another connection needs the room of this one.
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
    async fn run<F, A>(self, stream: TcpStream, answer: F)
    where
        F: Fn(Request<Incoming>, InFlightRequest) -> A,
        A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        self.metrics.connections.inc();
        let metrics = Arc::clone(&self.metrics);
        self.negotiate(stream, answer).await;
        metrics.connections.dec();
    }

    async fn negotiate<F, A>(self, stream: TcpStream, answer: F)
    where
        F: Fn(Request<Incoming>, InFlightRequest) -> A,
        A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        // Without TCP_NODELAY, an answer may wait until the client has acknowledged the one before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection ended before it began");
            return;
        }
        match &self.tls {
            None => self.requests(stream, HttpVersion::Http1, answer).await,
            Some(tls) => {
                let agreed = tokio::select! {
                    agreed = time::timeout(self.timeout, tls.accept(stream)) => agreed,
                    () = self.slot.evicted() => Ok(Err(io::ErrorKind::ConnectionAborted.into())),
                };
                match agreed {
                    Ok(Ok(stream)) => {
                        let is_2 = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
                        let version = if is_2 { HttpVersion::Http2 } else { HttpVersion::Http1 };
                        self.requests(stream, version, answer).await;
                    }
                    Ok(Err(error)) => self.handshake_failed(&error),
                    Err(_) => self.handshake_failed(&io::ErrorKind::TimedOut.into()),
                }
            }
        }
    }

    fn handshake_failed(&self, error: &io::Error) {
        self.metrics.handshakes_failed.inc();
        tracing::debug!(%error, "no TLS was agreed on");
    }

    async fn requests<S, F, A>(&self, stream: S, version: HttpVersion, answer: F)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
        F: Fn(Request<Incoming>, InFlightRequest) -> A,
        A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let timer = Arc::new(IoTimeout::new(self.timeout, version == HttpVersion::Http1));
        let last_answer = Arc::new(Notify::new());
        let service = service_fn(|request| {
            let in_flight = InFlightRequest::new(&timer, &self.slot);
            let (answer, last_answer) = (answer(request, in_flight), Arc::clone(&last_answer));
            async move {
                let mut answer = answer.await;
                // What HTTP/1.1 says by a header, HTTP/2 says by a frame (GOAWAY).
                if version == HttpVersion::Http2 && answer.headers_mut().remove(CONNECTION).is_some() {
                    last_answer.notify_one();
                }
                Ok::<_, Infallible>(answer)
            }
        });
        let reading = Arc::clone(&timer);
        let stream = TokioIo::new(InspectReader::new(stream, move |bytes| {
            if !bytes.is_empty() {
                reading.bytes_received();
            }
        }));
        let conditions = EndConditions { version, timer: &timer, last_answer: &last_answer };
        match version {
            HttpVersion::Http1 => {
                // Time limits are those of `IoTimeout`: hyper's own would end idle connections as early as slow ones.
                let mut http = http1::Builder::new();
                http.header_read_timeout(None).max_header_size(MAX_HEAD.into());
                let connection = http.serve_connection(stream, service);
                self.serve(connection, |connection| connection.graceful_shutdown(), conditions).await;
            }
            HttpVersion::Http2 => {
                let mut http = http2::Builder::new(TokioExecutor::new());
                http.max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEAD.into());
                let connection = http.serve_connection(stream, service);
                self.serve(connection, |connection| connection.graceful_shutdown(), conditions).await;
            }
        }
    }

    /// After `shut_down`, a connection answers the requests it has received, and takes no more.
    async fn serve<C>(&self, connection: C, shut_down: impl Fn(Pin<&mut C>), conditions: EndConditions<'_>)
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let EndConditions { version, timer, last_answer } = conditions;
        let mut connection = std::pin::pin!(connection);
        let mut stop = self.stop.clone();
        // True if the connection is to be shut down gracefully.
        let shutdown = async {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => true,
                () = last_answer.notified() => true,
                // A connection that has made a request may still be receiving its answer.
                () = self.slot.evicted() => !self.slot.is_silent(),
            }
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = timer.expired() => {
                // The client may be about to ask, and has to know that it would not be answered.
                if version == HttpVersion::Http2 {
                    shut_down(connection.as_mut());
                    let _ = time::timeout(SHUTDOWN_TIMEOUT, connection).await;
                }
                return;
            }
            is_graceful = shutdown => {
                if !is_graceful {
                    return;
                }
                shut_down(connection.as_mut());
                timer.shut_down();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = timer.expired() => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended before its end");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HttpVersion {
    Http1,
    Http2,
}

/// Ends of a connection, besides those by its client and the server's shutdown.
struct EndConditions<'a> {
    /// Of HTTP/2 alone, a client learns that its connection is about to end (GOAWAY).
    version: HttpVersion,
    timer: &'a IoTimeout,
    /// Notified by an answer that is to be the connection's last one.
    last_answer: &'a Notify,
}

#[cfg(test)]
mod tests {
    use super::super::routes::guarded;
    use super::*;
    use hyper::StatusCode;
    use injection::review::Answer;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        runtime::Builder,
    };

    /// Answers, but for one path whose answer is a defect.
    async fn answer(metrics: Arc<ServeMetrics>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let answer = guarded(&metrics.panics, || match request.uri().path() {
            "/broken" => panic!("a defect of a test"),
            _ => Answer::text(200, "well"),
        });
        let mut response = Response::new(Full::new(answer.body.into()));
        *response.status_mut() = StatusCode::from_u16(answer.status).expect("a status");
        response
    }

    #[test]
    fn a_panic_costs_one_answer_and_not_even_its_connection() {
        let metrics = Arc::new(ServeMetrics::default());
        let (mut client, server) = duplex(4096);
        let (_stop, stopped) = watch::channel(false);
        let answers =
            Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(async {
                let connection = AcceptedConnection {
                    tls: None,
                    metrics: Arc::clone(&metrics),
                    timeout: Duration::from_secs(60),
                    stop: stopped,
                    slot: Arc::new(Slots::new(1).take().await),
                };
                let counted = Arc::clone(&metrics);
                let answer = move |request, _| answer(Arc::clone(&counted), request);
                let served = connection.requests(server, HttpVersion::Http1, answer);
                let reviewed = async {
                    let requests =
                        ["/broken", "/"].map(|path| format!("GET {path} HTTP/1.1\r\nHost: webhook\r\n"));
                    let requests = format!("{}\r\n{}Connection: close\r\n\r\n", requests[0], requests[1]);
                    client.write_all(requests.as_bytes()).await.expect("sent");
                    let mut text = String::new();
                    client.read_to_string(&mut text).await.expect("answers");
                    text
                };
                tokio::join!(served, reviewed).1
            });
        let statuses: Vec<&str> =
            answers.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)).collect();
        assert_eq!(statuses, ["500", "200"], "{answers}");
        assert!(
            answers.contains("the call met a defect of the injector") && answers.ends_with("well\n"),
            "{answers}"
        );
        assert_eq!(metrics.panics.get(), 1);
    }
}
