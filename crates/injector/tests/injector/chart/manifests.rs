//! The chart's injector, rendered by Helm.

use super::difference::same;
use super::rendered::{NAMESPACE, chart, injector, manifests};
use serde_json::{Value, json};

#[test]
#[ignore = "compiles Helm"]
fn helm_renders_the_chart_as_the_program_does() {
    let cases: [(&[&str], Value); 3] = [
        (&[], json!({})),
        (
            &["--revision", "7", "--istio-names", "--no-network-policy"],
            json!({ "revision": "7", "istioNames": true, "networkPolicy": { "enabled": false } }),
        ),
        (
            &[
                "--revision",
                "r1",
                "--tag",
                "default",
                "--tag",
                "7",
                "--auto",
                "--operator",
                "--allow-hosts",
                "shop.example.com,*.example.org",
                "--environment-tag",
                "--environment-labels",
                "virtual-env,example.org/team",
                "--priority-class",
                "system-cluster-critical",
            ],
            json!({ "revision": "r1", "tags": ["default", "7"], "auto": true,
                "operator": { "enabled": true, "allowHosts": ["shop.example.com", "*.example.org"] },
                "environmentLabels": ["virtual-env", "example.org/team"],
                "priorityClassName": "system-cluster-critical" }),
        ),
    ];
    for (flags, values) in cases {
        same(&format!("{flags:?}"), &chart(NAMESPACE, &injector(values)), &manifests(flags));
    }
}

#[test]
#[ignore = "compiles Helm"]
fn additions_to_the_configuration_keep_the_rest() {
    let values = json!({ "values": { "pilot": { "cni": { "enabled": true } }, "global": { "hub": "registry.example" } },
        "mesh": { "defaultConfig": { "concurrency": 1 } }, "config": { "defaultTemplates": ["envoy"] } });
    let all = chart(NAMESPACE, &injector(values));
    let map = all.iter().find(|object| object["kind"] == "ConfigMap").expect("a ConfigMap");
    let read = |key: &str| -> Value {
        serde_saphyr::from_str(map["data"][key].as_str().expect("a text")).expect("YAML")
    };
    assert_eq!(read("config"), json!({ "policy": "enabled", "defaultTemplates": ["envoy"] }));
    let expected = json!({ "defaultConfig": { "interceptionMode": "REDIRECT", "concurrency": 1 } });
    assert_eq!(read("mesh"), expected);
    let values = read("values");
    assert_eq!(values["pilot"]["cni"]["enabled"], true);
    assert_eq!(values["global"]["hub"], "registry.example");
    assert_eq!(values["global"]["proxy"]["image"], "registry.example/proxyv2:1");
}

#[test]
#[ignore = "compiles Helm"]
fn settings_only_of_the_chart_are_in_every_pod() {
    let mut values = injector(json!({ "operator": { "enabled": true }, "nodeSelector": { "pool": "system" },
        "tolerations": [{ "key": "system", "operator": "Exists" }], "resources": { "requests": { "cpu": 1 } },
        "networkPolicy": { "apiServerPorts": [7443] } }));
    values["imagePullSecrets"] = json!([{ "name": "registry" }]);
    let all = chart(NAMESPACE, &values);
    let of_kind = |kind: &str| all.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    assert_eq!(of_kind("Deployment").len(), 2);
    for deployment in of_kind("Deployment") {
        let spec = &deployment["spec"]["template"]["spec"];
        assert_eq!(spec["nodeSelector"], json!({ "pool": "system" }));
        assert_eq!(spec["tolerations"], json!([{ "key": "system", "operator": "Exists" }]));
        assert_eq!(spec["imagePullSecrets"], json!([{ "name": "registry" }]));
        let expected = json!({ "requests": { "cpu": 1, "memory": "32Mi" }, "limits": { "memory": "512Mi" } });
        assert_eq!(spec["containers"][0]["resources"], expected);
    }
    assert_eq!(of_kind("NetworkPolicy").len(), 2);
    for policy in of_kind("NetworkPolicy") {
        assert_eq!(policy["spec"]["egress"][0]["ports"], json!([{ "protocol": "TCP", "port": 7443 }]));
    }
}

#[test]
#[ignore = "compiles Helm"]
fn folders_and_keys_of_the_entry_reach_the_plugin() {
    let cni = json!({ "enabled": true, "image": "registry.example/sidecar-init:1", "confDir": "/etc/rancher/cni/net.d",
        "binDir": "/opt/bin", "entry": { "defaults": { "mesh": "linkerd", "proxy-uid": 2102 } } });
    let all = chart("cni", &json!({ "injector": { "enabled": false }, "cni": cni }));
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
