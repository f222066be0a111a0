//! All wrong values are refused at once, with key, problem and expected value.

use super::rendered::{NAMESPACE, helm, injector};
use serde_json::{Value, json};

fn refused(values: &Value) -> String {
    let out = helm(NAMESPACE, values);
    assert!(out.code != Some(0) && out.stdout.is_empty(), "{values} is accepted");
    out.stderr
}

#[test]
#[ignore = "compiles Helm"]
fn wrong_values_are_named() {
    let with = |values: Value| {
        let mut all = injector(json!({}));
        for (key, value) in values.as_object().expect("values") {
            all["injector"][key] = value.clone();
        }
        all
    };
    let cases = [
        // From the schema, in Helm's words.
        (json!({ "injecter": {} }), "(root): Additional property injecter is not allowed"),
        (with(json!({ "replicas": 0 })), "injector.replicas: Must be greater than or equal to 1"),
        (
            with(json!({ "replicas": "2" })),
            "injector.replicas: Invalid type. Expected: integer, given: string",
        ),
        (with(json!({ "revision": "R1" })), "injector.revision: Does not match pattern"),
        (
            with(json!({ "revision": "r".repeat(35) })),
            "injector.revision: String length must be less than or equal to 34",
        ),
        (with(json!({ "tags": ["a", "a"] })), "injector.tags: array items[0,1] must be unique"),
        (
            with(json!({ "environmentLabels": ["a/b/c"] })),
            "injector.environmentLabels.0: Does not match pattern",
        ),
        (
            with(json!({ "networkPolicy": { "apiServerPorts": [0] } })),
            "injector.networkPolicy.apiServerPorts.0: Must be greater",
        ),
        (with(json!({ "priorityClassName": "High" })), "injector.priorityClassName: Does not match pattern"),
        (
            with(json!({ "tolerations": [{ "operator": "In" }] })),
            "must be one of the following: \"Exists\", \"Equal\"",
        ),
        (json!({ "cni": { "confDir": "etc/cni" } }), "cni.confDir: Does not match pattern '^/'"),
        (json!({ "cni": { "seccompProfile": { "type": "Localhost" } } }), "localhostProfile is required"),
        (
            json!({ "cni": { "seccompProfile": { "localhostProfile": "profiles/a.json" } } }),
            "Must not validate the schema (not)",
        ),
        (
            json!({ "repair": { "seccompProfile": { "type": "Unconfined" } } }),
            "repair.seccompProfile.type must be one of the following: \"RuntimeDefault\", \"Localhost\"",
        ),
        (
            json!({ "repair": { "action": "restart" } }),
            "repair.action must be one of the following: \"repair\", \"label\", \"delete\"",
        ),
        // From the chart itself.
        (json!({}), "2 problems:\n- injector.image: is missing; expected"),
        (
            json!({ "injector": { "enabled": false } }),
            "nothing is enabled; set injector.enabled, cni.enabled or repair.enabled",
        ),
        (
            with(json!({ "proxyImage": "istio/proxyv2" })),
            "injector.proxyImage: \"istio/proxyv2\" has neither tag nor digest, which means the tag latest; expected a name such as \
             istio/proxyv2:1.31.0",
        ),
        (
            with(json!({ "initImage": "istio/proxyv2:latest" })),
            "injector.initImage: \"istio/proxyv2:latest\" has the tag latest, which names another image tomorrow",
        ),
        (json!({ "injector": { "enabled": false }, "cni": { "enabled": true } }), "cni.image: is missing"),
        (
            json!({ "injector": { "enabled": false }, "repair": { "enabled": true } }),
            "repair.image: is missing",
        ),
        (
            with(json!({ "revision": "r1", "tags": ["r1"] })),
            "injector.tags: \"r1\" is named already, so two webhooks would be called; name each once",
        ),
        (
            with(json!({ "revision": "r1", "auto": true })),
            "injector.auto: is for the default revision; expected default as the revision or as a tag",
        ),
        (
            json!({ "injector": { "enabled": false, "operator": { "enabled": true } }, "cni": { "enabled": true, "image": "a/b:1" } }),
            "injector.operator.enabled: requires injector.enabled",
        ),
    ];
    for (values, expected) in cases {
        let message = refused(&values);
        assert!(message.contains(expected), "{values}: expected {expected:?}, got\n{message}");
    }
}

#[test]
#[ignore = "compiles Helm"]
fn all_problems_are_reported_at_once() {
    let message = refused(
        &json!({ "injector": { "revision": "r1", "tags": ["r1"], "auto": true }, "cni": { "enabled": true } }),
    );
    for key in
        ["5 problems", "injector.image", "injector.proxyImage", "cni.image", "injector.tags", "injector.auto"]
    {
        assert!(message.contains(key), "{key}: {message}");
    }
}
