//! The webhook's metrics, in Prometheus format.
//!
//! Names are Istio's if meanings agree. `success` differs: Istio also counts refused pods.

use crate::authority::CallerCount;
use cluster::status::{self, Reply, registered};
use injection::review::ReviewOutcome;
use prometheus_client::{metrics::counter::Counter, metrics::family::Family, metrics::gauge::Gauge};
use prometheus_client::{metrics::histogram::Histogram, registry::Registry};
use std::time::Duration;

/// Upper histogram bounds in seconds: around the expected review time, and far above.
const BOUNDS: [f64; 12] = [0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];

type LabelledFamily<M, V = &'static str> = Family<[(&'static str, V); 1], M>;

#[derive(Debug)]
pub(crate) struct ServeMetrics {
    registry: Registry,
    reviews: Counter,
    injected: Counter,
    failed: Counter,
    skipped: Counter,
    seconds: Histogram,
    tags: LabelledFamily<Counter>,
    pub(super) configuration: Reloads,
    pub(super) certificate: Reloads,
    expiry: Gauge,
    usable: Gauge,
    webhooks: LabelledFamily<Gauge, String>,
    pub(super) connections: Gauge,
    pub(super) handshakes_failed: Counter,
    pub(super) panics: Counter,
    watch_current: LabelledFamily<Gauge>,
    watch_errors: LabelledFamily<Counter>,
}

pub(super) type Reloads = LabelledFamily<Counter>;

pub(super) struct WatchMetrics {
    pub(super) current: Gauge,
    pub(super) errors: Counter,
}

impl Default for ServeMetrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let seconds = Histogram::new(BOUNDS);
        let reviews = registry.sub_registry_with_prefix("sidecar_injection");
        let help = "Time to answer a request after reading it";
        reviews.register("time_seconds", help, seconds.clone());
        let help = "Calls that were refused or invalid";
        let failed = registered(reviews, "failure", help);
        let injected = registered(reviews, "success", "Pods that were injected");
        let skipped = registered(reviews, "skip", "Pods that were not changed");
        let reviews = registered(reviews, "requests", "Calls for injection");

        let help = "Calls for a pod's environment tag";
        let tags: LabelledFamily<Counter> =
            registered(&mut registry, "sidecar_environment_tag_requests", help);
        for outcome in ["tagged", "skipped", "failed"] {
            let _ = tags.get_or_create(&[("outcome", outcome)]);
        }

        let own = registry.sub_registry_with_prefix("sidecar_injector");
        let [configuration, certificate] = ["configuration", "certificate"].map(|what| {
            let help = format!("Reloads of the {what}; failed reloads keep the old one");
            let reloads: Reloads = registered(own, &format!("{what}_reloads"), &help);
            for outcome in ["done", "failed"] {
                let _ = reloads.get_or_create(&[("outcome", outcome)]);
            }
            reloads
        });
        let expiry = "Expiry of the certificate, in seconds since 1970";
        let usable = "1 if the default templates render for a plain pod; 0 denies nearly every pod";
        let webhooks = "Webhooks in a configuration that call this server; 0 if the configuration is missing";
        let handshakes = "Connections without a successful TLS handshake";
        let panics = "Calls answered with 500 because of an internal error";
        let current = "1 if the cache of this resource is current; 0 if it is stale or empty";
        Self {
            reviews,
            injected,
            failed,
            skipped,
            seconds,
            tags,
            configuration,
            certificate,
            expiry: registered(own, "certificate_expiry_timestamp_seconds", expiry),
            usable: registered(own, "configuration_usable", usable),
            webhooks: registered(own, "webhooks", webhooks),
            connections: registered(own, "connections", "Open connections"),
            handshakes_failed: registered(own, "handshake_failures", handshakes),
            panics: registered(own, "panics", panics),
            watch_current: registered(own, "watch_current", current),
            watch_errors: registered(own, "watch_errors", "Interruptions of watches"),
            registry,
        }
    }
}

impl ServeMetrics {
    pub(super) fn reviewed(&self, outcome: ReviewOutcome, took: Duration) {
        self.reviews.inc();
        self.seconds.observe(took.as_secs_f64());
        match outcome {
            ReviewOutcome::Injected => &self.injected,
            ReviewOutcome::Skipped => &self.skipped,
            ReviewOutcome::Refused | ReviewOutcome::Malformed => &self.failed,
        }
        .inc();
    }

    pub(super) fn tagged(&self, outcome: ReviewOutcome) {
        let outcome = match outcome {
            ReviewOutcome::Injected => "tagged",
            ReviewOutcome::Skipped => "skipped",
            ReviewOutcome::Refused | ReviewOutcome::Malformed => "failed",
        };
        self.tags.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Metrics of a watched resource; absent without a watch, so no alert fires.
    pub(super) fn watch(&self, resource: &'static str) -> WatchMetrics {
        let labels = [("resource", resource)];
        WatchMetrics {
            current: self.watch_current.get_or_create_owned(&labels),
            errors: self.watch_errors.get_or_create_owned(&labels),
        }
    }

    /// Page for Prometheus, with the certificate's end in seconds since 1970, the state of the default templates, and the
    /// callers in webhook configurations, by name.
    pub(super) fn page(&self, expires: i64, is_usable: bool, callers: Vec<(String, CallerCount)>) -> Reply {
        self.expiry.set(expires);
        self.usable.set(is_usable.into());
        for (name, caller) in callers {
            let webhooks = i64::try_from(caller.unwrap_or(0)).unwrap_or(i64::MAX);
            self.webhooks.get_or_create(&[("configuration", name)]).set(webhooks);
        }
        status::metrics(&self.registry)
    }
}
