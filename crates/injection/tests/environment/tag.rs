//! The webhook of the environment tag: each row of its tables.

use data_encoding::BASE64;
use injection::environment::tag::answer;
use injection::review::{Answer, Cancellation, ReviewOutcome, WebhookCall};
use serde_json::{Value, json};

fn labels() -> Vec<String> {
    ["virtual-env", "team-env"].map(str::to_owned).to_vec()
}

fn call(method: &str, content_type: Option<&str>, body: &[u8]) -> Answer {
    let cancellation = Cancellation::default();
    answer(&WebhookCall { method, path: "/environment-tag", content_type, body, cancellation }, &labels())
}

fn review(request: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

fn request(namespace: &str, object: &Value) -> Value {
    json!({
        "uid": "u-1", "namespace": namespace, "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "CREATE", "object": object,
    })
}

fn post(review: &Value) -> (Answer, Value) {
    let found = call("POST", Some("application/json"), review.to_string().as_bytes());
    let body = serde_json::from_slice(&found.body).expect("JSON");
    (found, body)
}

fn pod(labels: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": labels}, "spec": spec})
}

/// The operation that a pod gets, applied to it; `None` where it gets none.
fn operation(object: &Value) -> Option<(Value, Value)> {
    let (found, body) = post(&review(&request("shop", object)));
    assert_eq!(found.status, 200);
    let response = &body["response"];
    assert_eq!((&response["allowed"], &response["uid"]), (&json!(true), &json!("u-1")));
    let Some(patch) = response.get("patch") else {
        assert_eq!(found.report.outcome, ReviewOutcome::Skipped, "{}", found.report.reason);
        assert_eq!(response.as_object().map(serde_json::Map::len), Some(2), "{response}");
        return None;
    };
    assert_eq!(
        (found.report.outcome, &response["patchType"]),
        (ReviewOutcome::Injected, &json!("JSONPatch"))
    );
    let patch = BASE64.decode(patch.as_str().expect("text").as_bytes()).expect("base64");
    let patch: Value = serde_json::from_slice(&patch).expect("JSON");
    let mut patched = object.clone();
    let operations: json_patch::Patch = serde_json::from_value(patch.clone()).expect("a patch");
    json_patch::patch(&mut patched, &operations).expect("applies");
    assert_eq!(patch.as_array().map(Vec::len), Some(1));
    // Whoever asks again has it already.
    assert!(post(&review(&request("shop", &patched))).1["response"].get("patch").is_none());
    Some((patch[0].clone(), patched))
}

fn with_env(env: &Value) -> Value {
    json!({"containers": [{"name": "app"}, {"name": "istio-proxy", "env": env}]})
}

#[test]
fn calls_that_are_no_reviews() {
    for (method, content_type, body, status) in [
        ("GET", Some("application/json"), "{}", 405),
        ("PUT", Some("application/json"), "{}", 405),
        ("POST", Some("text/plain"), "{}", 400),
        ("POST", Some("application/json; charset=utf-8"), "{}", 400),
        ("POST", None, "{}", 400),
        ("POST", Some("application/json"), "", 400),
        ("POST", Some("application/json"), "\u{fffd}{", 400),
        ("POST", Some("application/json"), "{}", 400),
        ("POST", Some("application/json"), "[]", 400),
        ("POST", Some("application/json"), r#"{"apiVersion":"v1","kind":"Pod"}"#, 400),
        (
            "POST",
            Some("application/json"),
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
            400,
        ),
        (
            "POST",
            Some("application/json"),
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}"#,
            400,
        ),
    ] {
        let found = call(method, content_type, body.as_bytes());
        assert_eq!(
            (found.status, found.report.outcome),
            (status, ReviewOutcome::Malformed),
            "{method} {body}"
        );
        assert!(found.content_type.starts_with("text/plain") && !found.body.is_empty());
    }
}

#[test]
fn pods_that_get_nothing() {
    let proxy = with_env(&json!([]));
    for (labels, spec) in [
        (json!({}), proxy.clone()),
        (Value::Null, proxy.clone()),
        (json!({"virtual-env": "", "team-env": "b"}), proxy.clone()),
        (json!({"virtual-env": null, "team-env": "b"}), proxy.clone()),
        (json!({"virtual-env": "a"}), json!({"containers": [{"name": "app"}]})),
        (json!({"virtual-env": "a"}), Value::Null),
        (json!({"virtual-env": "a"}), with_env(&json!([{"name": "VIRTUAL_ENVIRONMENT_TAG", "value": "a"}]))),
    ] {
        assert_eq!(operation(&pod(&labels, &spec)), None, "{labels} {spec}");
    }
    for namespace in ["kube-system", "kube-public"] {
        let (_, body) = post(&review(&request(namespace, &pod(&json!({"virtual-env": "a"}), &proxy))));
        assert_eq!(body["response"], json!({"uid": "u-1", "allowed": true}));
    }
    let mut other = request("shop", &json!({"spec": 5}));
    other["resource"] = json!({"group": "apps", "version": "v1", "resource": "deployments"});
    assert_eq!(post(&review(&other)).1["response"]["allowed"], true);
    let mut gone = request("shop", &Value::Null);
    gone["operation"] = "DELETE".into();
    assert_eq!(post(&review(&gone)).1["response"], json!({"uid": "u-1", "allowed": true}));
}

#[test]
fn pods_that_get_a_tag() {
    let entry = |tag: &str| json!({"name": "VIRTUAL_ENVIRONMENT_TAG", "value": tag});
    let other = json!({"name": "A", "value": "1"});
    let (one, both) = (json!({"virtual-env": "a"}), json!({"virtual-env": "a", "team-env": "b"}));
    let from =
        json!({"name": "VIRTUAL_ENVIRONMENT_TAG", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    let native =
        json!({"containers": [{"name": "app"}], "initContainers": [{"name": "istio-proxy", "env": [other]}]});
    let bare = json!({"containers": [{"name": "istio-proxy"}]});
    let twice = json!({"containers": [{"name": "istio-proxy"}, {"name": "istio-proxy", "env": [entry("x"), entry("y")]}]});
    for (labels, spec, op, path, value) in [
        (&one, with_env(&json!([other])), "add", "/spec/containers/1/env/0", entry("a")),
        (&one, with_env(&json!([])), "add", "/spec/containers/1/env/0", entry("a")),
        (&json!({"team-env": "b"}), with_env(&json!([other])), "add", "/spec/containers/1/env/0", entry("b")),
        (&both, with_env(&json!([other])), "add", "/spec/containers/1/env/0", entry("a")),
        (
            &one,
            with_env(&json!([other, other, entry("x")])),
            "replace",
            "/spec/containers/1/env/2/value",
            json!("a"),
        ),
        (&one, with_env(&json!([from])), "replace", "/spec/containers/1/env/0", entry("a")),
        (
            &one,
            with_env(&json!([{"name": "VIRTUAL_ENVIRONMENT_TAG"}])),
            "replace",
            "/spec/containers/1/env/0",
            entry("a"),
        ),
        (&one, bare, "add", "/spec/containers/0/env", json!([entry("a")])),
        (&one, with_env(&Value::Null), "add", "/spec/containers/1/env", json!([entry("a")])),
        (&one, native, "add", "/spec/initContainers/0/env/0", entry("a")),
        (&one, twice, "replace", "/spec/containers/1/env/1/value", json!("a")),
    ] {
        let (found, _) = operation(&pod(labels, &spec)).expect("an operation");
        assert_eq!(found, json!({"op": op, "path": path, "value": value}), "{labels} {spec}");
    }
}

#[test]
fn pods_that_cannot_be_read_are_refused_with_every_reason() {
    for (object, expected) in [
        (Value::Null, "has no object; expected a Pod"),
        (json!("pod"), "has no object; expected a Pod"),
        (json!({"spec": 5}), "spec: \"5\" is a number; expected a mapping"),
        (json!({"spec": {"containers": {}}}), "spec.containers: "),
        (json!({"metadata": {"labels": {"virtual-env": 1}}}), "metadata.labels.virtual-env: "),
        (
            json!({"metadata": {"labels": []}, "spec": {"initContainers": [1]}}),
            "spec.initContainers[0]: \"1\" is a number",
        ),
    ] {
        let (found, body) = post(&review(&request("shop", &object)));
        assert_eq!((found.status, found.report.outcome), (200, ReviewOutcome::Refused));
        assert_eq!((&body["response"]["allowed"], &body["response"]["uid"]), (&json!(false), &json!("u-1")));
        let message = body["response"]["status"]["message"].as_str().expect("a message");
        assert!(message.contains(expected), "{object}: {message}");
    }
    // A review about pods that holds none.
    let mut without = request("shop", &Value::Null);
    without.as_object_mut().expect("an object").remove("object");
    assert_eq!(post(&review(&without)).1["response"]["allowed"], false);
}

#[test]
fn a_review_is_answered_in_its_version() {
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let mut query = review(&request("shop", &pod(&json!({"virtual-env": "a"}), &with_env(&json!([])))));
        query["apiVersion"] = json!(version);
        let (found, body) = post(&query);
        assert_eq!((&body["apiVersion"], &body["kind"]), (&json!(version), &json!("AdmissionReview")));
        assert_eq!((&*found.report.object, &*found.report.uid), ("Pod shop/web", "u-1"));
    }
    let mut other = review(&request("shop", &json!({})));
    other["apiVersion"] = json!("admission.k8s.io/v2");
    let found = call("POST", Some("application/json"), other.to_string().as_bytes());
    assert_eq!(found.status, 400);
}

#[test]
fn names_of_objects_are_those_that_kubernetes_takes() {
    for name in ["a", "demo-1", "a.b-2.c", "1"] {
        assert!(injection::environment::inventory::is_name(name), "{name:?}");
    }
    for name in ["", "Demo", "a_b", "-a", "a-", "a..b", "a/b"] {
        assert!(!injection::environment::inventory::is_name(name), "{name:?}");
    }
}

#[test]
fn labels_are_listed_once() {
    let listed = injection::environment::tag::labels("--labels", "team-env, virtual-env,team-env");
    assert_eq!(listed, Ok(vec!["team-env".to_owned(), "virtual-env".to_owned()]));
}
