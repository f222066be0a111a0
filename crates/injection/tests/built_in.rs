//! The built-in templates: what they make of a pod, and which pods they refuse.

use crate::support::read;
use injection::configuration::Configuration;
use injection::sidecar::Sidecar;
use injection::template::{BuiltIn, InjectionTemplate, TemplateContext};
use injection::{AdmissionContext, InjectionOutcome, inject};
use mesh::Problems;
use serde_json::{Value, json};

fn configured(values: &Value) -> Result<Configuration, Problems> {
    read("", &values.to_string(), "")
}

/// What a template makes of a pod.
fn render(template: BuiltIn, annotations: Value, values: &Value) -> Result<Value, Problems> {
    let mut pod = json!({"spec": {"containers": [{"name": "web"}]}});
    pod["metadata"]["annotations"] = annotations;
    let Configuration { values, mesh, .. } = &configured(values)?;
    let admission = &AdmissionContext::default();
    let mut sidecar = Sidecar::of(&pod, admission, values, mesh)?;
    let template = InjectionTemplate::BuiltIn(template);
    template.adapt(&mut sidecar);
    let context = TemplateContext { pod: &pod, admission, sidecar: &sidecar, values, mesh };
    template.render(&context, &mut Vec::new())
}

fn istio(annotations: Value, values: &Value) -> Value {
    render(BuiltIn::Sidecar, annotations, values).expect("a patch")
}

#[test]
fn users_and_capabilities() {
    let check = |annotations: Value, added: Value, user: i64| {
        let patch = istio(annotations, &json!({}));
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
fn a_plugin_is_listed_among_the_networks_of_multus() {
    let networks = |own: &str| {
        let values = json!({"pilot": {"cni": {"enabled": true, "provider": "multus"}}});
        let patch = istio(json!({"k8s.v1.cni.cncf.io/networks": own}), &values);
        patch["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].as_str().expect("a text").to_owned()
    };
    assert_eq!(networks(""), "default/istio-cni");
    assert_eq!(networks("a,default/istio-cni"), "a,default/istio-cni");
    assert_eq!(
        networks(r#"[{"name": "a"}]"#),
        r#"[{"name": "a"}, {"name":"istio-cni","namespace":"default"}]"#
    );
    let values = json!({"pilot": {"cni": {"enabled": true}}});
    let nothing = istio(json!({"sidecar.istio.io/interceptionMode": "NONE"}), &values);
    assert_eq!(nothing["spec"].get("initContainers"), None);
}

#[test]
fn envoys_ready_port() {
    let values = json!({"envoy": {"image": "example/envoy:1", "configMap": "edge", "readyPort": 15021}});
    let ready = |port: &str| json!({"envoy.sidecar-init/ready-port": port});
    let patch = render(BuiltIn::Envoy, ready("ready"), &values).expect("a patch");
    assert_eq!(patch["spec"]["containers"][0]["startupProbe"]["httpGet"]["port"], "ready");
    let patch = render(BuiltIn::Envoy, ready("0"), &values).expect("a patch");
    assert_eq!(patch["spec"]["containers"][0].get("readinessProbe"), None);
    let refused = render(BuiltIn::Envoy, ready("70000"), &values).expect_err("no port").to_string();
    let expected =
        "template envoy: annotation envoy.sidecar-init/ready-port: \"70000\" is not a port from 1 to 65535";
    assert!(refused.contains(expected), "{refused}");
    let refused = render(BuiltIn::Envoy, json!({}), &json!({"envoy": {"image": [], "readyPort": "no port"}}));
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
    let excluded = json!({"traffic.sidecar.istio.io/excludeInboundPorts": "7,15020"});
    let patch = render(BuiltIn::Linkerd, excluded, &values).expect("a patch");
    assert_eq!(
        patch["spec"]["initContainers"][0]["args"][16], "4190,4191,7,15020",
        "the pod's own exclusion stays"
    );
    let plugin = json!({"linkerd": linkerd, "pilot": {"cni": {"enabled": true}}});
    let patch = render(BuiltIn::Linkerd, ports(), &plugin).expect("a patch");
    let annotations = &patch["metadata"]["annotations"];
    assert_eq!(annotations["sidecar-init/envoy-port"], "4140");
    assert_eq!(annotations["sidecar-init/inbound-capture-port"], "4143");
    assert_eq!(annotations["sidecar-init/proxy-uid"], "2102");
    assert_eq!(annotations["traffic.sidecar.istio.io/excludeInboundPorts"], "4190,4191,7");
    assert_eq!(patch["spec"]["initContainers"][0]["securityContext"]["runAsUser"], 2102);
    let own = json!({"sidecar-init/envoy-port": "16001"});
    let patch = render(BuiltIn::Linkerd, own, &plugin).expect("a patch");
    assert_eq!(patch["spec"]["initContainers"][0]["args"][2], "16001", "the pod's own annotation wins");
    assert_eq!(patch["metadata"]["annotations"].get("sidecar-init/envoy-port"), None);
    assert_eq!(patch["metadata"]["annotations"]["sidecar-init/proxy-uid"], "2102");
    let tproxy = json!({"sidecar.istio.io/interceptionMode": "TPROXY"});
    let refused = render(BuiltIn::Linkerd, tproxy, &values).expect_err("TPROXY").to_string();
    assert!(refused.contains("interceptionMode to REDIRECT"), "{refused}");
    let missing = render(BuiltIn::Linkerd, json!({}), &json!({})).expect_err("no trust anchors").to_string();
    assert!(missing.contains("linkerd.identityTrustAnchorsPEM of the values"), "{missing}");
}

/// The whole way, where the injected pod is read once more as everybody reads it.
#[test]
fn each_built_in_template_injects_a_pod() {
    for name in BuiltIn::ALL.map(BuiltIn::name) {
        for cni in [false, true] {
            let values = json!({
                "linkerd": {"identityTrustAnchorsPEM": "PEM"}, "pilot": {"cni": {"enabled": cni}},
            });
            let configuration = configured(&values).expect("a configuration");
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
