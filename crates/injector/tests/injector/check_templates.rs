//! `check-templates`, before the injector of a cluster is swapped.

use crate::PROGRAM;
use serde_json::{Value, json};
use testkit::folder::Folder;

const TEMPLATE: &str = r#"
spec:
  containers:
  - name: istio-proxy
    image: "{{ .ProxyImage }}"
    env:
    - {name: OWNER, value: "{{ .DeploymentMeta.Name }}"}
"#;

/// The ConfigMaps of a cluster, as `kubectl get` prints them, others among them.
fn maps(template: &str, tag: &str) -> Value {
    let config =
        json!({"policy": "enabled", "templates": {"sidecar": template, "kube-gateway": "{{ .Unknown }}"}});
    let map = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let values = json!({"global": {"hub": "hub", "tag": tag}});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        map("istio-sidecar-injector", json!({"config": config.to_string(), "values": values.to_string()})),
        map("istio", json!({"mesh": "{}"})),
        map("values", json!({"values": "of others"})),
    ]})
}

/// Pods as they run: injected by an injector whose tag was 1.30, but for the last.
fn pods() -> Value {
    let pod = |name: &str, annotations: Value, containers: Value| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
            "spec": {"containers": containers},
        })
    };
    let web = json!({"name": "web", "image": "web", "imagePullPolicy": "Always"});
    let proxy = |owner: &str| {
        json!({"name": "istio-proxy", "image": "hub/proxyv2:1.30", "imagePullPolicy": "IfNotPresent",
            "env": [{"name": "OWNER", "value": owner}]})
    };
    let status = json!({"containers": ["istio-proxy"], "revision": "default"}).to_string();
    let injected = json!({"sidecar.istio.io/status": status});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        pod("one", injected.clone(), json!([web, proxy("one")])),
        pod("two", injected, json!([web, proxy("two")])),
        pod("plain", json!({}), json!([web])),
    ]})
}

fn check(words: &[&str], code: i32, expected: &[&str]) {
    let text = PROGRAM.run(&[&["check-templates"], words].concat()).with(code).shown();
    for expected in expected {
        assert!(text.contains(expected), "{words:?}: {expected} in {text}");
    }
}

#[test]
fn templates_of_a_cluster_are_tried() {
    let folder = Folder::new("tried");
    let good = folder.write("good.json", &maps(TEMPLATE, "1.30"));
    let of_gateway = "kube-gateway: not tried: Istio's control plane deploys gateways from it";
    check(&["-f", &good], 0, &["sidecar: makes a pod of every plain pod", of_gateway]);
    let bad = folder.write("bad.json", &maps("spec: {containers: [{image: x}]}", "1.30"));
    check(&["-f", &bad], 3, &["sidecar: refuses plain pods\n  template sidecar: "]);
}

#[test]
fn pods_that_run_are_compared() {
    let folder = Folder::new("compared");
    let pods = folder.write("pods.json", &pods());
    let same = folder.write("same.json", &maps(TEMPLATE, "1.30"));
    let counted =
        "3 pods: 2 the same, 0 would differ, 0 would be refused, 0 would not be injected, 1 never were";
    check(&["-f", &same, "--against", &pods], 0, &[counted]);
    let one = self::pods()["items"][2].take();
    check(&["-f", &same, "--against", &folder.write("one.json", &one)], 0, &["1 pod: 0 the same, "]);
    let other = folder.write("other.json", &maps(TEMPLATE, "1.31"));
    let image = "shop/one and 1 more: would differ\n  spec.containers[istio-proxy].image: \"hub/proxyv2:1.30\" would be \"hub/proxyv2:1.31\"\n";
    check(&["-f", &other, "--against", &pods], 3, &[image, "0 the same, 2 would differ"]);
    let refusing = folder.write("refusing.json", &maps("{{ fail `never` }}", "1.30"));
    check(&["-f", &refusing, "--against", &pods], 3, &["shop/one and 1 more: would be refused\n", "never"]);
}

#[test]
fn what_is_no_input_is_told() {
    let folder = Folder::new("input");
    let good = folder.write("good.json", &maps(TEMPLATE, "1.30"));
    let none = folder.write("none.json", &json!({"kind": "List", "items": []}));
    check(&["-f", "/nonexistent"], 2, &["--filename: \"/nonexistent\" can't be read"]);
    check(&["-f", &none], 2, &["holds no ConfigMap istio-sidecar-injector", "holds no ConfigMap istio with"]);
    check(&["-f", &good, "--against", &none], 2, &["--against: holds no pod"]);
    let twice = ["-f", &good, "-f", &good];
    check(&twice, 2, &["2 texts \"config\""]);
    check(&["-f", &folder.write("wrong.json", &maps("{{ nonsense", "1.30"))], 2, &["templates.sidecar"]);
    check(&["-f", &good, "--path", "inject"], 2, &["expected /inject"]);
}
