//! Answers the API server's calls: AdmissionReview v1 and v1beta1. Every call gets an answer, even if it has an arbitrary body,
//! no request, or an object other than a pod.

mod exchange;
mod tree;

pub use crate::admission::Cancellation;
pub use exchange::{Answer, ReviewOutcome, ReviewReport};
pub(crate) use exchange::{JSON, Request, Review};
pub(crate) use tree::Depth;

use crate::admission::{AdmissionContext, Namespace, path_variables};
use crate::pipeline::{self, unread};
use crate::{configuration::Configuration, patch};
use mesh::Problems;
use serde_json::Value;

/// Maximum body length in bytes: twice the API server's own request limit.
pub const MAX_BYTES: usize = 6 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct WebhookCall<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub content_type: Option<&'a str>,
    pub body: &'a [u8],
    /// Cancelled once the caller stops waiting; the answer then reports that.
    pub cancellation: Cancellation,
}

/// Answers a call with the HTTP statuses of Istio's injector, in its order: 400 for a body that is too long or empty, 415 for a
/// Content-Type other than `application/json`, else 200, with `allowed: false` if the body is not a review.
pub fn answer(call: &WebhookCall<'_>, configuration: &Configuration, cluster: &dyn Cluster) -> Answer {
    answer_by(call, cluster, |pod, admission| pipeline::inject(pod, admission, configuration))
}

fn answer_by(
    call: &WebhookCall<'_>,
    cluster: &dyn Cluster,
    inject: impl Fn(&Value, &AdmissionContext) -> Result<pipeline::InjectionOutcome, Problems>,
) -> Answer {
    if call.body.len() > MAX_BYTES {
        return Answer::unreadable(&format!("it is longer than {MAX_BYTES} bytes"));
    }
    if call.body.is_empty() {
        return Answer::text(400, "no body found");
    }
    if call.content_type != Some(JSON) {
        let found = call.content_type.unwrap_or_default();
        return Answer::text(415, &format!("Content-Type is {found:?}; expected {JSON}"));
    }
    let answered = |depth| answered(call, depth, cluster, &inject);
    answered(Depth::Shallow)
        .or_else(|| answered(Depth::Whole))
        .expect("a review that was read as a whole is answered")
}

/// `None` if the injection needs unread parts.
fn answered(
    call: &WebhookCall<'_>,
    depth: Depth,
    cluster: &dyn Cluster,
    inject: &impl Fn(&Value, &AdmissionContext) -> Result<pipeline::InjectionOutcome, Problems>,
) -> Option<Answer> {
    let review = match Review::read(call.body, depth, &call.cancellation) {
        Ok(review) => review,
        Err((report, version)) => return Some(report.answer(version, None)),
    };
    let request = review.request();
    let report = |outcome, reason| ReviewReport::of(request, outcome, reason);
    // A webhook with overly broad rules must not block the deletion of pods.
    let skipped = match (request.text("operation"), request.other_than_pods()) {
        ("" | "CREATE", None) => None,
        ("" | "CREATE", Some(other)) => Some(format!("the request is for {other}; only pods are injected")),
        (other, _) => Some(format!("the operation is {other}; pods are injected only on CREATE")),
    };
    if let Some(reason) = skipped {
        return Some(report(ReviewOutcome::Skipped, reason).answer(review.version, None));
    }
    let pod = match request.pod() {
        Ok(pod) => pod,
        Err(reason) => return Some(report(ReviewOutcome::Refused, reason).answer(review.version, None)),
    };
    let admission = AdmissionContext {
        namespace: cluster.namespace(request.namespace()),
        variables: path_variables(call.path),
        native_sidecars: cluster.native_sidecars(request.node()),
        cancellation: call.cancellation.clone(),
        ..AdmissionContext::default()
    };
    let is_partial = depth == Depth::Shallow && unread::is_in(pod);
    let outcome = inject(pod, &admission).and_then(|outcome| call.cancellation.check().map(|()| outcome));
    let (report, patch) = match outcome {
        Ok(pipeline::InjectionOutcome::Skipped(decision)) => {
            let mut report = report(ReviewOutcome::Skipped, format!("not injected: {}", decision.reason));
            report.warnings.extend(decision.warning());
            (report, None)
        }
        Ok(pipeline::InjectionOutcome::Injected(injected)) => {
            let patch = patch::between(pod, &injected.pod);
            let patch = serde_json::to_string(&patch).expect("a patch is JSON");
            if is_partial && (unread::has_mark(&patch) || !unread::is_kept(pod, &injected.pod)) {
                return None;
            }
            let reason = format!("injected: {}", injected.decision.reason);
            let warnings = injected.warnings;
            (ReviewReport { warnings, ..report(ReviewOutcome::Injected, reason) }, Some(patch))
        }
        Err(_) if is_partial => return None,
        Err(problems) => {
            let reason = format!("the pod can't be injected: {}", problems.joined());
            (report(ReviewOutcome::Refused, reason), None)
        }
    };
    Some(report.answer(review.version, patch.as_deref()))
}

/// The first minor version of Kubernetes 1 with stable native sidecars, as in Istio.
const STABLE_MINOR: u32 = 33;

/// Facts about a cluster, queried during reviews; implementations return their current state without waiting.
pub trait Cluster {
    fn namespace(&self, name: &str) -> Namespace;

    /// True if this node's kubelet runs native sidecars; without a node, if all kubelets do.
    fn native_sidecars(&self, node: Option<&str>) -> bool;
}

/// An unknown cluster, in which native sidecars count as unsupported.
#[derive(Clone, Copy, Debug)]
pub struct UnknownCluster;

impl Cluster for UnknownCluster {
    fn namespace(&self, name: &str) -> Namespace {
        Namespace { name: name.to_owned(), ..Namespace::default() }
    }

    fn native_sidecars(&self, _: Option<&str>) -> bool {
        false
    }
}

/// True for kubelet versions with native sidecars, such as `v1.33.1-gke.1` or `v1.33+`; `None` if the version is invalid.
pub fn runs_native_sidecars(version: &str) -> Option<bool> {
    let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
    let major: u32 = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let end = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    let minor: u32 = minor[..end].parse().ok()?;
    Some((major, minor) >= (1, STABLE_MINOR))
}

#[cfg(test)]
mod tests {
    use super::exchange::{KIND, VERSIONS};
    use super::*;
    use crate::decision::{Decision, DecisionReason};
    use crate::pipeline::Injected;
    use data_encoding::BASE64;
    use mesh::InputProblem;
    use serde_json::{Map, json};

    /// An injector that labels pods, skips pods in one namespace and refuses pods without `spec`.
    fn labels(pod: &Value, admission: &AdmissionContext) -> Result<pipeline::InjectionOutcome, Problems> {
        let decision = |inject| Decision { inject, reason: DecisionReason::ByPolicy, unclear: None };
        if pod.get("spec").is_none() {
            let problem = |name: &str| InputProblem::with_item(name, "x", "is wrong");
            return Err(Problems(vec![problem("a"), problem("b")]));
        }
        if admission.namespace.name == "quiet" {
            return Ok(pipeline::InjectionOutcome::Skipped(decision(false)));
        }
        let mut after = pod.clone();
        let variables: Map<_, _> =
            admission.variables.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        after["metadata"]["labels"] = json!({ "in": admission.namespace.name, "variables": variables });
        Ok(pipeline::InjectionOutcome::Injected(Box::new(Injected {
            decision: decision(true),
            pod: after,
            warnings: vec!["odd\nlabel".to_owned(), "with\ta tab".to_owned()],
        })))
    }

    fn answered(path: &str, content_type: Option<&str>, body: &[u8]) -> Answer {
        answer_by(
            &WebhookCall { method: "PUT", path, content_type, body, cancellation: Cancellation::default() },
            &UnknownCluster,
            labels,
        )
    }

    fn review(version: &str, request: &Value) -> Answer {
        let review = json!({ "apiVersion": version, "kind": KIND, "request": request });
        answered("/inject/net/a", Some(JSON), review.to_string().as_bytes())
    }

    fn body_of(answer: &Answer) -> Value {
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    #[test]
    fn invalid_calls_have_their_status_in_order() {
        let text = |status, content_type, body: &[u8]| {
            let answer = answered("/inject", content_type, body);
            assert_eq!(
                (answer.status, answer.report.outcome),
                (status, ReviewOutcome::Malformed),
                "{answer:?}"
            );
            String::from_utf8(answer.body).expect("UTF-8")
        };
        let long = vec![b' '; MAX_BYTES + 1];
        assert!(text(400, Some("text/plain"), &long).contains("longer than 6291456 bytes"));
        assert_eq!(text(400, Some("text/plain"), b""), "no body found\n");
        for content_type in [None, Some("text/plain"), Some("application/json; charset=utf-8")] {
            assert!(text(415, content_type, b"{}").contains("expected application/json"));
        }
        let (deep, longest) = ("[".repeat(1_000_000), " ".repeat(MAX_BYTES));
        let others = [
            "{}",
            "null",
            "[]",
            "{",
            "\0",
            &deep,
            &longest,
            r#"{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","request":{}}"#,
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"Pod"}"#,
        ];
        for body in others {
            let given: Value = serde_json::from_str(&text(200, Some(JSON), body.as_bytes())).expect("JSON");
            assert_eq!((&given["apiVersion"], &given["kind"]), (&VERSIONS[0].into(), &KIND.into()));
            assert_eq!(given["response"]["allowed"], false);
            assert!(given["response"]["status"]["message"].as_str().is_some_and(|text| !text.is_empty()));
        }
        for request in [Value::Null, json!([]), json!("x")] {
            let answer = review(VERSIONS[1], &request);
            assert_eq!(answer.report.outcome, ReviewOutcome::Malformed);
            assert_eq!((&body_of(&answer)["apiVersion"], answer.status), (&VERSIONS[1].into(), 200));
        }
    }

    #[test]
    fn a_pod_gets_its_patch_in_the_version_of_the_request() {
        for version in VERSIONS {
            for (own, expected) in [(None, "shop"), (Some(""), "shop"), (Some("own"), "own")] {
                let pod = json!({ "metadata": { "generateName": "web-", "namespace": own }, "spec": {} });
                let answer = review(version, &json!({ "uid": "u1", "namespace": "shop", "object": pod }));
                let given = body_of(&answer);
                assert_eq!((&given["apiVersion"], &given["kind"]), (&version.into(), &KIND.into()));
                let response = &given["response"];
                assert_eq!((&response["uid"], &response["allowed"]), (&"u1".into(), &true.into()));
                assert_eq!(response["patchType"], "JSONPatch");
                assert_eq!(response["warnings"], json!(["odd label", "with a tab"]));
                let patch =
                    BASE64.decode(response["patch"].as_str().expect("a patch").as_bytes()).expect("base64");
                let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("RFC 6902");
                let mut patched = pod.clone();
                json_patch::patch(&mut patched, &patch).expect("a patch of the pod");
                let labels = json!({ "in": expected, "variables": { "ISTIO_META_NETWORK": "a" } });
                assert_eq!(patched["metadata"]["labels"], labels);
                assert_eq!(answer.report.outcome, ReviewOutcome::Injected);
                assert_eq!(
                    (&*answer.report.object, &*answer.report.uid),
                    (&*format!("{expected}/web-*"), "u1")
                );
            }
        }
    }

    fn check(request: &Value, outcome: ReviewOutcome, message: &str) {
        let answer = review(VERSIONS[0], request);
        let response = &body_of(&answer)["response"];
        assert_eq!((answer.report.outcome, &response["uid"]), (outcome, &"u2".into()), "{request}");
        assert_eq!(response["allowed"], outcome == ReviewOutcome::Skipped, "{request}");
        assert_eq!((&response["patch"], &response["patchType"]), (&Value::Null, &Value::Null), "{request}");
        assert!(answer.report.reason.contains(message), "{request}: {}", answer.report.reason);
        let shown = response["status"]["message"].as_str();
        assert_eq!(shown.unwrap_or(&answer.report.reason), answer.report.reason);
    }

    #[test]
    fn other_objects_are_allowed_or_refused_with_their_uid() {
        let pod = json!({ "metadata": { "name": "web" }, "spec": {}, "status": [1] });
        let bare = json!({ "kind": "Pod", "metadata": 7 });
        check(
            &json!({ "uid": "u2", "namespace": "quiet", "object": pod }),
            ReviewOutcome::Skipped,
            "the policy",
        );
        check(
            &json!({ "uid": "u2", "operation": "DELETE", "object": null }),
            ReviewOutcome::Skipped,
            "DELETE",
        );
        let pods = json!({ "group": "", "version": "v1", "resource": "pods" });
        let eviction = json!({ "uid": "u2", "resource": pods, "subResource": "eviction", "object": { "kind": "Eviction" } });
        check(&eviction, ReviewOutcome::Skipped, "the request is for pods/eviction");
        let resource = json!({ "group": "batch", "version": "v1", "resource": "jobs" });
        check(
            &json!({ "uid": "u2", "resource": resource, "object": {} }),
            ReviewOutcome::Skipped,
            "request is for jobs",
        );
        check(&json!({ "uid": "u2", "object": null }), ReviewOutcome::Refused, "no object");
        check(&json!({ "uid": "u2", "object": "web" }), ReviewOutcome::Refused, "no object");
        check(
            &json!({ "uid": "u2", "object": { "kind": "Job" } }),
            ReviewOutcome::Refused,
            "a Job; expected a Pod",
        );
        check(
            &json!({ "uid": "u2", "object": bare }),
            ReviewOutcome::Refused,
            "a: \"x\" is wrong; b: \"x\" is wrong",
        );
    }

    #[test]
    fn a_cancelled_review_ends() {
        let review =
            json!({ "apiVersion": VERSIONS[0], "kind": KIND, "request": { "object": { "spec": {} } } });
        let (body, cancellation) = (review.to_string(), Cancellation::default());
        let content_type = Some(JSON);
        let call =
            WebhookCall { method: "POST", path: "", content_type, body: body.as_bytes(), cancellation };
        // Cancelled during the first answer, before the second.
        for outcome in [ReviewOutcome::Refused, ReviewOutcome::Malformed] {
            let cancelled = |pod: &Value, admission: &AdmissionContext| {
                call.cancellation.cancel();
                labels(pod, admission)
            };
            let report = answer_by(&call, &UnknownCluster, cancelled).report;
            assert_eq!(report.outcome, outcome);
            assert!(report.reason.contains("its review was cancelled"), "{}", report.reason);
        }
    }

    #[test]
    fn every_answer_has_the_uid_of_its_request() {
        let pod = json!({ "metadata": { "name": "web" }, "spec": {} });
        let request = json!({ "uid": "u3", "namespace": "shop", "object": pod });
        let whole = json!({ "apiVersion": VERSIONS[1], "kind": KIND, "request": request }).to_string();
        let deep =
            whole.replace(r#""spec":{}"#, &format!(r#""spec":{}{}"#, "[".repeat(1000), "]".repeat(1000)));
        let many = whole.replace(r#""spec":{}"#, &format!(r#""spec":[{}0]"#, r#"{"a":0},"#.repeat(500_000)));
        let other = whole.replace(KIND, "Review");
        for body in [&*deep, &*many, &*other] {
            let answer = answered("/inject", Some(JSON), body.as_bytes());
            let response = &body_of(&answer)["response"];
            assert_eq!((&response["uid"], &response["allowed"]), (&"u3".into(), &false.into()), "{body:.99}");
            assert_eq!(
                (&*answer.report.uid, answer.report.outcome),
                ("u3", ReviewOutcome::Malformed),
                "{body:.99}"
            );
            assert_eq!(body_of(&answer)["apiVersion"], VERSIONS[1], "{body:.99}");
        }
    }

    #[test]
    fn versions_of_kubelets() {
        for new in ["v1.33.0", "1.33", "v1.33+", "v1.34.1-gke.1", "v1.33.2+k3s1", "v2.0.0"] {
            assert_eq!(runs_native_sidecars(new), Some(true), "{new}");
        }
        for old in ["v1.32.9", "v1.29.3-eks-ae9a62a", "1.9.0", "v0.40.0"] {
            assert_eq!(runs_native_sidecars(old), Some(false), "{old}");
        }
        for none in ["", "v1", "1.", "v1.x", "vv1.33", "latest", "v-1.33", "1.99999999999"] {
            assert_eq!(runs_native_sidecars(none), None, "{none:?}");
        }
    }
}
