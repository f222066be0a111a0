//! Paths, and who answers them.

use super::body::{self, Budget};
use super::cluster::Cluster;
use super::metrics::Metrics;
use super::tls::Identity;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue},
};
use injection::Configuration;
use injection::environment::tag;
use injection::review::{self, Answer, Call, Outcome, Told};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// All that answers are made of.
pub(super) struct Server {
    /// A request takes it once, so that its answer is made of one configuration.
    pub(super) configuration: RwLock<Arc<Configuration>>,
    pub(super) cluster: Arc<Cluster>,
    /// Of which the first that a pod has names its environment; none where environments are not served.
    pub(super) environment_labels: Vec<String>,
    pub(super) identity: Arc<Identity>,
    pub(super) metrics: Arc<Metrics>,
    /// Set when the end has come: nobody should send more requests.
    pub(super) leaving: AtomicBool,
    pub(super) budget: Budget,
    /// How long a client may take for a body.
    pub(super) patience: Duration,
}

/// What a review asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Injection,
    Environment,
}

impl Server {
    pub(super) fn configure(&self, configuration: Configuration) {
        let configuration = Arc::new(configuration);
        *self.configuration.write().unwrap_or_else(PoisonError::into_inner) = configuration;
    }

    fn configuration(&self) -> Arc<Configuration> {
        Arc::clone(&self.configuration.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers a request of the API server, or of whoever asks how things are.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let mut response = match request.uri().path() {
            "/inject" => self.review(Subject::Injection, request).await,
            path if path.starts_with("/inject/") => self.review(Subject::Injection, request).await,
            "/environment-tag" if !self.environment_labels.is_empty() => {
                self.review(Subject::Environment, request).await
            }
            _ => self.tell(&request),
        };
        if self.leaving.load(Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Answers a request that changes nothing and asks about no pod.
    pub(super) fn tell<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !matches!(path, "/ready" | "/metrics") {
            let text = "there are /inject, /environment-tag if it is configured, /ready and /metrics\n";
            return plain(StatusCode::NOT_FOUND, TEXT, text.to_owned());
        }
        if path == "/metrics" && !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, TEXT, format!("{path} is for GET\n"));
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match path {
            "/metrics" => {
                let text = self.metrics.text(self.identity.expires(), &self.cluster.states());
                plain(StatusCode::OK, METRICS, text)
            }
            _ if self.leaving.load(Relaxed) => plain(StatusCode::SERVICE_UNAVAILABLE, TEXT, "leaving\n"),
            _ if !self.cluster.is_settled() => {
                let text = "waiting for the first list of namespaces and nodes\n";
                plain(StatusCode::SERVICE_UNAVAILABLE, TEXT, text)
            }
            _ => plain(StatusCode::OK, TEXT, "ready\n"),
        }
    }

    async fn review(&self, subject: Subject, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body::read(body, &self.budget, self.patience).await;
        let start = Instant::now();
        let read = body.is_ok();
        let answer = match &body {
            Err(unreadable) => unreadable.answer(),
            Ok(body) => match decoded(head.uri.path()) {
                None => Answer::text(400, "the path is no text; expected UTF-8 in its %-escapes"),
                Some(path) => {
                    let call = Call {
                        method: head.method.as_str(),
                        path: &path,
                        content_type: head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()),
                        body: body.bytes(),
                    };
                    let configuration = self.configuration();
                    guarded(&self.metrics.panics, || match subject {
                        Subject::Injection => review::answer(&call, &configuration, &*self.cluster),
                        Subject::Environment => tag::answer(&call, &self.environment_labels),
                    })
                }
            },
        };
        let mut response = self.told(subject, answer, start);
        // What else comes may be the rest of the body.
        if !read {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Counts and logs an answer on its way out.
    fn told(&self, subject: Subject, answer: Answer, start: Instant) -> Response<Full<Bytes>> {
        let took = start.elapsed();
        let Told { outcome, reason, object, uid, warnings } = answer.told;
        let reviews = match subject {
            Subject::Injection => &self.metrics.injection,
            Subject::Environment => &self.metrics.environment,
        };
        reviews.count(outcome, took);
        let (status, seconds, warnings) = (answer.status, took.as_secs_f64(), warnings.join("; "));
        let outcome = match (outcome, subject) {
            (Outcome::Injected, Subject::Injection) => "injected",
            (Outcome::Injected, Subject::Environment) => "tagged",
            (Outcome::Skipped, _) => "skipped",
            (Outcome::Refused, _) => "refused",
            (Outcome::Malformed, _) => "malformed",
        };
        if matches!(answer.told.outcome, Outcome::Injected | Outcome::Skipped) {
            tracing::info!(outcome, object, uid, reason, warnings, seconds, "review");
        } else {
            tracing::warn!(outcome, object, uid, reason, status, seconds, "review");
        }
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        plain(status, HeaderValue::from_static(answer.content_type), answer.body)
    }
}

/// A defect must cost the call that shows it, and no other.
pub(super) fn guarded(panics: &AtomicU64, answer: impl FnOnce() -> Answer) -> Answer {
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
        panics.fetch_add(1, Relaxed);
        Answer::text(500, "the call met a defect of the injector; its log says which")
    })
}

fn plain(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
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
