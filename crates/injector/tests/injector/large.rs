//! Pods as large as the API server stores: injected by the webhook and by `inject` alike, and forgotten afterwards.

use super::client::{pod, review};
use super::webhook::{CONFIG, Webhook};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use std::{
    io::Write,
    process::{Command, Stdio},
    thread,
};
use testkit::until;

/// A template that wants to know all variables.
const CURIOUS: &str = r#"policy: enabled
defaultTemplates: [own]
templates:
  own: |
    metadata:
      annotations:
        variables: '{{ range .Spec.Containers }}{{ len .Env }}{{ end }}'
"#;

/// A pod with so many variables, as the API server sends it.
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
    let answer = webhook.connect().review("/inject", "u1", pod).expect("an answer").json();
    assert_eq!(answer["response"]["allowed"], true, "{}", answer["response"]["status"]);
    let patch =
        BASE64.decode(answer["response"]["patch"].as_str().expect("a patch").as_bytes()).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("RFC 6902");
    let mut after = pod.clone();
    json_patch::patch(&mut after, &patch).expect("a patch of the pod");
    after
}

/// What `inject` makes of it.
fn injected(pod: &Value) -> Value {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
        .args(["inject", "--namespace", "shop", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut manifest = child.stdin.take().expect("a pipe");
    let text = pod.to_string();
    let writing = thread::spawn(move || manifest.write_all(text.as_bytes()));
    let out = child.wait_with_output().expect("an end");
    writing.join().expect("no panic").expect("it reads all");
    assert!(out.status.success());
    serde_json::from_slice(&out.stdout).expect("JSON, as it came")
}

#[test]
fn a_pod_of_thousands_of_variables_is_injected_online_and_offline() {
    let webhook = Webhook::start(CONFIG, "", &[]);
    for count in [2_000, 20_000] {
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
fn memory_is_given_back_after_large_reviews() {
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
    assert!(webhook.peak_memory() > before + (16 << 10), "the test shows something");
    until("it is given back", || {
        // As long as there is something to do: an idle allocator has no time of its own.
        patched(&webhook, &pod());
        webhook.resident_memory() < before + (12 << 10)
    });
}
