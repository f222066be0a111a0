//! The built-in templates: what they make of a pod, and which pods they refuse.

use injection::configuration::{Configuration, ConfigurationText, Texts};
use injection::pipeline::Workload;
use injection::sidecar::Sidecar;
use injection::template::{BuiltIn, InjectionTemplate, TemplateContext};
use injection::{AdmissionContext, InjectionOutcome, Namespace, inject};
use mesh::Problems;
use serde_json::{Value, json};

/// A pod with these annotations.
fn pod(annotations: Value) -> Value {
    let mut pod = json!({
        "metadata": {"labels": {"app": "shop-web"}},
        "spec": {"containers": [
            {"name": "web", "ports": [{"containerPort": 8080}, {"containerPort": 9090}]},
            {"name": "helper"},
        ]},
    });
    pod["metadata"]["annotations"] = annotations;
    pod
}

/// What a template makes of a pod.
fn render(template: BuiltIn, annotations: Value, values: Value) -> Result<Value, Problems> {
    let pod = pod(annotations);
    let defaults = json!({
        "defaultConfig": {"proxyMetadata": {"ZONE": "b", "ISTIO_META_DNS_CAPTURE": "true"}},
    });
    let [values, mesh] = [values, defaults].map(|data| data.to_string());
    let texts = Texts {
        values: Some(ConfigurationText { name: "values", text: &values }),
        mesh: Some(ConfigurationText { name: "mesh", text: &mesh }),
        ..Texts::default()
    };
    let configuration = Configuration::read(&texts)?;
    let text = str::to_owned;
    let admission = AdmissionContext {
        namespace: Namespace { name: text("shop"), ..Namespace::default() },
        workload: Some(Workload {
            api_version: text("apps/v1"),
            kind: text("Deployment"),
            name: text("web"),
            namespace: text("shop"),
        }),
        ..AdmissionContext::default()
    };
    let mut sidecar = Sidecar::of(&pod, &admission, &configuration.values, &configuration.mesh)?;
    let template = InjectionTemplate::BuiltIn(template);
    template.adapt(&mut sidecar);
    template.render(
        &TemplateContext {
            pod: &pod,
            admission: &admission,
            sidecar: &sidecar,
            values: &configuration.values,
            mesh: &configuration.mesh,
        },
        &mut Vec::new(),
    )
}

fn istio(annotations: Value, values: Value) -> Value {
    render(BuiltIn::Sidecar, annotations, values).expect("a patch")
}

/// `NAME=VALUE` for each variable, with the place behind `<` where it comes from elsewhere.
fn variables(container: &Value) -> Vec<String> {
    let variables = container["env"].as_array().expect("variables").iter();
    let shown = |variable: &Value| {
        let name = variable["name"].as_str().expect("a name");
        let from = variable.pointer("/valueFrom/fieldRef/fieldPath");
        let from = from.or_else(|| variable.pointer("/valueFrom/resourceFieldRef/resource"));
        match from.and_then(Value::as_str) {
            Some(from) => format!("{name}<{from}"),
            None => format!("{name}={}", variable["value"].as_str().expect("a value")),
        }
    };
    variables.map(shown).collect()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

#[test]
fn istios_proxy_by_default() {
    let patch = istio(json!({}), json!({}));
    let proxy = &patch["spec"]["containers"][0];
    let expected = r#"PILOT_CERT_PROVIDER=istiod
CA_ADDR=istiod.istio-system.svc:15012
POD_NAME<metadata.name
POD_NAMESPACE<metadata.namespace
INSTANCE_IP<status.podIP
SERVICE_ACCOUNT<spec.serviceAccountName
HOST_IP<status.hostIP
ISTIO_CPU_LIMIT<limits.cpu
PROXY_CONFIG={}
ISTIO_META_POD_PORTS=[{"containerPort":8080},{"containerPort":9090}]
ISTIO_META_APP_CONTAINERS=web,helper
GOMEMLIMIT<limits.memory
GOMAXPROCS<limits.cpu
ISTIO_META_CLUSTER_ID=Kubernetes
ISTIO_META_NODE_NAME<spec.nodeName
ISTIO_META_INTERCEPTION_MODE=REDIRECT
ISTIO_META_WORKLOAD_NAME=web
ISTIO_META_OWNER=kubernetes://apis/apps/v1/namespaces/shop/deployments/web
ISTIO_META_MESH_ID=cluster.local
TRUST_DOMAIN=cluster.local
ISTIO_META_DNS_CAPTURE=true
ZONE=b"#;
    let shown: Vec<String> = (variables(proxy).into_iter())
        .map(|shown| if shown.starts_with("PROXY_CONFIG={") { "PROXY_CONFIG={}".to_owned() } else { shown })
        .collect();
    assert_eq!(shown.join("\n"), expected);
    let arguments = json!([
        "proxy",
        "sidecar",
        "--domain",
        "$(POD_NAMESPACE).svc.cluster.local",
        "--proxyLogLevel=warning",
        "--proxyComponentLogLevel=misc:error",
        "--log_output_level=default:info",
    ]);
    assert_eq!(proxy["args"], arguments);
    assert_eq!(proxy["ports"][0]["containerPort"], 15090);
    assert_eq!(proxy["startupProbe"]["failureThreshold"], 600);
    assert_eq!(proxy["readinessProbe"]["periodSeconds"], 15);
    assert_eq!(proxy["resources"]["requests"]["cpu"], "100m");
    assert_eq!(proxy.get("lifecycle"), None);
    let security = json!({
        "allowPrivilegeEscalation": false, "privileged": false, "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true, "runAsGroup": 1337, "runAsNonRoot": true, "runAsUser": 1337,
    });
    assert_eq!(proxy["securityContext"], security);
    let volumes = [
        "workload-socket",
        "credential-socket",
        "workload-certs",
        "istio-envoy",
        "istio-data",
        "istio-podinfo",
        "istio-token",
        "istiod-ca-cert",
        "istio-ca-crl",
    ];
    assert_eq!(names(&patch["spec"]["volumes"]), volumes);
    let mut mounted = names(&proxy["volumeMounts"]);
    let mut volumes = volumes.to_vec();
    mounted.sort_unstable();
    volumes.sort_unstable();
    assert_eq!(mounted, volumes);
    let init = &patch["spec"]["initContainers"][0];
    assert_eq!(init["name"], "istio-init");
    assert_eq!(init["args"][0], "istio-iptables");
    assert_eq!(
        init["securityContext"]["capabilities"],
        json!({"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]})
    );
    assert_eq!(variables(init), ["ISTIO_META_DNS_CAPTURE=true", "ZONE=b"]);
    assert_eq!(patch["metadata"]["labels"]["service.istio.io/canonical-name"], "shop-web");
    let annotations = json!({
        "istio.io/rev": "default",
        "kubectl.kubernetes.io/default-container": "web",
        "kubectl.kubernetes.io/default-logs-container": "web",
    });
    assert_eq!(patch["metadata"]["annotations"], annotations);
}

#[test]
fn native_hold_and_the_agent_turned_off() {
    let hold = json!({"global": {"proxy": {"holdApplicationUntilProxyStarts": true}}});
    let patch = istio(json!({"sidecar.istio.io/nativeSidecar": "true"}), hold.clone());
    assert_eq!(patch["spec"].get("containers"), None);
    assert_eq!(names(&patch["spec"]["initContainers"]), ["istio-init", "istio-proxy"]);
    let proxy = &patch["spec"]["initContainers"][1];
    assert_eq!(proxy["restartPolicy"], "Always");
    assert_eq!(proxy["lifecycle"]["preStop"]["exec"]["command"][2], "--debug-port=15020");
    assert_eq!(proxy["lifecycle"].get("postStart"), None);
    let patch = istio(json!({"status.sidecar.istio.io/port": "0"}), hold);
    let proxy = &patch["spec"]["containers"][0];
    assert_eq!(proxy["lifecycle"], json!({"postStart": {"exec": {"command": ["pilot-agent", "wait"]}}}));
    assert_eq!((proxy.get("readinessProbe"), proxy.get("startupProbe")), (None, None));
}

#[test]
fn users_and_capabilities() {
    let check = |annotations: Value, added: Value, user: i64| {
        let patch = istio(annotations, json!({}));
        let security = &patch["spec"]["containers"][0]["securityContext"];
        assert_eq!(security["capabilities"]["add"], added);
        assert_eq!((&security["runAsUser"], &security["runAsGroup"]), (&json!(user), &json!(1337)));
        assert_eq!(security["runAsNonRoot"], user != 0);
    };
    check(json!({}), Value::Null, 1337);
    check(json!({"sidecar.istio.io/interceptionMode": "TPROXY"}), json!(["NET_ADMIN"]), 0);
    check(json!({"sidecar.istio.io/capNetBindService": "true"}), json!(["NET_BIND_SERVICE"]), 0);
    let both = json!({
        "sidecar.istio.io/interceptionMode": "TPROXY", "sidecar.istio.io/capNetBindService": "true",
    });
    check(both, json!(["NET_ADMIN", "NET_BIND_SERVICE"]), 0);
}

#[test]
fn a_plugin_gets_its_settings_by_annotations() {
    let cni = json!({"pilot": {"cni": {"enabled": true}}});
    let patch = istio(json!({"traffic.sidecar.istio.io/excludeInboundPorts": "7"}), cni.clone());
    let init = &patch["spec"]["initContainers"][0];
    assert_eq!(init["name"], "istio-validation");
    let security = json!({
        "allowPrivilegeEscalation": false, "privileged": false, "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true, "runAsGroup": 1337, "runAsNonRoot": true, "runAsUser": 1337,
    });
    assert_eq!(init["securityContext"], security);
    let annotations = patch["metadata"]["annotations"].as_object().expect("annotations");
    let shown: Vec<String> = annotations
        .iter()
        .filter(|(key, _)| key.contains(".istio.io/"))
        .map(|(key, value)| format!("{key}={}", value.as_str().expect("a text")))
        .collect();
    let expected = [
        "sidecar.istio.io/interceptionMode=REDIRECT",
        "traffic.sidecar.istio.io/excludeInboundPorts=7,15020",
        "traffic.sidecar.istio.io/includeInboundPorts=*",
        "traffic.sidecar.istio.io/includeOutboundIPRanges=*",
    ];
    assert_eq!(shown, expected);
    let networks = |own: &str| {
        let values = json!({"pilot": {"cni": {"enabled": true, "provider": "multus"}}});
        let patch = istio(json!({"k8s.v1.cni.cncf.io/networks": own}), values);
        patch["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].as_str().expect("a text").to_owned()
    };
    assert_eq!(networks(""), "default/istio-cni");
    assert_eq!(networks("a,default/istio-cni"), "a,default/istio-cni");
    assert_eq!(
        networks(r#"[{"name": "a"}]"#),
        r#"[{"name": "a"}, {"name":"istio-cni","namespace":"default"}]"#
    );
    let nothing = istio(json!({"sidecar.istio.io/interceptionMode": "NONE"}), cni);
    assert_eq!(nothing["spec"].get("initContainers"), None);
}

#[test]
fn values_and_annotations_are_read() {
    let values = json!({
        "revision": "blue",
        "global": {
            "imagePullSecrets": ["key"], "meshID": "mesh", "sts": {"servicePort": 15463},
            "proxy": {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}, "startupProbe": {"enabled": false}},
        },
    });
    let often = json!({
        "readiness.status.sidecar.istio.io/periodSeconds": "3", "sidecar.istio.io/bootstrapOverride": "own",
    });
    let patch = istio(often, values);
    let proxy = &patch["spec"]["containers"][0];
    assert_eq!(proxy["readinessProbe"]["periodSeconds"], 3);
    assert_eq!(proxy.get("startupProbe"), None);
    assert_eq!(proxy["lifecycle"], json!({"preStop": {"sleep": {"seconds": 5}}}));
    let shown = variables(proxy);
    for expected in ["CA_ADDR=istiod-blue.istio-system.svc:15012", "ISTIO_META_MESH_ID=mesh"] {
        assert!(shown.iter().any(|variable| variable == expected), "{expected}: {shown:#?}");
    }
    assert!(proxy["args"].as_array().expect("arguments").contains(&json!("--stsPort=15463")));
    assert!(names(&proxy["volumeMounts"]).contains(&"custom-bootstrap-volume"));
    assert_eq!(patch["spec"]["imagePullSecrets"], json!([{"name": "key"}]));
    assert_eq!(patch["metadata"]["annotations"]["istio.io/rev"], "blue");
}

#[test]
fn envoy_alone() {
    let values = json!({"envoy": {"image": "example/envoy:1", "configMap": "edge", "readyPort": 15021}});
    let patch = render(BuiltIn::Envoy, json!({}), values.clone()).expect("a patch");
    let envoy = &patch["spec"]["containers"][0];
    assert_eq!(envoy["image"], "example/envoy:1");
    let ports: Vec<&Value> =
        envoy["ports"].as_array().expect("ports").iter().map(|port| &port["containerPort"]).collect();
    assert_eq!(ports, [15006, 15001]);
    assert_eq!(envoy["securityContext"]["runAsUser"], 1337);
    assert_eq!(envoy["readinessProbe"]["httpGet"]["port"], 15021);
    assert_eq!(patch["spec"]["volumes"], json!([{"name": "envoy-config", "configMap": {"name": "edge"}}]));
    let arguments = patch["spec"]["initContainers"][0]["args"].as_array().expect("arguments");
    assert_eq!(arguments[2], "15001");
    let ready = |port: &str| json!({"envoy.sidecar-init/ready-port": port});
    let patch = render(BuiltIn::Envoy, ready("ready"), values.clone()).expect("a patch");
    assert_eq!(patch["spec"]["containers"][0]["startupProbe"]["httpGet"]["port"], "ready");
    let patch = render(BuiltIn::Envoy, ready("0"), values.clone()).expect("a patch");
    assert_eq!(patch["spec"]["containers"][0].get("readinessProbe"), None);
    let refused = render(BuiltIn::Envoy, ready("70000"), values).expect_err("no port").to_string();
    let expected =
        "template envoy: annotation envoy.sidecar-init/ready-port: \"70000\" is not a port from 1 to 65535";
    assert!(refused.contains(expected), "{refused}");
    let refused = render(BuiltIn::Envoy, json!({}), json!({"envoy": {"image": [], "readyPort": "no port"}}));
    let refused = refused.expect_err("two problems").to_string();
    for expected in
        ["values: envoy.image: is a list or a mapping", "values: envoy.readyPort: \"no port\" is not a port"]
    {
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn linkerds_proxy() {
    let linkerd = json!({"identityTrustAnchorsPEM": "PEM", "image": "example/linkerd:1"});
    let values = json!({"linkerd": linkerd});
    let ports = || json!({"traffic.sidecar.istio.io/excludeInboundPorts": "7"});
    let patch = render(BuiltIn::Linkerd, ports(), values.clone()).expect("a patch");
    let proxy = &patch["spec"]["containers"][0];
    assert_eq!(proxy["image"], "example/linkerd:1");
    assert_eq!(proxy["securityContext"]["runAsUser"], 2102);
    let variables = variables(proxy);
    for expected in [
        "LINKERD2_PROXY_INBOUND_LISTEN_ADDR=0.0.0.0:4143",
        "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR=127.0.0.1:4140",
        "LINKERD2_PROXY_INBOUND_PORTS=8080,9090",
        "LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS=PEM",
        "_l5d_trustdomain=cluster.local",
    ] {
        assert!(variables.iter().any(|variable| variable == expected), "{expected}: {variables:#?}");
    }
    let arguments = "istio-iptables -p 4140 -z 4143 -u 2102 -m REDIRECT -i * -x  -b * -d 4190,4191,7 \
                     --log_output_level=default:info";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    assert_eq!(patch["spec"]["initContainers"][0]["args"], json!(arguments));
    let excluded = json!({"traffic.sidecar.istio.io/excludeInboundPorts": "7,15020"});
    let patch = render(BuiltIn::Linkerd, excluded, values.clone()).expect("a patch");
    assert_eq!(
        patch["spec"]["initContainers"][0]["args"][16], "4190,4191,7,15020",
        "the pod's own exclusion stays"
    );
    let plugin = json!({"linkerd": linkerd, "pilot": {"cni": {"enabled": true}}});
    let patch = render(BuiltIn::Linkerd, ports(), plugin.clone()).expect("a patch");
    let annotations = &patch["metadata"]["annotations"];
    assert_eq!(annotations["sidecar-init/envoy-port"], "4140");
    assert_eq!(annotations["sidecar-init/inbound-capture-port"], "4143");
    assert_eq!(annotations["sidecar-init/proxy-uid"], "2102");
    assert_eq!(annotations["traffic.sidecar.istio.io/excludeInboundPorts"], "4190,4191,7");
    assert_eq!(patch["spec"]["initContainers"][0]["securityContext"]["runAsUser"], 2102);
    let own = json!({"sidecar-init/envoy-port": "16001"});
    let patch = render(BuiltIn::Linkerd, own, plugin).expect("a patch");
    assert_eq!(patch["spec"]["initContainers"][0]["args"][2], "16001", "the pod's own annotation wins");
    assert_eq!(patch["metadata"]["annotations"].get("sidecar-init/envoy-port"), None);
    assert_eq!(patch["metadata"]["annotations"]["sidecar-init/proxy-uid"], "2102");
    let tproxy = json!({"sidecar.istio.io/interceptionMode": "TPROXY"});
    let refused = render(BuiltIn::Linkerd, tproxy, values).expect_err("TPROXY").to_string();
    assert!(refused.contains("interceptionMode to REDIRECT"), "{refused}");
    let missing = render(BuiltIn::Linkerd, json!({}), json!({})).expect_err("no trust anchors").to_string();
    assert!(missing.contains("linkerd.identityTrustAnchorsPEM of the values"), "{missing}");
}

/// The whole way, where the injected pod is read once more as everybody reads it.
#[test]
fn each_built_in_template_injects_a_pod() {
    for name in BuiltIn::ALL.map(BuiltIn::name) {
        for cni in [false, true] {
            let values = json!({
                "linkerd": {"identityTrustAnchorsPEM": "PEM"}, "pilot": {"cni": {"enabled": cni}},
            })
            .to_string();
            let texts = Texts {
                values: Some(ConfigurationText { name: "values", text: &values }),
                ..Texts::default()
            };
            let configuration = Configuration::read(&texts).expect("a configuration");
            let pod = json!({
                "metadata": {"annotations": {
                    "inject.istio.io/templates": name, "sidecar.istio.io/inject": "true",
                }},
                "spec": {"containers": [{"name": "web"}, {"name": "helper"}]},
            });
            let outcome =
                inject(&pod, &AdmissionContext::default(), &configuration).unwrap_or_else(|problems| {
                    panic!("{name}, plugin {cni}: {problems}");
                });
            let InjectionOutcome::Injected(injected) = outcome else { panic!("{name} is skipped") };
            assert_eq!(injected.pod["spec"]["initContainers"].as_array().map(Vec::len), Some(1), "{name}");
            assert_eq!(injected.pod["spec"]["containers"].as_array().map(Vec::len), Some(3), "{name}");
        }
    }
}

#[test]
fn the_document_names_each_built_in_template() {
    let document = include_str!("../../../docs/templates.md");
    for name in BuiltIn::ALL.map(BuiltIn::name) {
        assert!(document.contains(&format!("\n| `{name}` | ")), "{name}");
    }
}
