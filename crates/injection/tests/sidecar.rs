//! A pod's sidecar by its annotations, and everything that can be wrong with them at once.

use crate::support::read;
use injection::configuration::ProxyReadinessProbe;
use injection::sidecar::{InitMode, Mode, Sidecar};
use injection::{AdmissionContext, Configuration};
use mesh::Problems;
use serde_json::{Value, json};

fn configured(values: &str, mesh: &str) -> Configuration {
    read("", values, mesh).expect("good texts")
}

/// The sidecar of a pod with these annotations.
fn try_of(annotations: &Value, configuration: &Configuration) -> Result<Sidecar, Problems> {
    let pod = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "app"}]}});
    Sidecar::of(&pod, &AdmissionContext::default(), &configuration.values, &configuration.mesh)
}

fn of(annotations: &Value) -> Sidecar {
    try_of(annotations, &Configuration::default()).expect("good annotations")
}

#[test]
fn annotations_over_proxy_config_over_mesh_over_values() {
    let values = "
global:
  hub: hub.example/mesh
  tag: 1.2-distroless
  variant: debug
  multiCluster: {clusterName: east}
  network: net-values
  proxy: {logLevel: info, holdApplicationUntilProxyStarts: true, startupProbe: {failureThreshold: 5}}
  proxy_init: {image: hub.example/init:3}
pilot: {env: {ENABLE_NATIVE_SIDECARS: 'false'}}
";
    let mesh =
        "defaultConfig: {interceptionMode: TPROXY, proxyMetadata: {A: mesh, B: mesh}, drainDuration: 10s}";
    let configuration = configured(values, mesh);
    let plain = try_of(&json!({}), &configuration).expect("nothing said");
    assert_eq!(
        (plain.mode, plain.init, plain.hold, plain.native),
        (Mode::Tproxy, InitMode::Capture, true, false)
    );
    assert_eq!(plain.proxy_image, "hub.example/mesh/proxyv2:1.2-debug");
    assert_eq!(plain.init_image, "hub.example/init:3");
    assert_eq!((plain.cluster.as_str(), plain.network.as_deref()), ("east", Some("net-values")));
    assert_eq!((plain.mesh_id.as_str(), plain.startup_failures), ("cluster.local", Some(5)));
    let annotated = json!({
        "proxy.istio.io/config": "proxy_metadata: {B: pod, C: pod}\nimage: {imageType: default}\nmeshID: x\n",
        "readiness.status.sidecar.istio.io/periodSeconds": "3",
        "sidecar.istio.io/agentLogLevel": "all:debug",
        "sidecar.istio.io/capNetBindService": "true",
        "sidecar.istio.io/componentLogLevel": "",
        "sidecar.istio.io/interceptionMode": "REDIRECT",
        "sidecar.istio.io/logLevel": "trace",
        "sidecar.istio.io/nativeSidecar": "true",
        "sidecar.istio.io/proxyCPU": "1",
        "sidecar.istio.io/proxyMemoryLimit": "1Gi",
        "sidecar.istio.io/rewriteAppHTTPProbers": "true",
        "prometheus.istio.io/merge-metrics": "T",
        "status.sidecar.istio.io/port": "0",
    });
    let sidecar = try_of(&annotated, &configuration).expect("good annotations");
    assert_eq!((sidecar.mode, sidecar.hold, sidecar.native), (Mode::Redirect, true, true));
    assert_eq!(sidecar.proxy_image, "hub.example/mesh/proxyv2:1.2");
    let metadata: Vec<(&str, &str)> =
        sidecar.init_variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(metadata, [("A", "mesh"), ("B", "pod"), ("C", "pod")]);
    assert_eq!(sidecar.proxy_config["drainDuration"], "10s");
    let resources = json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}});
    assert_eq!((&sidecar.resources, &sidecar.init_resources), (&resources, &resources));
    assert_eq!(sidecar.log_level, "all:debug");
    assert_eq!(sidecar.proxy_log_level.as_deref(), Some("trace"));
    assert_eq!(sidecar.proxy_component_log_level, None);
    assert_eq!((sidecar.status_port, sidecar.startup_failures), (None, None));
    assert_eq!(sidecar.readiness, ProxyReadinessProbe { initial_delay: 0, period: 3, failures: 4 });
    assert!(sidecar.binds_low_ports && sidecar.has_agent);
    assert_eq!((sidecar.proxy_identity.user, sidecar.proxy_identity.group), (0, 1337));
    let notes = "proxy.istio.io/config: meshID is not a field of a ProxyConfig and has no effect; did you mean meshId?";
    assert_eq!(sidecar.warnings, [notes]);
}

#[test]
fn cluster_and_network_by_label_then_path_then_values() {
    let configuration =
        configured("global: {network: of-values, multiCluster: {clusterName: of-values}}", "");
    let variable = |name: &str| (name.to_owned(), "of-path".to_owned());
    let path = vec![variable("ISTIO_META_NETWORK"), variable("ISTIO_META_CLUSTER_ID")];
    let check = |labels: Value, variables: &[(String, String)], network: &str, cluster: &str| {
        let admission = AdmissionContext { variables: variables.to_vec(), ..AdmissionContext::default() };
        let pod = json!({"metadata": {"labels": labels}});
        let sidecar =
            Sidecar::of(&pod, &admission, &configuration.values, &configuration.mesh).expect("a good pod");
        assert_eq!((sidecar.network.as_deref(), sidecar.cluster.as_str()), (Some(network), cluster));
    };
    check(json!({}), &[], "of-values", "of-values");
    check(json!({}), &path, "of-path", "of-path");
    check(json!({"topology.istio.io/network": "of-label"}), &path, "of-label", "of-path");
    check(json!({"topology.istio.io/network": ""}), &path, "of-path", "of-path");
    let empty = (path[0].0.clone(), String::new());
    check(json!({}), &[path.clone(), vec![empty]].concat(), "of-path", "of-path");
    let labelled = json!({"metadata": {"labels": {"topology.istio.io/network": ""}}});
    let sidecar =
        Sidecar::of(&labelled, &AdmissionContext::default(), &configuration.values, &configuration.mesh);
    assert_eq!(sidecar.expect("a good pod").network, None);
    assert_eq!(of(&json!({})).network, None);
}

#[test]
fn volumes_for_the_proxy_are_a_mapping_or_a_list_and_direct_nothing() {
    let (volumes, mounts) = ("sidecar.istio.io/userVolume", "sidecar.istio.io/userVolumeMount");
    let form =
        "expected a mapping by names or a list, such as {\"cache\": {..}} or [{\"name\": \"cache\", ..}]";
    let cache = json!([{"name": "cache", "emptyDir": {}}]);
    for (text, expected) in [
        ("", json!([])),
        (" ", json!([])),
        ("{}", json!([])),
        ("{\"cache\": {\"emptyDir\": {}}}", cache.clone()),
        ("[{\"name\": \"cache\", \"emptyDir\": {}}]", cache),
        ("{\"cache\": {\"name\": \"other\"}}", json!([{"name": "other"}])),
    ] {
        assert_eq!(json!(of(&json!({volumes: text})).user_volumes), expected, "{text}");
    }
    let mount = json!([{"name": "cache", "mountPath": "/cache"}]);
    assert_eq!(json!(of(&json!({mounts: mount.to_string()})).user_mounts), mount);
    for (name, text, expected) in [
        (volumes, "5", format!("\"5\" is neither a mapping nor a list; {form}")),
        (volumes, "[", format!("\"[\" is not JSON: EOF while parsing a list at line 1 column 1; {form}")),
        (volumes, "[5]", "\"5\" is not a mapping; expected one".to_owned()),
        (volumes, "{\"cache\": 5}", "\"5\" is not a mapping; expected one".to_owned()),
        (volumes, "[{\"name\": \"\"}]", "\"{\\\"name\\\":\\\"\\\"}\" lacks name, a text".to_owned()),
        (volumes, "[{\"name\": 5}]", "\"{\\\"name\\\":5}\" lacks name, a text".to_owned()),
        (mounts, "{\"a\": {}}", "\"{\\\"name\\\":\\\"a\\\"}\" lacks mountPath, a text".to_owned()),
        (
            volumes,
            "{\"a\": {\"b\": [{\"$patch\": \"delete\"}]}}",
            "\"{\\\"b\\\":[{\\\"$patch\\\":\\\"delete\\\"}],\\\"name\\\":\\\"a\\\"}\" has $patch, which would direct how it is merged; remove it"
                .to_owned(),
        ),
    ] {
        let Problems(problems) = try_of(&json!({name: text}), &Configuration::default()).expect_err(text);
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [format!("{name}: {expected}")], "{text}");
    }
}

#[test]
fn a_pods_proxy_config_is_one_document() {
    let name = "proxy.istio.io/config";
    for text in ["", "---\n", "{}", "---\n---\nconcurrency: 2\n"] {
        let config = of(&json!({name: text})).proxy_config;
        let expected = if text.contains("concurrency") { json!(2) } else { Value::Null };
        assert_eq!((&config["concurrency"], &config["statusPort"]), (&expected, &json!(15020)), "{text:?}");
    }
    for (text, expected) in [
        ("a: [", "is not YAML or JSON"),
        (
            "a: 1\n---\nb: 1\n",
            "proxy.istio.io/config: holds several documents; expected the fields of one ProxyConfig",
        ),
        ("- a\n", "proxy.istio.io/config: is a list; expected a mapping with fields of a ProxyConfig"),
    ] {
        let Problems(problems) = try_of(&json!({name: text}), &Configuration::default()).expect_err(text);
        assert_eq!(problems.len(), 1, "{text:?}");
        assert!(problems[0].to_string().contains(expected), "{}", problems[0]);
    }
}

#[test]
fn images_have_the_type_that_is_nearest() {
    let (image, kind, config) =
        ("sidecar.istio.io/proxyImage", "sidecar.istio.io/proxyImageType", "proxy.istio.io/config");
    for (values, annotations, proxy, init) in [
        ("{}", json!({}), "istio/proxyv2:latest", "istio/proxyv2:latest"),
        ("{variant: debug}", json!({}), "istio/proxyv2:latest-debug", "istio/proxyv2:latest-debug"),
        (
            "{variant: debug}",
            json!({kind: "distroless"}),
            "istio/proxyv2:latest-distroless",
            "istio/proxyv2:latest-distroless",
        ),
        ("{variant: debug}", json!({kind: ""}), "istio/proxyv2:latest", "istio/proxyv2:latest"),
        (
            "{variant: debug}",
            json!({config: "image: {imageType: distroless}"}),
            "istio/proxyv2:latest-distroless",
            "istio/proxyv2:latest-debug",
        ),
        (
            "{variant: debug}",
            json!({config: "image: {imageType: ''}"}),
            "istio/proxyv2:latest-debug",
            "istio/proxyv2:latest-debug",
        ),
        ("{}", json!({image: "a/b:1"}), "a/b:1", "a/b:1"),
        ("{}", json!({image: ""}), "istio/proxyv2:latest", "istio/proxyv2:latest"),
        ("{}", json!({image: "b:1"}), "istio/proxyv2:latest", "istio/proxyv2:latest"),
    ] {
        let configuration = configured(&format!("global: {values}"), "");
        let sidecar = try_of(&annotations, &configuration).expect("good annotations");
        assert_eq!(
            (sidecar.proxy_image.as_str(), sidecar.init_image.as_str()),
            (proxy, init),
            "{values} {annotations}"
        );
        let expected = "the annotation sidecar.istio.io/proxyImage is \"b:1\", which has no slash and no effect; expected a whole \
                        reference, such as hub.example/mesh/proxyv2:1.30";
        let has_effect = annotations[image] != "b:1";
        assert_eq!(sidecar.warnings, if has_effect { vec![] } else { vec![expected] }, "{annotations}");
    }
}

#[test]
fn what_counts_as_something_else_is_told() {
    let of_value = |name: &str, value: &str| of(&json!({name: value}));
    let (low, native, probes) = (
        "sidecar.istio.io/capNetBindService",
        "sidecar.istio.io/nativeSidecar",
        "sidecar.istio.io/rewriteAppHTTPProbers",
    );
    for (name, value, expected) in [
        (low, "true", None),
        (low, "", None),
        (low, "1", Some("the annotation sidecar.istio.io/capNetBindService is \"1\" and counts as false")),
        (native, "true", None),
        (native, "false", None),
        (native, "", None),
        (native, "no", Some("the annotation sidecar.istio.io/nativeSidecar is \"no\" and counts as true")),
        (probes, "1", None),
        (
            probes,
            "yes",
            Some(
                "the annotation sidecar.istio.io/rewriteAppHTTPProbers is \"yes\", which is not a boolean, and has no effect; \
                 expected true or false",
            ),
        ),
    ] {
        let sidecar = of_value(name, value);
        assert_eq!(
            sidecar.warnings,
            expected.map(str::to_owned).into_iter().collect::<Vec<_>>(),
            "{name} {value}"
        );
        let found = (sidecar.binds_low_ports, sidecar.native);
        assert_eq!(
            found,
            (name == low && value == "true", name == native && ["true", "no"].contains(&value))
        );
    }
    let port = "status.sidecar.istio.io/port";
    for (text, expected) in [(" 80 ", Some(80)), ("0", None), ("65535", Some(65535))] {
        assert_eq!(of_value(port, text).status_port, expected, "{text}");
    }
    for text in ["+80", "65536", "8 0", "-1"] {
        assert!(try_of(&json!({port: text}), &Configuration::default()).is_err(), "{text}");
    }
}
