//! The largest pods that the API server stores: webhook and `inject` agree, and memory is returned afterwards.

use super::client::{pod, review, reviewed};
use super::webhook::{CONFIG, Webhook};
use crate::PROGRAM;
use serde_json::{Map, Value, json};
use std::thread;
use testkit::{scope, until};

/// Template that reads all variables.
const CURIOUS: &str = r#"policy: enabled
defaultTemplates: [own]
templates:
  own: |
    metadata:
      annotations:
        variables: '{{ range .Spec.Containers }}{{ len .Env }}{{ end }}'
"#;

fn with_variables(count: usize) -> Value {
    let mut pod = pod();
    let name = |number: usize| format!("VARIABLE_{number}");
    let variables =
        (0..count).map(|number| json!({ "name": name(number), "value": "https://service.example/" }));
    pod["spec"]["containers"][0]["env"] = variables.collect();
    let owned = |number| {
        (format!("k:{{\"name\":\"{}\"}}", name(number)), json!({ ".": {}, "f:name": {}, "f:value": {} }))
    };
    let owned = Value::Object((0..count).map(owned).collect::<Map<_, _>>());
    let fields = json!({ "f:spec": { "f:containers": { "k:{\"name\":\"web\"}": { "f:env": owned } } } });
    pod["metadata"]["managedFields"] =
        json!([{ "manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields }]);
    pod
}

fn patched(webhook: &Webhook, pod: &Value) -> Value {
    let answer = reviewed(&mut webhook.connect(), "/inject", "u1", pod).expect("an answer").json();
    super::webhook::patched(&answer, pod)
}

fn injected(pod: &Value) -> Value {
    let words = ["inject", "--namespace", "shop", "-f", "-"];
    PROGRAM.run_with(&words, &pod.to_string()).with(0).json()
}

#[test]
fn a_pod_of_thousands_of_variables_is_injected_online_and_offline() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    for count in [2_000, scope::runs(20_000, 6_000)] {
        let pod = with_variables(count);
        assert!(review("admission.k8s.io/v1", "u1", &pod).to_string().len() < 3 << 20);
        let after = patched(&webhook, &pod);
        assert_eq!(after["spec"]["containers"][0], pod["spec"]["containers"][0]);
        assert_eq!(after["spec"]["containers"][1]["name"], "istio-proxy");
        if count == 2_000 {
            assert_eq!(injected(&pod)["spec"], after["spec"]);
        }
    }
}

#[test]
fn memory_is_returned_after_large_reviews() {
    let webhook = Webhook::start(CURIOUS, "", &[]);
    patched(&webhook, &pod());
    let before = webhook.resident_memory();
    let large = with_variables(10_000);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let after = patched(&webhook, &large);
                assert_eq!(after["metadata"]["annotations"]["variables"], "10000");
            });
        }
    });
    assert!(webhook.peak_memory() > before + (16 << 10), "memory did not grow");
    until("memory is returned", || {
        // Repeats reviews: an idle allocator returns no memory.
        patched(&webhook, &pod());
        webhook.resident_memory() < before + (12 << 10)
    });
}
