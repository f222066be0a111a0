//! The injector of the chart is that of `sidecar-injector manifests`.

use super::difference::same;
use super::rendered::{NAMESPACE, chart, injector, manifests};
use crate::PROGRAM;
use serde_json::{Value, json};

/// Flags of `manifests`, and the values below `injector` that mean the same.
fn cases() -> Vec<(&'static [&'static str], Value)> {
    vec![
        (&[], json!({})),
        (&["--revision", "1-30"], json!({ "revision": "1-30" })),
        (&["--revision", "7"], json!({ "revision": "7" })),
        (&["--tag", "prod", "--tag", "7"], json!({ "tags": ["prod", "7"] })),
        (&["--istio-names", "--tag", "prod"], json!({ "istioNames": true, "tags": ["prod"] })),
        (&["--auto"], json!({ "auto": true })),
        (
            &["--revision", "r1", "--tag", "default", "--auto"],
            json!({ "revision": "r1", "tags": ["default"], "auto": true }),
        ),
        (&["--replicas", "3"], json!({ "replicas": 3 })),
        (&["--operator"], json!({ "operator": { "enabled": true } })),
        (
            &["--operator", "--allow-hosts", "shop.example.com,*.example.org"],
            json!({ "operator": { "enabled": true, "allowHosts": ["shop.example.com", "*.example.org"] } }),
        ),
        (&["--environment-tag"], json!({ "environmentLabels": ["virtual-env"] })),
        (
            &["--environment-tag", "--environment-labels", "virtual-env,example.org/team"],
            json!({ "environmentLabels": ["virtual-env", "example.org/team"] }),
        ),
        (
            &["--no-network-policy", "--operator"],
            json!({ "networkPolicy": { "enabled": false }, "operator": { "enabled": true } }),
        ),
        (
            &[
                "--priority-class",
                "system-cluster-critical",
                "--operator",
                "--revision",
                "r1",
                "--environment-tag",
            ],
            json!({ "priorityClassName": "system-cluster-critical", "operator": { "enabled": true }, "revision": "r1",
                "environmentLabels": ["virtual-env"] }),
        ),
    ]
}

#[test]
#[ignore = "compiles Helm"]
fn the_chart_has_the_same_objects() {
    for (flags, values) in cases() {
        same(&format!("{flags:?}"), &chart(NAMESPACE, &injector(values)), &manifests(flags));
    }
}

#[test]
fn every_flag_of_manifests_is_compared_or_has_no_value() {
    let help = PROGRAM.printed(&["manifests", "--help"]);
    // Of the release; and about files.
    let others =
        ["image", "proxy-image", "init-image", "namespace", "no-namespace", "output", "force", "help"];
    let compared: Vec<&str> = cases().iter().flat_map(|(flags, _)| *flags).copied().collect();
    let flags = help.lines().filter_map(|line| line.trim_start().split_once("--"));
    let flags = flags.filter(|(before, _)| before.is_empty() || before.starts_with('-'));
    let mut count = 0;
    for (_, flag) in flags {
        let flag: String = flag.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        assert!(
            others.contains(&&*flag) || compared.contains(&&*format!("--{flag}")),
            "--{flag} is not compared"
        );
        count += 1;
    }
    assert!(count > others.len(), "{help}");
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
fn what_only_the_chart_sets_is_in_every_pod() {
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
