//! An injected pod, as stored by the API server, equals this injector's result; under another configuration, each difference is
//! located.

use super::cases::{Case, Setup};
use injection::compare::{ComparisonVerdict, compare};
use injection::trial::trial;
use injection::{Configuration, InjectionOutcome, Namespaces};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Injected containers as an API server stores them: with defaults, the token's mount, and other spellings of amounts.
fn stored(mut pod: Value) -> Value {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            for (field, default) in
                [("terminationMessagePath", "/dev/termination-log"), ("terminationMessagePolicy", "File")]
            {
                container[field] = container.get(field).cloned().unwrap_or(default.into());
            }
            if container["imagePullPolicy"].is_null() {
                let is_latest = container["image"]
                    .as_str()
                    .is_none_or(|image| !image.contains(':') || image.ends_with(":latest"));
                container["imagePullPolicy"] = if is_latest { "Always" } else { "IfNotPresent" }.into();
            }
            for port in container["ports"].as_array_mut().into_iter().flatten() {
                port["protocol"] = port.get("protocol").cloned().unwrap_or("TCP".into());
            }
            for variable in container["env"].as_array_mut().into_iter().flatten() {
                if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
                    field["apiVersion"] = "v1".into();
                }
            }
            // The API type omits zeros.
            let probe = container["readinessProbe"].as_object_mut().into_iter();
            probe.for_each(|probe| probe.retain(|_, value| value != 0));
            let limits = container["resources"]["limits"].clone();
            if limits["cpu"] == "2000m" {
                container["resources"]["limits"] = json!({"cpu": "2", "memory": "1Gi"});
            }
            if !container["volumeMounts"].is_array() {
                container["volumeMounts"] = json!([]);
            }
            let token = json!({"name": "kube-api-access-x2x8l", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true});
            let mounts = container["volumeMounts"].as_array_mut().expect("a list");
            if !mounts.contains(&token) {
                mounts.push(token);
            }
        }
    }
    let volumes = pod["spec"]["volumes"].as_array_mut().into_iter().flatten();
    volumes.filter_map(|volume| volume.get_mut("configMap")).for_each(|map| map["defaultMode"] = 420.into());
    pod["spec"]["nodeName"] = "node-1".into();
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn verdict(setup: &Setup, pod: &Value, configuration: &Configuration) -> ComparisonVerdict {
    let namespace = &setup.admission.namespace;
    let namespaces = Namespaces::new(&namespace.name, None, namespace.annotations.clone());
    compare(pod, &namespaces, &setup.admission.variables, configuration).verdict
}

/// A running pod: webhooks get it with defaults, and their additions get defaults too.
fn made(setup: &Setup, pod: &Value) -> Option<Value> {
    match setup.inject(&stored(pod.clone())) {
        Ok(InjectionOutcome::Injected(done)) => Some(stored(done.pod)),
        Ok(InjectionOutcome::Skipped(_)) | Err(_) => None,
    }
}

#[test]
fn injected_pods_have_no_difference() {
    let mut compared = 0;
    for case in Case::all() {
        let Some(pod) = made(case.setup(), &case.pod()) else { continue };
        let found = verdict(case.setup(), &pod, &case.setup().configuration);
        assert!(matches!(found, ComparisonVerdict::Same), "{}: {found:#?}", case.name);
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

fn setup(head: &Value) -> Setup {
    Setup::read(head.as_object().expect("a mapping"))
}

#[test]
fn another_configuration_is_reported_place_by_place() {
    let before = setup(&json!({"values": {"global": {"tag": "1.30"}}}));
    let pod = json!({
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "example/web:1"}]},
    });
    let runs = made(&before, &pod).expect("injected");
    assert!(matches!(verdict(&before, &pod, &before.configuration), ComparisonVerdict::NotInjected));
    // A status that another program has changed.
    let mut unread = runs.clone();
    unread["metadata"]["annotations"]["sidecar.istio.io/status"] = "injected".into();
    let found = verdict(&before, &unread, &before.configuration);
    assert!(matches!(&found, ComparisonVerdict::Differs(_) | ComparisonVerdict::Refused(_)), "{found:?}");
    let check = |values: Value, expected: &[&str]| {
        let after = setup(&json!({"values": values}));
        let ComparisonVerdict::Differs(found) = verdict(&after, &runs, &after.configuration) else {
            panic!("{values}")
        };
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    };
    let image = |list: &str, name: &str| {
        format!("spec.{list}[{name}].image: \"istio/proxyv2:1.30\" would be \"istio/proxyv2:1.31\"")
    };
    check(
        json!({"global": {"tag": "1.31"}}),
        &[&image("containers", "istio-proxy"), &image("initContainers", "istio-init")],
    );
    check(
        json!({"global": {"tag": "1.30", "proxy": {"resources": {"limits": {"cpu": "2", "memory": "512Mi"}, "requests": {"cpu": "0.1", "memory": "128Mi"}}}}}),
        &[
            "spec.containers[istio-proxy].resources.limits.memory: \"1Gi\" would be \"512Mi\"",
            "spec.initContainers[istio-init].resources.limits.memory: \"1Gi\" would be \"512Mi\"",
        ],
    );
    let never = setup(&json!({"config": {"neverInjectSelector": [{"matchLabels": {"app": "web"}}]}}));
    assert!(matches!(verdict(&never, &runs, &never.configuration), ComparisonVerdict::Skipped(_)));
    let gone = setup(&json!({"config": {"templates": {"sidecar": "{{ fail `no` }}"}}}));
    assert!(matches!(verdict(&gone, &runs, &gone.configuration), ComparisonVerdict::Refused(_)));
}

#[test]
fn each_template_is_tried_by_itself() {
    let head = json!({"config": {"templates": {
        "good": "spec: {containers: [{name: x, image: y}]}",
        "bad": "spec: {containers: [{image: y}]}",
        "worse": "{{ .Nothing.Of.This }}",
    }, "aliases": {"good": ["good", "bad"]}, "policy": "off"}});
    let tried: BTreeMap<String, usize> = trial(&setup(&head).configuration)
        .into_iter()
        .map(|tried| (tried.template, tried.problems.len()))
        .collect();
    assert_eq!((tried["good"], tried["sidecar"]), (0, 0));
    assert!(tried["bad"] > 0 && tried["worse"] > 0, "{tried:?}");
}

#[test]
fn all_verdicts_with_differences_are_changes() {
    let reason = injection::decision::DecisionReason::Label;
    for (verdict, is_change) in [
        (ComparisonVerdict::NotInjected, false),
        (ComparisonVerdict::Same, false),
        (ComparisonVerdict::Differs(Vec::new()), true),
        (ComparisonVerdict::Skipped(reason), true),
        (ComparisonVerdict::Refused(mesh::Problems(Vec::new())), true),
    ] {
        assert_eq!(verdict.is_change(), is_change, "{verdict:?}");
    }
}
