//! Paths and their answers.

use super::size_class::{Share, SizeClasses};
use super::tls::ServerIdentity;
use super::{body, cluster::ClusterState, connections::InFlightRequest, metrics::ServeMetrics};
use crate::authority::{CallerCount, Callers};
use cluster::status::{Reply, TEXT, refuse_method, reply};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, StatusCode, body::Incoming, http::request::Parts};
use injection::review::{self, Answer, Cancellation, ReviewOutcome, ReviewReport, WebhookCall};
use injection::{Configuration, tag};
use parking_lot::RwLock;
use percent_encoding::percent_decode_str;
use prometheus_client::metrics::counter::Counter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use std::{sync::Arc, sync::atomic::AtomicBool, sync::atomic::Ordering::Relaxed};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout_at;

/// Default time that an API server waits for an answer: the default of `timeoutSeconds`.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct WebhookServer {
    /// Read once per request, so that each answer is based on one configuration.
    pub(super) configuration: RwLock<Arc<Configuration>>,
    pub(super) cluster: Arc<ClusterState>,
    /// Keys of labels: the first one on a pod sets its environment. Empty if `/environment-tag` is not served.
    pub(super) environment_labels: Vec<String>,
    pub(super) identity: Arc<ServerIdentity>,
    pub(super) metrics: Arc<ServeMetrics>,
    /// True during shutdown: the process should receive no more requests.
    pub(super) draining: AtomicBool,
    pub(super) classes: Arc<SizeClasses>,
    /// Time limit for a client to send a body.
    pub(super) timeout: Duration,
    /// Why pods can't be injected, if known before the first review.
    pub(super) template_problems: RwLock<Option<String>>,
    /// Expected callers; `None` without a watch.
    pub(super) callers: Option<Arc<Callers>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReviewPurpose {
    Injection,
    Environment,
}

impl WebhookServer {
    pub(super) fn configure(&self, configuration: Configuration) {
        *self.configuration.write() = Arc::new(configuration);
        *self.template_problems.write() = None;
    }

    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        in_flight: InFlightRequest,
    ) -> Reply {
        let path = request.uri().path();
        let purpose = match path {
            "/environment-tag" if !self.environment_labels.is_empty() => Some(ReviewPurpose::Environment),
            _ => (path == "/inject" || path.starts_with("/inject/")).then_some(ReviewPurpose::Injection),
        };
        let mut response = match purpose {
            Some(purpose) => self.review(purpose, request, in_flight).await,
            None => {
                let refused = refuse_method(request.method()).filter(|_| path == "/metrics");
                refused.unwrap_or_else(|| self.page(path, request.uri().query()))
            }
        };
        if self.draining.load(Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Answers a read-only request that is not a review.
    pub(super) fn page(&self, path: &str, query: Option<&str>) -> Reply {
        let callers = || self.callers.as_ref().map(|callers| callers.all()).unwrap_or_default();
        match path {
            "/metrics" => {
                let is_usable = self.template_problems.read().is_none();
                self.metrics.page(self.identity.expires(), is_usable, callers())
            }
            "/ready" => {
                let checks = self.checks();
                let is_ready = checks.iter().all(|(_, failed)| failed.is_none());
                let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                let mut parameters = query.into_iter().flat_map(|query| query.split('&'));
                let is_verbose = parameters.any(|parameter| parameter.split('=').next() == Some("verbose"));
                let text = if is_verbose { verbose(checks, callers()) } else { brief(checks) };
                reply(status, TEXT, text)
            }
            _ => {
                let text = "not found; paths are /inject, /environment-tag if it is configured, /ready and /metrics\n";
                reply(StatusCode::NOT_FOUND, TEXT, text)
            }
        }
    }

    /// Readiness conditions, each with the reason if it fails.
    fn checks(&self) -> [(&'static str, Option<String>); 3] {
        [
            ("shutdown", self.draining.load(Relaxed).then(|| "draining".to_owned())),
            ("configuration", self.template_problems.read().clone()),
            ("cluster", self.cluster.blocked_by().map(|reason| reason.to_string())),
        ]
    }

    async fn review(
        self: &Arc<Self>,
        subject: ReviewPurpose,
        request: Request<Incoming>,
        mut in_flight: InFlightRequest,
    ) -> Reply {
        let (head, body) = request.into_parts();
        // Shorter than the caller's and the connection's limits, so the caller receives the reason.
        let limit = call_timeout(head.uri.query()).min(2 * self.timeout) * 9 / 10;
        let deadline = Instant::now() + limit;
        let body = body::read(body, &self.classes, self.timeout.min(limit), in_flight.evicted()).await;
        let start = Instant::now();
        let is_read = body.is_ok();
        let answer = match body {
            Err(unreadable) => unreadable,
            Ok((body, share)) => {
                in_flight.complete();
                let reviewed = timeout_at(deadline.into(), self.in_turn(subject, head, body, share)).await;
                reviewed.unwrap_or_else(|_| {
                    Answer::text(503, &format!("the review did not finish within {} s", limit.as_secs_f64()))
                })
            }
        };
        let mut response = self.logged(subject, answer, start);
        // Unread bytes of the body may follow.
        if !is_read {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Reviews a pod in a thread other than the connections'. A review ends soon after its future is dropped: the client has
    /// gone or the time is up.
    async fn in_turn(
        self: &Arc<Self>,
        subject: ReviewPurpose,
        head: Parts,
        body: Vec<u8>,
        share: Share,
    ) -> Answer {
        let turn = share.turn().await;
        let server = Arc::clone(self);
        let work = in_thread(move |cancellation| {
            let _held = (share, turn);
            server.reviewed(subject, &head, &body, cancellation)
        });
        work.await.unwrap_or_else(|_| Answer::text(503, "the server is shutting down; try again"))
    }

    fn reviewed(
        &self,
        subject: ReviewPurpose,
        head: &Parts,
        body: &[u8],
        cancellation: Cancellation,
    ) -> Answer {
        let Ok(path) = percent_decode_str(head.uri.path()).decode_utf8() else {
            return Answer::text(400, "the path is not text; expected UTF-8 in its %-escapes");
        };
        let call = WebhookCall {
            method: head.method.as_str(),
            path: &path,
            content_type: head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()),
            body,
            cancellation,
        };
        let configuration = Arc::clone(&self.configuration.read());
        guarded(&self.metrics.panics, || match subject {
            ReviewPurpose::Injection => review::answer(&call, &configuration, &*self.cluster),
            ReviewPurpose::Environment => tag::answer(&call, &self.environment_labels),
        })
    }

    fn logged(&self, subject: ReviewPurpose, answer: Answer, start: Instant) -> Reply {
        let took = start.elapsed();
        let ReviewReport { outcome, reason, object, uid, warnings } = answer.report;
        match subject {
            ReviewPurpose::Injection => self.metrics.reviewed(outcome, took),
            ReviewPurpose::Environment => self.metrics.tagged(outcome),
        }
        let (status, seconds, warnings) = (answer.status, took.as_secs_f64(), warnings.join("; "));
        let is_failure = matches!(outcome, ReviewOutcome::Refused | ReviewOutcome::Malformed);
        let outcome = match outcome {
            ReviewOutcome::Injected if subject == ReviewPurpose::Environment => "tagged",
            ReviewOutcome::Injected => "injected",
            ReviewOutcome::Skipped => "skipped",
            ReviewOutcome::Refused => "refused",
            ReviewOutcome::Malformed => "malformed",
        };
        if !is_failure {
            tracing::info!(outcome, object, uid, reason, warnings, seconds, "review");
        } else {
            tracing::warn!(outcome, object, uid, reason, status, seconds, "review");
        }
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        reply(status, answer.content_type, answer.body)
    }
}

async fn in_thread<T: Send + 'static>(
    work: impl FnOnce(Cancellation) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let cancelled = CancelledOnDrop(Cancellation::default());
    let cancellation = cancelled.0.clone();
    spawn_blocking(move || work(cancellation)).await
}

struct CancelledOnDrop(Cancellation);

impl Drop for CancelledOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The caller's timeout; the API server sends it as `?timeout=10s`.
fn call_timeout(query: Option<&str>) -> Duration {
    let given = query.unwrap_or_default().split('&').find_map(|part| part.strip_prefix("timeout="));
    let seconds = given.and_then(|text| text.strip_suffix('s')?.parse().ok());
    let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    timeout.unwrap_or(CALL_TIMEOUT)
}

fn brief(checks: [(&str, Option<String>); 3]) -> String {
    let failed: Vec<String> = checks.into_iter().filter_map(|(_, failed)| failed).collect();
    if failed.is_empty() { "ready\n".to_owned() } else { format!("{}\n", failed.join("\n")) }
}

/// One line per check, as in Kubernetes' servers, and per expected webhook, which does not affect readiness.
fn verbose(checks: [(&str, Option<String>); 3], callers: Vec<(String, CallerCount)>) -> String {
    let of_checks = checks.into_iter().map(|(name, failed)| match failed {
        None => format!("[+]{name} ok\n"),
        Some(why) => format!("[-]{name} failed: {why}\n"),
    });
    let of_callers = callers.into_iter().map(|(name, caller)| match caller {
        Ok(webhooks) => format!("[+]webhooks/{name} ok: {webhooks} call\n"),
        Err(fault) => format!("[-]webhooks/{name} not ok: {fault}\n"),
    });
    of_checks.chain(of_callers).collect()
}

/// Limits the effect of a defect to the call that triggers it.
fn guarded(panics: &Counter, answer: impl FnOnce() -> Answer) -> Answer {
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
        panics.inc();
        Answer::text(500, "internal error in the injector; see its log")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_of_the_caller_is_parsed() {
        for (query, expected) in
            [(Some("timeout=30s"), 30), (Some("a=b&timeout=2s"), 2), (Some("timeout=-1s"), 10), (None, 10)]
        {
            assert_eq!(call_timeout(query), Duration::from_secs(expected), "{query:?}");
        }
    }

    #[test]
    fn a_panic_affects_one_answer() {
        let panics = Counter::default();
        assert_eq!(guarded(&panics, || panic!("a defect of a test")).status, 500);
        assert_eq!((guarded(&panics, || Answer::text(200, "well")).status, panics.get()), (200, 1));
    }

    #[tokio::test]
    async fn a_review_without_a_waiting_client_is_cancelled() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let work = in_thread(move |cancellation| {
            sender.send(cancellation.clone()).expect("the test waits");
            while !cancellation.is_cancelled() {
                std::thread::yield_now();
            }
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), work).await.is_err());
        assert!(receiver.recv().expect("it has begun").is_cancelled());
    }
}
