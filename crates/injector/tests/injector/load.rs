//! The webhook's server under load, while its certificate and configuration change continually.

use super::client::{pod, reviewed};
use super::webhook::{CONFIG, Webhook, patched};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use testkit::{http::Client, scope};

const CLIENTS: usize = 32;
const OVER_ONE: usize = 10;
const PERIOD: Duration = Duration::from_millis(100);

/// Configuration with its version in both texts.
fn texts(version: usize) -> (String, String) {
    let config = format!("{CONFIG}injectedAnnotations:\n  version.example: v{version}\n");
    (config, format!("global:\n  tag: v{version}\n"))
}

/// Version in an injected pod, from each text.
fn versions(pod: &Value) -> [String; 2] {
    let annotation = pod["metadata"]["annotations"]["version.example"].as_str().expect("an annotation");
    let containers =
        ["containers", "initContainers"].into_iter().flat_map(|list| pod["spec"][list].as_array()).flatten();
    let mut tags = containers
        .filter(|container| container["name"].as_str().is_some_and(|name| name.starts_with("istio-")))
        .map(|container| container["image"].as_str().and_then(|image| image.rsplit(':').next()));
    let tag = tags.next().flatten().expect("an image with a tag").to_owned();
    assert!(tags.all(|other| other == Some(&tag)), "{pod}");
    [annotation.to_owned(), tag]
}

#[test]
fn no_review_fails_or_mixes_two_configurations() {
    let reviews = scope::runs(10_000, 300);
    let (config, values) = texts(0);
    let webhook = Webhook::start(&config, &values, &[]);
    let (sent, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (seen, certificates) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
    let times = Mutex::new(Vec::with_capacity(reviews));
    let (before, body_of) = (pod(), |uid: usize| format!("u{uid}"));
    let client = || {
        let mut open: Option<(Client, usize)> = None;
        loop {
            let uid = sent.fetch_add(1, Ordering::Relaxed);
            let is_changed = seen.lock().expect("no client has failed").len() > 1
                && certificates.lock().expect("no client has failed").len() > 1;
            if uid >= reviews && is_changed {
                return;
            }
            let (mut client, used) = open.take().unwrap_or_else(|| {
                let client = webhook.connect();
                certificates.lock().expect("no client has failed").insert(client.certificate());
                (client, 0)
            });
            let begin = Instant::now();
            let answer =
                reviewed(&mut client, "/inject/cluster/east", &body_of(uid), &before).expect("an answer");
            times.lock().expect("no client has failed").push(begin.elapsed());
            assert_eq!(answer.status, 200, "{}", answer.text());
            let given = answer.json();
            let response = &given["response"];
            assert_eq!((&response["uid"], &response["allowed"]), (&body_of(uid).into(), &true.into()));
            let [of_config, of_values] = versions(&patched(&given, &before));
            assert_eq!(of_config, of_values, "one answer from two configurations");
            seen.lock().expect("no client has failed").insert(of_config);
            if used + 1 < OVER_ONE {
                open = Some((client, used + 1));
            }
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        scope.spawn(|| {
            for version in 1.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let (config, values) = texts(version);
                webhook.configure(&config, &values);
                webhook.certify();
                thread::sleep(PERIOD);
            }
        });
        let ended: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "a client has failed");
    });
    for what in ["configuration", "certificate"] {
        let reloads = |outcome: &str| {
            webhook.metric(&format!("sidecar_injector_{what}_reloads_total{{outcome=\"{outcome}\"}}"))
        };
        assert!(reloads("done") >= 1.0 && reloads("failed") == 0.0, "{what}");
    }
    let times = times.into_inner().expect("no client has failed");
    let all = u32::try_from(times.len()).expect("so many");
    assert_eq!(webhook.metric("sidecar_injection_success_total"), f64::from(all));
    assert_eq!(webhook.metric("sidecar_injection_failure_total"), 0.0);
    print_times(&webhook, times);
}

/// Prints the measured times, for `scripts/load`; the server's own time comes from its metrics.
fn print_times(webhook: &Webhook, mut times: Vec<Duration>) {
    times.sort_unstable();
    let [half, most] = [50, 99].map(|percent| times[times.len() * percent / 100]);
    let own = webhook.metric("sidecar_injection_time_seconds_sum")
        / f64::from(u32::try_from(times.len()).expect("so many"));
    let memory = webhook.peak_memory();
    eprintln!(
        "{} reviews, {CLIENTS} clients: a client waits {half:?} (p50), {most:?} (p99); the server takes {:.3} ms for \
         one on average; at most {memory} KiB resident",
        times.len(),
        own * 1e3,
    );
}
