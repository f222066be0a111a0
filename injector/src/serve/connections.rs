//! Connections: so many at once, each over TLS or plain, each with its time, and an end that cuts no answer.

use super::metrics::Metrics;
use super::pace::{Pace, Paced};
use cluster::slots::{Slot, Slots};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, io, sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

/// The longest head of a request. Those of the API server have a few hundred bytes.
const MOST_HEAD: usize = 16 * 1024;
/// How long to wait where no connection can be accepted, most likely for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Where connections come from, and what they may do.
pub(super) struct Door {
    pub(super) listener: TcpListener,
    /// `None` for plain HTTP.
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) metrics: Arc<Metrics>,
    /// How long a client may take for a handshake, for a head, and for a body.
    pub(super) patience: Duration,
    /// How many connections may be open; for further ones, idle ones are closed.
    pub(super) most: usize,
}

impl Door {
    /// Serves until `stop` says so, and then until every request that has been begun is answered, or its time is up.
    pub(super) async fn serve<F, A>(self, answer: F, mut stop: watch::Receiver<bool>)
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<Full<Bytes>>> + Send,
    {
        let slots = Slots::new(self.most);
        let mut open = JoinSet::new();
        while let Some((stream, slot)) = self.next(&slots, &mut stop).await {
            while open.try_join_next().is_some() {}
            let connection = Connection {
                tls: self.tls.clone(),
                metrics: Arc::clone(&self.metrics),
                patience: self.patience,
                stop: stop.clone(),
                slot,
            };
            let answer = answer.clone();
            open.spawn(async move { connection.run(stream, answer).await });
        }
        // Whoever comes now is refused by the kernel, instead of waiting for nobody.
        drop(self.listener);
        while open.join_next().await.is_some() {}
    }

    /// The next connection; `None` when it is time to stop.
    async fn next(&self, slots: &Arc<Slots>, stop: &mut watch::Receiver<bool>) -> Option<(TcpStream, Slot)> {
        let accepted = async {
            loop {
                match self.listener.accept().await {
                    Ok((stream, _)) => return (stream, slots.take().await),
                    Err(error) => {
                        tracing::warn!(%error, "no connection can be accepted");
                        slots.close_idle();
                        sleep(PAUSE).await;
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

/// One of them.
struct Connection {
    tls: Option<TlsAcceptor>,
    metrics: Arc<Metrics>,
    patience: Duration,
    stop: watch::Receiver<bool>,
    slot: Slot,
}

impl Connection {
    async fn run<F, A>(self, stream: TcpStream, answer: F)
    where
        F: Fn(Request<Incoming>) -> A,
        A: Future<Output = Response<Full<Bytes>>>,
    {
        self.metrics.connections.fetch_add(1, Relaxed);
        let metrics = Arc::clone(&self.metrics);
        self.speak(stream, answer).await;
        metrics.connections.fetch_sub(1, Relaxed);
    }

    async fn speak<F, A>(self, stream: TcpStream, answer: F)
    where
        F: Fn(Request<Incoming>) -> A,
        A: Future<Output = Response<Full<Bytes>>>,
    {
        // Answers are written at once; without it each would wait for the last one's acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection ended before it began");
            return;
        }
        match &self.tls {
            None => self.requests(stream, answer).await,
            Some(tls) => {
                let agreed = tokio::select! {
                    agreed = timeout(self.patience, tls.accept(stream)) => agreed,
                    () = self.slot.wanted() => Ok(Err(io::ErrorKind::ConnectionAborted.into())),
                };
                match agreed {
                    Ok(Ok(stream)) => self.requests(stream, answer).await,
                    Ok(Err(error)) => self.no_handshake(&error),
                    Err(_) => self.no_handshake(&io::ErrorKind::TimedOut.into()),
                }
            }
        }
    }

    fn no_handshake(&self, error: &io::Error) {
        self.metrics.handshakes_failed.fetch_add(1, Relaxed);
        tracing::debug!(%error, "no TLS was agreed on");
    }

    async fn requests<S, F, A>(&self, stream: S, answer: F)
    where
        S: AsyncRead + AsyncWrite + Unpin,
        F: Fn(Request<Incoming>) -> A,
        A: Future<Output = Response<Full<Bytes>>>,
    {
        let pace = Arc::new(Pace::new(self.patience));
        let service = service_fn(|request| {
            pace.asked();
            self.slot.asked();
            let answer = answer(request);
            async {
                let answer = answer.await;
                pace.answered();
                self.slot.answered();
                Ok::<_, Infallible>(answer)
            }
        });
        let stream = TokioIo::new(Paced::new(stream, Arc::clone(&pace)));
        // Times are the pace's: hyper's own would end idle connections as early as slow ones.
        let mut http = http1::Builder::new();
        http.header_read_timeout(None).max_header_size(MOST_HEAD);
        let mut connection = std::pin::pin!(http.serve_connection(stream, service));
        let mut stop = self.stop.clone();
        let ending = async {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => true,
                // An answer may be on its way still.
                () = self.slot.wanted() => !self.slot.is_silent(),
            }
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = pace.run_out() => return,
            has_time = ending => {
                if !has_time {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = pace.run_out() => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended before its end");
        }
    }
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
    async fn answer(metrics: &Metrics, request: Request<Incoming>) -> Response<Full<Bytes>> {
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
        let metrics = Arc::new(Metrics::default());
        let (mut client, server) = duplex(4096);
        let (_stop, stopped) = watch::channel(false);
        let told = Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(async {
            let connection = Connection {
                tls: None,
                metrics: Arc::clone(&metrics),
                patience: Duration::from_secs(60),
                stop: stopped,
                slot: Slots::new(1).take().await,
            };
            let served = connection.requests(server, |request| answer(&metrics, request));
            let asked = async {
                let requests =
                    ["/broken", "/"].map(|path| format!("GET {path} HTTP/1.1\r\nHost: webhook\r\n"));
                let requests = format!("{}\r\n{}Connection: close\r\n\r\n", requests[0], requests[1]);
                client.write_all(requests.as_bytes()).await.expect("sent");
                let mut told = String::new();
                client.read_to_string(&mut told).await.expect("answers");
                told
            };
            tokio::join!(served, asked).1
        });
        let statuses: Vec<&str> =
            told.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)).collect();
        assert_eq!(statuses, ["500", "200"], "{told}");
        assert!(told.contains("the call met a defect of the injector") && told.ends_with("well\n"), "{told}");
        assert_eq!(metrics.panics.load(Relaxed), 1);
    }
}
