//! Numbers for Prometheus.
//!
//! Names are Istio's where it has the same number. One means something else here: its `success` counts refusals too.

use super::cluster::State;
use crate::authority::Caller;
use injection::review::Outcome;
use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Upper bounds of the histogram in microseconds: around the time that a review should take, and far above.
const BOUNDS: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 10_000_000];

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(super) injection: Reviews,
    pub(super) environment: Reviews,
    pub(super) configuration: Arc<Reloads>,
    pub(super) certificate: Arc<Reloads>,
    pub(super) connections: AtomicU64,
    pub(super) handshakes_failed: AtomicU64,
    pub(super) panics: AtomicU64,
}

/// Reviews of one kind.
#[derive(Debug, Default)]
pub(super) struct Reviews {
    injected: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
    /// By bound; what is above all of them comes last.
    times: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

/// How often something was read anew.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Reviews {
    pub(super) fn count(&self, outcome: Outcome, took: Duration) {
        let counter = match outcome {
            Outcome::Injected => &self.injected,
            Outcome::Skipped => &self.skipped,
            Outcome::Refused | Outcome::Malformed => &self.failed,
        };
        counter.fetch_add(1, Relaxed);
        let bucket = BOUNDS.iter().position(|bound| took <= Duration::from_micros(*bound));
        self.times[bucket.unwrap_or(BOUNDS.len())].fetch_add(1, Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    fn counts(&self) -> [u64; 3] {
        [&self.injected, &self.failed, &self.skipped].map(|counter| counter.load(Relaxed))
    }
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A text in the form that Prometheus reads.
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: &[(&str, String)]) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
        for (labels, value) in samples {
            self.line(format_args!("{name}{labels} {value}"));
        }
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help, &[("", value.to_string())]);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a text takes whatever is written to it");
    }

    fn histogram(&mut self, name: &str, help: &str, reviews: &Reviews) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} histogram"));
        let mut below = 0;
        for (at, count) in reviews.times.iter().enumerate() {
            below += count.load(Relaxed);
            match BOUNDS.get(at) {
                Some(bound) => {
                    let seconds = Duration::from_micros(*bound).as_secs_f64();
                    self.line(format_args!("{name}_bucket{{le=\"{seconds}\"}} {below}"));
                }
                None => self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {below}")),
            }
        }
        let sum = Duration::from_nanos(reviews.nanoseconds.load(Relaxed)).as_secs_f64();
        self.line(format_args!("{name}_sum {sum}\n{name}_count {below}"));
    }

    fn callers(&mut self, callers: &[(String, Caller)]) {
        if callers.is_empty() {
            return;
        }
        let labels: Vec<String> =
            callers.iter().map(|(name, _)| format!("{{configuration=\"{}\"}}", escaped(name))).collect();
        let counts = callers.iter().map(|(_, caller)| caller.webhooks.to_string());
        let samples: Vec<(&str, String)> = labels.iter().map(String::as_str).zip(counts).collect();
        self.family(
            "sidecar_injector_webhooks",
            "gauge",
            "Webhooks of a configuration that call this server; 0 where none does, or there is no such configuration.",
            &samples,
        );
    }

    /// Where nobody watches, there is nothing to raise an alarm about.
    fn watches(&mut self, watches: &[State]) {
        if watches.is_empty() {
            return;
        }
        let labels: Vec<String> =
            watches.iter().map(|watch| format!("{{resource=\"{}\"}}", watch.resource)).collect();
        let mut family = |name, kind, help, value: fn(&State) -> u64| {
            let samples: Vec<(&str, String)> = labels
                .iter()
                .zip(watches)
                .map(|(label, watch)| (&**label, value(watch).to_string()))
                .collect();
            self.family(name, kind, help, &samples);
        };
        family(
            "sidecar_injector_watch_current",
            "gauge",
            "Whether this resource is known as the API server tells it; 0 is as it was once, or not at all.",
            |watch| watch.current.into(),
        );
        family("sidecar_injector_watch_errors_total", "counter", "Disturbances of watches.", |watch| {
            watch.errors
        });
    }
}

/// What is so at present, and not counted here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now<'a> {
    /// When the certificate ends, in seconds since 1970.
    pub(super) expires: i64,
    /// Of the cluster, if there are any.
    pub(super) watches: &'a [State],
    /// The default templates make pods.
    pub(super) is_fit: bool,
    /// The webhook configurations that should call, by name.
    pub(super) callers: &'a [(String, Caller)],
}

impl Metrics {
    /// The text that Prometheus reads.
    pub(super) fn text(&self, now: &Now<'_>) -> String {
        let mut page = Page(String::new());
        let [injected, failed, skipped] = self.injection.counts();
        let all = injected + failed + skipped;
        page.counter("sidecar_injection_requests_total", "Calls for injection.", all);
        page.counter("sidecar_injection_success_total", "Pods that were injected.", injected);
        page.counter(
            "sidecar_injection_failure_total",
            "Calls that were refused, and those that were no review.",
            failed,
        );
        page.counter("sidecar_injection_skip_total", "Pods that were let through as they are.", skipped);
        page.histogram(
            "sidecar_injection_time_seconds",
            "How long an answer took, once its request was read.",
            &self.injection,
        );
        let [tagged, failed, skipped] = self.environment.counts().map(|count| count.to_string());
        page.family(
            "sidecar_environment_tag_requests_total",
            "counter",
            "Calls for a pod's environment tag.",
            &[
                ("{outcome=\"tagged\"}", tagged),
                ("{outcome=\"skipped\"}", skipped),
                ("{outcome=\"failed\"}", failed),
            ],
        );
        for (what, reloads) in [("configuration", &self.configuration), ("certificate", &self.certificate)] {
            page.family(
                &format!("sidecar_injector_{what}_reloads_total"),
                "counter",
                &format!("Changes of the {what}; those that failed left the old one in place."),
                &[
                    ("{outcome=\"done\"}", reloads.done.load(Relaxed).to_string()),
                    ("{outcome=\"failed\"}", reloads.failed.load(Relaxed).to_string()),
                ],
            );
        }
        page.family(
            "sidecar_injector_certificate_expiry_timestamp_seconds",
            "gauge",
            "When the certificate ends, in seconds since 1970.",
            &[("", now.expires.to_string())],
        );
        page.family(
            "sidecar_injector_configuration_usable",
            "gauge",
            "Whether the default templates can be filled for a plain pod; 0 denies nearly every pod.",
            &[("", u8::from(now.is_fit).to_string())],
        );
        page.callers(now.callers);
        let connections = self.connections.load(Relaxed).to_string();
        page.family("sidecar_injector_connections", "gauge", "Open connections.", &[("", connections)]);
        page.counter(
            "sidecar_injector_handshake_failures_total",
            "Connections that ended before TLS was agreed on.",
            self.handshakes_failed.load(Relaxed),
        );
        page.counter(
            "sidecar_injector_panics_total",
            "Calls that were answered 500 because of a defect.",
            self.panics.load(Relaxed),
        );
        page.watches(now.watches);
        page.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_no_success_and_times_are_cumulated() {
        let metrics = Metrics::default();
        metrics.injection.count(Outcome::Injected, Duration::from_micros(150));
        metrics.injection.count(Outcome::Refused, Duration::from_micros(1_500));
        metrics.injection.count(Outcome::Malformed, Duration::from_secs(20));
        metrics.injection.count(Outcome::Skipped, Duration::from_micros(100));
        metrics.environment.count(Outcome::Injected, Duration::ZERO);
        let watches = [State { resource: "nodes", current: false, errors: 3 }];
        let callers = [("a\"b".to_owned(), Caller { webhooks: 4, fault: None })];
        let now = Now { expires: 7, watches: &watches, is_fit: true, callers: &callers };
        let text = metrics.text(&now);
        for line in [
            "sidecar_injection_requests_total 4",
            "sidecar_injection_success_total 1",
            "sidecar_injection_failure_total 2",
            "sidecar_injection_skip_total 1",
            "sidecar_injection_time_seconds_bucket{le=\"0.0001\"} 1",
            "sidecar_injection_time_seconds_bucket{le=\"0.0002\"} 2",
            "sidecar_injection_time_seconds_bucket{le=\"10\"} 3",
            "sidecar_injection_time_seconds_bucket{le=\"+Inf\"} 4",
            "sidecar_injection_time_seconds_sum 20.00175",
            "sidecar_injection_time_seconds_count 4",
            "sidecar_environment_tag_requests_total{outcome=\"tagged\"} 1",
            "sidecar_injector_certificate_expiry_timestamp_seconds 7",
            "sidecar_injector_configuration_usable 1",
            "sidecar_injector_webhooks{configuration=\"a\\\"b\"} 4",
            "sidecar_injector_watch_current{resource=\"nodes\"} 0",
            "sidecar_injector_watch_errors_total{resource=\"nodes\"} 3",
        ] {
            assert!(text.lines().any(|there| there == line), "no {line} in\n{text}");
        }
    }
}
