//! The CNI plugin and the repair agent of the chart are those of `docker/cni`.

use super::difference::same;
use super::rendered::{chart, kustomize};
use serde_json::{Value, json};

/// That of the kustomizations.
const NAMESPACE: &str = "kube-system";

fn values(cni: Value, repair: Value) -> Value {
    let with_image = |mut values: Value, name: &str| {
        values["image"] = format!("registry.example/{name}:1").into();
        values["enabled"] = true.into();
        values
    };
    let mut all = json!({ "injector": { "enabled": false }, "cni": with_image(cni, "sidecar-init") });
    if !repair.is_null() {
        all["repair"] = with_image(repair, "sidecar-node");
    }
    all
}

#[test]
#[ignore = "compiles Helm and kustomize"]
fn the_chart_has_the_same_objects_as_the_kustomizations() {
    let confined = |name: &str| {
        let file = format!("profiles/{name}.json");
        json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": file } })
    };
    let mut labels = confined("sidecar-node");
    labels["action"] = "label".into();
    let cases: [(&str, &[&str], Value, Value); 9] = [
        ("base", &[], json!({}), Value::Null),
        ("metrics", &[], json!({ "metrics": true }), Value::Null),
        ("uninstall", &[], json!({ "uninstallOnExit": true }), Value::Null),
        ("base", &["repair"], json!({}), json!({})),
        ("base", &["repair", "repair/label"], json!({}), json!({ "action": "label" })),
        ("metrics", &["repair", "repair/delete"], json!({ "metrics": true }), json!({ "action": "delete" })),
        ("base", &["seccomp"], confined("sidecar-cni"), Value::Null),
        ("base", &["repair", "seccomp"], confined("sidecar-cni"), confined("sidecar-node")),
        ("base", &["repair", "repair/label", "seccomp"], confined("sidecar-cni"), labels),
    ];
    for (base, components, cni, repair) in cases {
        let what = format!("{base} {components:?}");
        same(&what, &chart(NAMESPACE, &values(cni, repair)), &kustomize(base, components));
    }
}

#[test]
#[ignore = "compiles Helm and kustomize"]
fn folders_and_keys_of_the_entry_reach_the_plugin() {
    let cni = json!({ "confDir": "/etc/rancher/cni/net.d", "binDir": "/opt/bin",
        "entry": { "defaults": { "mesh": "linkerd", "proxy-uid": 2102 } } });
    let all = chart("cni", &values(cni, Value::Null));
    let spec =
        &all.iter().find(|object| object["kind"] == "DaemonSet").expect("it")["spec"]["template"]["spec"];
    let folders: Vec<&Value> = spec["volumes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|volume| &volume["hostPath"]["path"])
        .collect();
    assert_eq!(folders, ["/etc/rancher/cni/net.d", "/opt/bin", "/run/sidecar-init/cni"]);
    let arguments = spec["containers"][0]["args"].as_array().expect("a list").iter();
    let entry =
        arguments.filter_map(|word| word.as_str()?.strip_prefix("--entry=")).next().expect("the flag");
    let entry: Value = serde_json::from_str(entry).expect("JSON");
    assert_eq!(entry, json!({ "defaults": { "mesh": "linkerd", "proxy-uid": 2102 } }));
}
