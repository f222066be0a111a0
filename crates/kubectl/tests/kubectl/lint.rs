//! `lint`: what kubectl lists, and the findings of it.

use crate::fake::{Fake, list};
use serde_json::{Value, json};

/// A namespace whose pods are injected, with a pod that was created before its label.
fn cluster() -> Fake {
    let mut fake = Fake::new();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "shop", "labels": { "istio-injection": "enabled" } },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-0", "namespace": "shop" },
        "spec": { "containers": [{ "name": "web", "image": "web:1" }] }, "status": { "phase": "Running" },
    });
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": "sidecar-injector", "labels": { "istio.io/rev": "default" } },
        "webhooks": [{
            "name": "namespace.sidecar-injector.istio.io",
            "clientConfig": {
                "caBundle": "Q0E=",
                "service": { "name": "sidecar-injector", "namespace": "mesh", "path": "/inject", "port": 443 },
            },
            "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"] }],
            "namespaceSelector": { "matchLabels": { "istio-injection": "enabled" } },
            "failurePolicy": "Fail",
        }],
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "sidecar-injector", "namespace": "mesh" },
        "spec": { "ports": [{ "port": 443, "targetPort": 8443 }] },
    });
    fake.object("get namespaces *", &list(&[namespace]));
    fake.object("get mutatingwebhookconfigurations.admissionregistration.k8s.io *", &list(&[webhook]));
    fake.object("get pods *", &list(&[pod]));
    fake.object("get services *", &list(&[service]));
    fake.object("get *s.apps *", &list(&[]));
    fake.object("get *jobs.batch *", &list(&[]));
    fake
}

fn codes(document: &Value) -> Vec<&str> {
    let findings = document["findings"].as_array().expect("a list").iter();
    findings.map(|finding| finding["code"].as_str().expect("a code")).collect()
}

#[test]
fn a_pod_without_its_sidecar_is_found_in_a_whole_cluster() {
    let fake = cluster();
    let ran = fake.run(&["lint", "-A"]).with(0);
    assert!(ran.stdout.contains("SI030") && ran.stdout.contains("shop/web-0"), "{}", ran.stdout);
    let calls = fake.calls();
    assert!(calls.contains(&"get pods --all-namespaces -o json".to_owned()), "{calls:?}");
    assert!(calls.contains(&"get namespaces -o json".to_owned()), "{calls:?}");
    assert!(calls.iter().any(|call| call.starts_with("get configmap/sidecar-injector -n mesh")), "{calls:?}");

    assert_eq!(codes(&fake.run(&["lint", "-A", "-o", "json"]).with(0).json()), ["SI030"]);
    fake.run(&["lint", "-A", "--deny"]).with(3);
    let allowed = fake.run(&["lint", "-A", "--deny", "--allow", "si030", "-o", "json"]).with(0);
    assert_eq!(codes(&allowed.json()), [] as [&str; 0]);
    let sarif = fake.run(&["lint", "-A", "-o", "sarif"]).with(0).json();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "SI030");
}

#[test]
fn a_namespace_alone_is_listed_alone() {
    let fake = cluster();
    fake.run(&["lint", "-n", "shop"]).with(0);
    let calls = fake.calls();
    assert!(calls.contains(&"get pods -n shop -o json".to_owned()), "{calls:?}");
    assert!(!calls.iter().any(|call| call.contains("--all-namespaces")), "{calls:?}");
    fake.run(&["lint", "-A", "-n", "shop"]).with(2).tells("--all-namespaces");
}

#[test]
fn a_refusal_names_the_role() {
    let mut fake = Fake::new();
    fake.fails(
        "get namespaces *",
        "Error from server (Forbidden): namespaces is forbidden: User \"reader\" cannot list resource \"namespaces\"",
    );
    fake.run(&["lint", "-A"]).with(1).tells("list namespaces, as role sidecar-capture-lint");
    fake.run(&["lint", "--allow", "SI999"]).with(2).tells("expected a code of docs/lint.md");
}
