//! Fuzzes a webhook call's body: the response is a review in a supported version that agrees with the logged report.
#![no_main]

use injection::Configuration;
use injection::review::{Cancellation, ReviewOutcome, UnknownCluster, WebhookCall, answer};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use std::sync::LazyLock;

static CONFIGURATION: LazyLock<Configuration> = LazyLock::new(Configuration::default);

fuzz_target!(|body: &[u8]| {
    let call = WebhookCall {
        method: "POST",
        path: "/inject/net/a",
        content_type: Some("application/json"),
        body,
        cancellation: Cancellation::default(),
    };
    let answer = answer(&call, &CONFIGURATION, &UnknownCluster);
    if body.is_empty() {
        return assert_eq!(answer.status, 400);
    }
    assert_eq!(answer.status, 200);
    let review: Value = serde_json::from_slice(&answer.body).expect("an answer is JSON");
    let version = review["apiVersion"].as_str().expect("a version");
    assert!(["admission.k8s.io/v1", "admission.k8s.io/v1beta1"].contains(&version));
    let response = &review["response"];
    let (allowed, patch) = (&response["allowed"], response["patch"].is_string());
    let expected = match answer.report.outcome {
        ReviewOutcome::Injected => (true, true),
        ReviewOutcome::Skipped => (true, false),
        ReviewOutcome::Refused | ReviewOutcome::Malformed => (false, false),
    };
    assert_eq!((allowed, patch), (&expected.0.into(), expected.1), "{review}");
    assert_eq!(response["uid"], answer.report.uid);
    assert_eq!(response["status"]["message"].is_string(), !expected.0);
});
