//! What Istio's own injector makes of a pod, a template and values, kind by kind: a row for each that was once different here.
//! The templates are ours; they make the calls that Istio's make.

use super::cases::Setup;
use injection::InjectionOutcome;
use injection::pipeline::OVERRIDES;
use serde_json::{Value, json};

/// A proxy among the containers, and one that starts first.
const SIDECAR: &str = r#"
metadata:
  annotations:
    example.com/made-by: sidecar
    {{- range $name, $text := .Values.annotations }}
    {{ $name }}: {{ $text | quote }}
    {{- end }}
spec:
  initContainers:
  - name: istio-init
    image: "{{ .ProxyInitImage }}"
    args: [istio-iptables, "-p", "15001", "-u", "{{ .ProxyUID }}"]
  {{- if .Values.first }}
  - name: istio-proxy
    restartPolicy: Always
  {{- else }}
  containers:
  - name: istio-proxy
  {{- end }}
    image: "{{ .ProxyImage }}"
    ports: [{name: metrics, containerPort: 15090}]
    {{- with .Values.global.proxy.resources }}
    resources: {{ toJSON . }}
    {{- end }}
    env:
    - name: OWNER
      value: "kubernetes://apis/{{ .TypeMeta.APIVersion }}/namespaces/{{ .DeploymentMeta.Namespace }}/{{ toLower .TypeMeta.Kind }}s/{{ .DeploymentMeta.Name }}"
    - name: PORTS
      value: "{{ range .Spec.Containers }}{{ .Name }}:{{ range .Ports }}{{ .ContainerPort }}{{ end }} {{ end }}"
    {{- range $name, $text := .ProxyConfig.ProxyMetadata }}
    - {name: {{ $name }}, value: {{ $text | quote }}}
    {{- end }}
"#;

/// What is found at a path of fields, items by their names or numbers; null where nothing is.
fn find<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split(" > ").fold(value, |value, step| match value {
        Value::Array(items) => match step.parse::<usize>() {
            Ok(at) => items.get(at).unwrap_or(&Value::Null),
            Err(_) => items.iter().find(|item| item["name"] == step).unwrap_or(&Value::Null),
        },
        other => other.get(step).unwrap_or(&Value::Null),
    })
}

fn setup(values: &Value, mesh: &Value) -> Setup {
    let head = json!({"config": {"templates": {"sidecar": SIDECAR}}, "values": values, "mesh": mesh, "namespace": {"name": "shop"}});
    Setup::read(head.as_object().expect("a mapping"))
}

/// A pod of annotations, containers beside `web`, and fields of `web`.
fn pod(annotations: &Value, more: &[Value], web: &Value) -> Value {
    let mut container =
        json!({"name": "web", "image": "example/web:1", "ports": [{"name": "http", "containerPort": 8080}]});
    for (field, value) in web.as_object().expect("fields") {
        container[field] = value.clone();
    }
    let containers: Vec<&Value> = [&container].into_iter().chain(more).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": {"containers": containers},
    })
}

fn check(about: &str, setup: &Setup, pod: &Value, expected: &[(&str, Value)]) {
    let Ok(InjectionOutcome::Injected(done)) = setup.inject(pod) else {
        panic!("{about}: {:?}", setup.inject(pod))
    };
    for (path, expected) in expected {
        let found = find(&done.pod, path);
        // JSON within a text counts as what it says.
        let read = found.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let found =
            read.filter(|read| read.is_object() && expected.is_object()).unwrap_or_else(|| found.clone());
        assert_eq!(&found, expected, "{about}: {path}");
    }
    let Ok(InjectionOutcome::Injected(again)) = setup.inject(&done.pod) else { panic!("{about}, again") };
    assert_eq!(again.pod, done.pod, "{about}, again");
}

fn refused(about: &str, setup: &Setup, pod: &Value, expected: &str) {
    let shown = setup.inject(pod).expect_err(about).to_string();
    assert!(shown.contains(expected), "{about}: {shown}");
}

const PROXY_ENV: &str = "spec > containers > istio-proxy > env > ";

#[test]
fn the_status_port_is_the_meshs_or_the_annotations() {
    let values = json!({"global": {"proxy": {"statusPort": 15099}}, "sidecarInjectorWebhook": {"rewriteAppHTTPProbe": true}});
    let probe = json!({"readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}}});
    let port = "spec > containers > web > readinessProbe > httpGet > port";
    let scraped = "metadata > annotations > prometheus.io/port";
    let merging = |port: u16| json!({"enablePrometheusMerge": true, "defaultConfig": {"statusPort": port}});
    let rows = [
        (json!({"enablePrometheusMerge": true}), json!({}), 15020),
        (merging(15030), json!({}), 15030),
        (merging(15030), json!({"status.sidecar.istio.io/port": "15040"}), 15040),
        // The pod's own ProxyConfig does not count.
        (merging(15030), json!({"proxy.istio.io/config": "statusPort: 15050"}), 15030),
    ];
    for (mesh, annotations, expected) in rows {
        let setup = setup(&values, &mesh);
        let expected = [(port, json!(expected)), (scraped, json!(expected.to_string()))];
        check(&format!("{mesh} {annotations}"), &setup, &pod(&annotations, &[], &probe), &expected);
    }
    let off = pod(&json!({"status.sidecar.istio.io/port": "0"}), &[], &probe);
    check(
        "no agent",
        &setup(&values, &merging(15030)),
        &off,
        &[(port, json!("http")), (scraped, Value::Null)],
    );
}

#[test]
fn a_null_is_an_absent_value() {
    let resources = "spec > containers > istio-proxy > resources";
    let rows = [
        (json!({"limits": {"cpu": null, "memory": "1Gi"}}), json!({"limits": {"memory": "1Gi"}})),
        (json!({"limits": null, "requests": {"cpu": "1"}}), json!({"requests": {"cpu": "1"}})),
        (Value::Null, Value::Null),
    ];
    for (given, expected) in rows {
        let setup = setup(&json!({"global": {"proxy": {"resources": given}}}), &json!({}));
        check(
            &format!("resources: {given}"),
            &setup,
            &pod(&json!({}), &[], &json!({})),
            &[(resources, expected)],
        );
    }
    // Where a key has a default and is not a tree of its author's, the default counts.
    let setup = setup(&json!({"global": {"proxy": {"image": null}, "hub": null}, "pilot": null}), &json!({}));
    let image = ("spec > containers > istio-proxy > image", json!("istio/proxyv2:latest"));
    check("image: null", &setup, &pod(&json!({}), &[], &json!({})), &[image]);
}

#[test]
fn what_a_template_annotates_counts() {
    let probe = json!({"readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}}});
    let get = "spec > containers > web > readinessProbe > httpGet > port";
    let scraped = "metadata > annotations > prometheus.io/port";
    let rows = [
        (json!({}), json!(15020), json!("15020")),
        (json!({"sidecar.istio.io/rewriteAppHTTPProbers": "false"}), json!(8080), json!("15020")),
        (json!({"prometheus.istio.io/merge-metrics": "false"}), json!(15020), Value::Null),
        (json!({"status.sidecar.istio.io/port": "15021"}), json!(15021), json!("15021")),
        (json!({"traffic.sidecar.istio.io/excludeInboundPorts": "8080"}), json!(8080), json!("15020")),
    ];
    for (annotations, port, prometheus) in rows {
        let values =
            json!({"annotations": annotations, "sidecarInjectorWebhook": {"rewriteAppHTTPProbe": true}});
        let setup = setup(&values, &json!({"enablePrometheusMerge": true}));
        let expected = [(get, port), (scraped, prometheus)];
        check(&annotations.to_string(), &setup, &pod(&json!({}), &[], &probe), &expected);
    }
}

#[test]
fn several_places_to_scrape_and_a_secure_one() {
    let setup = setup(&json!({}), &json!({"enablePrometheusMerge": true}));
    let shown = format!("{PROXY_ENV}ISTIO_PROMETHEUS_ANNOTATIONS > value");
    let annotations =
        json!({"prometheus.istio.io/scrape-targets": " 8080:/a , 9100,", "prometheus.io/scrape": "true"});
    let targets = json!([{"port": "8080", "path": "/a"}, {"port": "9100", "path": "/metrics"}]);
    let expected = json!({"scrape": "true", "path": "", "port": "", "targets": targets});
    check("targets", &setup, &pod(&annotations, &[], &json!({})), &[(&shown, expected)]);
    // A list that can't be read leaves the single port.
    let annotations = json!({"prometheus.istio.io/scrape-targets": ":/a", "prometheus.io/port": "9090"});
    let expected = json!({"scrape": "", "path": "", "port": "9090"});
    check("no port", &setup, &pod(&annotations, &[], &json!({})), &[(&shown, expected)]);
    for port in ["0", "15000", "15004", "15020", "15021", "15090", "015090", "70000", "http"] {
        let targets = json!({"prometheus.istio.io/scrape-targets": format!("{port}:/x,9100")});
        let named = format!("prometheus.istio.io/scrape-targets: \"{port}\" is");
        refused(port, &setup, &pod(&targets, &[], &json!({})), &named);
    }
    let refusing = json!({"prometheus.istio.io/scrape-targets": "15090:/x", "prometheus.istio.io/merge-metrics": "false"});
    check("not merged", &setup, &pod(&refusing, &[], &json!({})), &[(&shown, Value::Null)]);

    let secure = "metadata > annotations > prometheus.istio.io/secure-port";
    let config = |port: &str| json!({"proxy.istio.io/config": format!("proxyMetadata: {{ENVOY_SECURE_MERGED_METRICS_PORT: {port:?}}}")});
    check("a secure port", &setup, &pod(&config("15092"), &[], &json!({})), &[(secure, json!("15092"))]);
    check("none", &setup, &pod(&config("0"), &[], &json!({})), &[(secure, Value::Null)]);
}

#[test]
fn the_pods_own_proxy() {
    let plain = setup(&json!({}), &json!({}));
    let own = |list: &Value| json!({"name": "istio-proxy", "image": "auto", "ports": list});
    let port = json!([{"containerPort": 9000}]);
    let ports = |list: &str| format!("spec > {list} > istio-proxy > env > PORTS > value");
    let beside = pod(&json!({}), &[own(&port)], &json!({}));
    check(
        "among the containers",
        &plain,
        &beside,
        &[(&ports("containers"), json!("web:8080 istio-proxy:9000 "))],
    );
    // Where the template starts it first, its author's is moved there, and templates see it where he wrote it.
    let first = setup(&json!({"first": true}), &json!({}));
    let moved = [
        (&*ports("initContainers"), json!("web:8080 istio-proxy:9000 ")),
        ("spec > initContainers > istio-proxy > restartPolicy", json!("Always")),
        ("spec > containers > istio-proxy", Value::Null),
    ];
    check("moved", &first, &beside, &moved);
    let mut starting = pod(&json!({}), &[], &json!({}));
    starting["spec"]["initContainers"] =
        json!([{"name": "istio-proxy", "image": "auto", "restartPolicy": "Always", "ports": port}]);
    check("a native one", &first, &starting, &[(&ports("initContainers"), json!("web:8080 "))]);
    let kept = json!({"initContainers": [{"name": "istio-proxy", "restartPolicy": "Always", "ports": port}]});
    check("its record", &first, &starting, &[(&format!("metadata > annotations > {OVERRIDES}"), kept)]);
}

#[test]
fn order_with_hold_and_native_sidecars() {
    let names = |list: &str| [format!("spec > {list} > 0 > name"), format!("spec > {list} > 1 > name")];
    let [first, second] = names("containers");
    let hold = json!({"proxy.istio.io/config": "holdApplicationUntilProxyStarts: true"});
    let both = json!({
        "proxy.istio.io/config": "holdApplicationUntilProxyStarts: true", "sidecar.istio.io/nativeSidecar": "true",
    });
    let plain = setup(&json!({}), &json!({}));
    let order = |one: &str, other: &str| [(&*first, json!(one)), (&*second, json!(other))];
    check("plain", &plain, &pod(&json!({}), &[], &json!({})), &order("web", "istio-proxy"));
    check("hold", &plain, &pod(&hold, &[], &json!({})), &order("istio-proxy", "web"));
    // The template decides where the proxy is, and this one has it among the containers.
    check("hold and native", &plain, &pod(&both, &[], &json!({})), &order("istio-proxy", "web"));
    let native = setup(&json!({"first": true}), &json!({}));
    let mut starting = pod(&both, &[], &json!({}));
    starting["spec"]["initContainers"] = json!([{"name": "migrate", "image": "example/migrate:1"}]);
    let expected = [
        ("spec > initContainers > 0 > name", json!("istio-init")),
        ("spec > initContainers > 1 > name", json!("istio-proxy")),
        ("spec > initContainers > 2 > name", json!("migrate")),
    ];
    check("native", &native, &starting, &expected);
}

#[test]
fn owners_and_networks() {
    let plain = setup(&json!({"global": {"network": "of-values"}}), &json!({}));
    let mut given = pod(&json!({}), &[], &json!({}));
    let owner = json!({"apiVersion": "v1", "kind": "ReplicationController", "name": "web-1", "uid": "1", "controller": true});
    given["metadata"] = json!({
        "generateName": "web-1-",
        "namespace": "shop",
        "labels": {"deploymentconfig": "web"},
        "ownerReferences": [owner],
    });
    let expected = [
        (
            &*format!("{PROXY_ENV}OWNER > value"),
            json!("kubernetes://apis/v1/namespaces/shop/deploymentconfigs/web"),
        ),
        ("metadata > labels > topology.istio.io/network", json!("of-values")),
    ];
    check("of a DeploymentConfig", &plain, &given, &expected);
    given["metadata"]["labels"]["topology.istio.io/network"] = "".into();
    let network = format!("{PROXY_ENV}ISTIO_META_NETWORK");
    check("an empty label", &plain, &given, &[(&network, Value::Null)]);
}

#[test]
fn probes_as_the_agent_reads_them() {
    let rewriting = setup(&json!({"sidecarInjectorWebhook": {"rewriteAppHTTPProbe": true}}), &json!({}));
    let shown = format!("{PROXY_ENV}ISTIO_KUBE_APP_PROBERS > value");
    let web = json!({
        "readinessProbe": {"httpGet": {"path": "/r", "port": "htttp"}},
        "livenessProbe": {"grpc": {"port": 9000}},
        "startupProbe": {"httpGet": {"path": "/s", "port": 15020}, "timeoutSeconds": 4},
    });
    let expected = json!({
        "/app-health/web/livez": {"grpc": {"port": 9000, "service": null}},
        "/app-health/web/startupz": {"httpGet": {"path": "/s", "port": 15020}, "timeoutSeconds": 4},
    });
    let probe =
        ("spec > containers > web > readinessProbe", json!({"httpGet": {"path": "/r", "port": "htttp"}}));
    check("an unknown port", &rewriting, &pod(&json!({}), &[], &web), &[(&shown, expected), probe]);
}
