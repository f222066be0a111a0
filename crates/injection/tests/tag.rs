//! The environment tag's webhook. Each case of `tag.txt` patches the review of a pod with a proxy; `object`, `labels` and `spec`
//! replace parts. `UPDATE_GOLDENS=1` writes the answers.

use data_encoding::BASE64;
use injection::review::{Answer, Cancellation, ReviewOutcome, WebhookCall};
use injection::tag::answer;
use mesh::pod::values;
use serde_json::{Value, json};

fn call(method: &str, content_type: Option<&str>, body: &[u8]) -> Answer {
    let cancellation = Cancellation::default();
    let labels = ["virtual-env", "team-env"].map(str::to_owned);
    answer(&WebhookCall { method, path: "/environment-tag", content_type, body, cancellation }, &labels)
}

fn review(case: &Value) -> Value {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "app"}, {"name": "istio-proxy", "env": []}]},
    });
    let request = json!({
        "uid": "u-1", "namespace": "shop", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "CREATE", "object": pod,
    });
    let mut review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let mut case = case.clone();
    for (key, place) in
        [("object", "/request"), ("labels", "/request/object/metadata"), ("spec", "/request/object")]
    {
        if let Some(value) = case.as_object_mut().and_then(|case| case.remove(key)) {
            review.pointer_mut(place).expect("a pod")[key] = value;
        }
    }
    json_patch::merge(&mut review, &case);
    review
}

fn answered(case: &str) -> String {
    let mut review = review(&values("case", case).expect("YAML").remove(0));
    let found = call("POST", Some("application/json"), review.to_string().as_bytes());
    let outcome = format!("{} {:?}: {}\n", found.status, found.report.outcome, found.report.reason);
    let Ok(mut body) = serde_json::from_slice::<Value>(&found.body) else { return outcome };
    assert_eq!((&body["apiVersion"], &body["kind"]), (&review["apiVersion"], &review["kind"]));
    let patch = body["response"].as_object_mut().and_then(|response| response.remove("patch"));
    let Some(patch) = patch else { return format!("{outcome}{}\n", body["response"]) };
    let patch = patch.as_str().expect("a text");
    let patch: Value =
        serde_json::from_slice(&BASE64.decode(patch.as_bytes()).expect("base64")).expect("JSON");
    let operations: json_patch::Patch = serde_json::from_value(patch.clone()).expect("a patch");
    json_patch::patch(&mut review["request"]["object"], &operations).expect("it applies");
    let again = call("POST", Some("application/json"), review.to_string().as_bytes());
    assert_eq!(again.report.outcome, ReviewOutcome::Skipped);
    assert_eq!((&*again.report.object, &*again.report.uid), ("Pod shop/web", "u-1"));
    format!("{outcome}{}\n{patch}\n", body["response"])
}

#[test]
fn pods_get_their_tag_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tag.txt");
    testkit::sections::answers(file, ", answered", answered);
}

#[test]
fn invalid_calls_have_their_status() {
    let json = Some("application/json");
    for (method, content_type, body, status) in [
        ("GET", json, "{}", 405),
        ("PUT", json, "{}", 405),
        ("POST", Some("text/plain"), "{}", 400),
        ("POST", Some("application/json; charset=utf-8"), "{}", 400),
        ("POST", None, "{}", 400),
        ("POST", json, "", 400),
        ("POST", json, "\u{fffd}{", 400),
        ("POST", json, "{}", 400),
        ("POST", json, "[]", 400),
        ("POST", json, r#"{"apiVersion":"v1","kind":"Pod"}"#, 400),
    ] {
        let found = call(method, content_type, body.as_bytes());
        let outcome = (found.status, found.report.outcome);
        assert_eq!(outcome, (status, ReviewOutcome::Malformed), "{method} {body}");
        assert!(found.content_type.starts_with("text/plain") && !found.body.is_empty());
    }
}

#[test]
fn names_of_objects_have_kubernetes_form() {
    for name in ["a", "demo-1", "a.b-2.c", "1"] {
        assert!(injection::syntax::is_domain(name), "{name:?}");
    }
    for name in ["", "Demo", "a_b", "-a", "a-", "a..b", "a/b"] {
        assert!(!injection::syntax::is_domain(name), "{name:?}");
    }
}

#[test]
fn labels_are_listed_once() {
    let listed = injection::tag::labels("--labels", "team-env, virtual-env,team-env");
    assert_eq!(listed, Ok(vec!["team-env".to_owned(), "virtual-env".to_owned()]));
}
