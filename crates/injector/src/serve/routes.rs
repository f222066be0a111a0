//! Paths and their answers.

use super::body::{self, Budget};
use super::cluster::ClusterState;
use super::metrics::ServeMetrics;
use super::tls::ServerIdentity;
use crate::authority::Callers;
use cluster::status::{Reply, TEXT, refuse_method, reply};
use hyper::{
    Request, StatusCode,
    body::Incoming,
    header::{CONNECTION, CONTENT_TYPE, HeaderValue},
    http::request::Parts,
};
use injection::Configuration;
use injection::environment::tag;
use injection::review::{self, Answer, ReviewOutcome, ReviewReport, WebhookCall};
use prometheus_client::metrics::counter::Counter;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::task::spawn_blocking;

/// The length of a body from which on a review is worked on alone, by a thread that ends soon: a pod takes a hundred times
/// as much memory as its text, which is given back with the thread.
const LONG: usize = 512 * 1024;

pub(super) struct WebhookServer {
    /// A request takes it once, so that its answer is made of one configuration.
    pub(super) configuration: RwLock<Arc<Configuration>>,
    pub(super) cluster: Arc<ClusterState>,
    /// Keys of labels: the first one that a pod has holds its environment. Empty where `/environment-tag` is not served.
    pub(super) environment_labels: Vec<String>,
    pub(super) identity: Arc<ServerIdentity>,
    pub(super) metrics: Arc<ServeMetrics>,
    /// Set when the process is about to end: no more requests should be sent.
    pub(super) draining: AtomicBool,
    pub(super) budget: Budget,
    /// How long a client may take for a body.
    pub(super) timeout: Duration,
    /// Locked while a long review is processed.
    pub(super) long_review: Mutex<()>,
    /// Why pods can't be injected by the configuration, as far as that is known before the first review.
    pub(super) template_problems: RwLock<Option<String>>,
    /// The webhooks that should call; none where they are not watched.
    pub(super) callers: Option<Arc<Callers>>,
}

/// What a review asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReviewPurpose {
    Injection,
    Environment,
}

impl WebhookServer {
    pub(super) fn configure(&self, configuration: Configuration) {
        let configuration = Arc::new(configuration);
        *self.configuration.write().unwrap_or_else(PoisonError::into_inner) = configuration;
        *self.template_problems.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn configuration(&self) -> Arc<Configuration> {
        Arc::clone(&self.configuration.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers a request of the API server, or one for a status page.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Reply {
        let mut response = match request.uri().path() {
            "/inject" => self.review(ReviewPurpose::Injection, request).await,
            path if path.starts_with("/inject/") => self.review(ReviewPurpose::Injection, request).await,
            "/environment-tag" if !self.environment_labels.is_empty() => {
                self.review(ReviewPurpose::Environment, request).await
            }
            _ => self.page(&request),
        };
        if self.draining.load(Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Answers a request that changes nothing and asks about no pod.
    pub(super) fn page<B>(&self, request: &Request<B>) -> Reply {
        let path = request.uri().path();
        if !matches!(path, "/ready" | "/metrics") {
            let text = "there are /inject, /environment-tag if it is configured, /ready and /metrics\n";
            return reply(StatusCode::NOT_FOUND, TEXT, text);
        }
        match path {
            "/metrics" => refuse_method(request.method()).unwrap_or_else(|| {
                let callers = self.callers.as_ref().map(|callers| callers.all()).unwrap_or_default();
                let is_usable =
                    self.template_problems.read().unwrap_or_else(PoisonError::into_inner).is_none();
                self.metrics.page(self.identity.expires(), is_usable, callers)
            }),
            _ => {
                let checks = self.checks();
                let is_ready = checks.iter().all(|check| check.result.is_ok());
                let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                let mut parameters = request.uri().query().into_iter().flat_map(|query| query.split('&'));
                let is_verbose = parameters.any(|parameter| parameter.split('=').next() == Some("verbose"));
                reply(status, TEXT, if is_verbose { self.verbose(&checks) } else { brief(&checks) })
            }
        }
    }

    /// All on which it depends whether requests should be sent.
    fn checks(&self) -> [Check; 3] {
        let is_draining = self.draining.load(Relaxed);
        let template_problems = self.template_problems.read().unwrap_or_else(PoisonError::into_inner).clone();
        let checks = [
            ("shutdown", if is_draining { Err("draining".to_owned()) } else { Ok(()) }),
            ("configuration", template_problems.map_or(Ok(()), Err)),
            ("cluster", self.cluster.blocked_by().map_or(Ok(()), |reason| Err(reason.to_owned()))),
        ];
        checks.map(|(name, result)| Check { name, result })
    }

    /// One line a check, in the form of Kubernetes' own servers; and the webhooks that should call, which readiness does
    /// not depend on.
    fn verbose(&self, checks: &[Check]) -> String {
        let of_checks = checks.iter().map(|Check { name, result }| match result {
            Ok(()) => format!("[+]{name} ok\n"),
            Err(why) => format!("[-]{name} failed: {why}\n"),
        });
        let callers = self.callers.as_ref().map(|callers| callers.all()).unwrap_or_default();
        let of_callers = callers.into_iter().map(|(name, caller)| match caller.fault {
            None => format!("[+]webhooks/{name} ok: {} call\n", caller.webhooks),
            Some(fault) => format!("[-]webhooks/{name} not ok: {fault}\n"),
        });
        of_checks.chain(of_callers).collect()
    }

    async fn review(self: &Arc<Self>, subject: ReviewPurpose, request: Request<Incoming>) -> Reply {
        let (head, body) = request.into_parts();
        let body = body::read(body, &self.budget, self.timeout).await;
        let start = Instant::now();
        let read = body.is_ok();
        let answer = match body {
            Err(unreadable) => unreadable.answer(),
            Ok(body) if body.bytes().len() < LONG => self.reviewed(subject, &head, body.bytes()),
            Ok(body) => {
                let server = Arc::clone(self);
                let work = spawn_blocking(move || {
                    let _long_review = server.long_review.lock().unwrap_or_else(PoisonError::into_inner);
                    server.reviewed(subject, &head, body.bytes())
                });
                work.await.unwrap_or_else(|_| Answer::text(503, "the server is shutting down; try again"))
            }
        };
        let mut response = self.logged(subject, answer, start);
        // Further bytes may be the rest of the body.
        if !read {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn reviewed(&self, subject: ReviewPurpose, head: &Parts, body: &[u8]) -> Answer {
        let Some(path) = decoded(head.uri.path()) else {
            return Answer::text(400, "the path is not a string; expected UTF-8 in its %-escapes");
        };
        let call = WebhookCall {
            method: head.method.as_str(),
            path: &path,
            content_type: head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()),
            body,
        };
        let configuration = self.configuration();
        guarded(&self.metrics.panics, || match subject {
            ReviewPurpose::Injection => review::answer(&call, &configuration, &*self.cluster),
            ReviewPurpose::Environment => tag::answer(&call, &self.environment_labels),
        })
    }

    /// Counts and logs an answer on its way out.
    fn logged(&self, subject: ReviewPurpose, answer: Answer, start: Instant) -> Reply {
        let took = start.elapsed();
        let ReviewReport { outcome, reason, object, uid, warnings } = answer.report;
        match subject {
            ReviewPurpose::Injection => self.metrics.reviewed(outcome, took),
            ReviewPurpose::Environment => self.metrics.tagged(outcome),
        }
        let (status, seconds, warnings) = (answer.status, took.as_secs_f64(), warnings.join("; "));
        let outcome = match (outcome, subject) {
            (ReviewOutcome::Injected, ReviewPurpose::Injection) => "injected",
            (ReviewOutcome::Injected, ReviewPurpose::Environment) => "tagged",
            (ReviewOutcome::Skipped, _) => "skipped",
            (ReviewOutcome::Refused, _) => "refused",
            (ReviewOutcome::Malformed, _) => "malformed",
        };
        if matches!(answer.report.outcome, ReviewOutcome::Injected | ReviewOutcome::Skipped) {
            tracing::info!(outcome, object, uid, reason, warnings, seconds, "review");
        } else {
            tracing::warn!(outcome, object, uid, reason, status, seconds, "review");
        }
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        reply(status, answer.content_type, answer.body)
    }
}

struct Check {
    name: &'static str,
    result: Result<(), String>,
}

fn brief(checks: &[Check]) -> String {
    let failed: Vec<&str> =
        checks.iter().filter_map(|check| check.result.as_ref().err()).map(String::as_str).collect();
    if failed.is_empty() { "ready\n".to_owned() } else { format!("{}\n", failed.join("\n")) }
}

/// A defect must cost the call that shows it, and no other.
pub(super) fn guarded(panics: &Counter, answer: impl FnOnce() -> Answer) -> Answer {
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
        panics.inc();
        Answer::text(500, "the call met a defect of the injector; its log says which")
    })
}

/// A path without its `%`-escapes (RFC 3986, 2.1); `None` where one is none, or they are no UTF-8.
fn decoded(path: &str) -> Option<String> {
    let mut parts = path.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_a_path() {
        for (path, expected) in [
            ("/inject/net/a", Some("/inject/net/a")),
            ("/inject/net/a%20b%2fc%C3%A9", Some("/inject/net/a b/cé")),
            ("/inject/%", None),
            ("/inject/%4", None),
            ("/inject/%+4", None),
            ("/inject/%ff", None),
        ] {
            assert_eq!(decoded(path).as_deref(), expected, "{path}");
        }
    }
}
