//! Selection of captured pods and the sources of their settings: the runtime's annotations, then the network configuration.

use crate::cni::plugin::runtime::{Answer, Node, container, rules, run, variables};
use crate::support::namespace::Namespace;
use serde_json::{Value, json};

const INJECTED: (&str, &str) =
    ("sidecar.istio.io/status", r#"{"initContainers":["istio-validation"],"containers":["istio-proxy"]}"#);

pub(crate) fn annotated(node: &Node, annotations: &[(&str, &str)], more: &Value) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let mut configuration = node.configuration(more);
    configuration["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": annotations});
    configuration
}

pub(crate) fn both_families() -> Namespace {
    let pod = container();
    pod.ip("link set lo up\naddr add fd00::3/128 dev lo nodad");
    pod
}

fn made_by(flags: &[&str]) -> String {
    let pod = both_families();
    pod.stdout(crate::support::program::BINARY, &[&["apply", "--backend", "nftables"], flags].concat());
    rules(&pod)
}

/// Checks that ADD sets the rules of the flags, CHECK finds them equal, and DEL removes them.
#[track_caller]
pub(crate) fn captures(node: &Node, configuration: &Value, flags: &[&str]) {
    let pod = both_families();
    node.does("ADD", configuration, &pod.path());
    assert_eq!(rules(&pod), made_by(flags), "{configuration:#}");
    node.does("CHECK", configuration, &pod.path());
    node.does("DEL", configuration, &pod.path());
    assert_eq!(rules(&pod), "");
}

const ISTIO: [&str; 12] =
    ["-u", "1337", "-g", "1337", "-i", "*", "-b", "*", "-d", "15020,15021,15090", "-o", "15020"];

#[test]
fn annotations_override_capture_and_capture_overrides_defaults() {
    let node = Node::new();
    let more = json!({
        "capture": {"istio-service-cidr": "10.0.0.0/8", "proxy-uid": 1},
        "defaults": {"proxy-uid": 2, "proxy-gid": 3, "drop-invalid": true},
    });
    let given = [INJECTED, ("traffic.sidecar.istio.io/includeOutboundIPRanges", "192.0.2.0/24")];
    let mut flags = ISTIO.to_vec();
    (flags[1], flags[3], flags[5]) = ("1", "3", "192.0.2.0/24");
    captures(&node, &annotated(&node, &given, &more), &[&flags[..], &["--drop-invalid"]].concat());
    // The project's annotations cover settings that Istio's lack.
    let given = [INJECTED, ("sidecar-init/proxy-uid", "5"), ("sidecar-init/proxy-gid", "6")];
    (flags[1], flags[3], flags[5]) = ("5", "6", "10.0.0.0/8");
    captures(&node, &annotated(&node, &given, &more), &[&flags[..], &["--drop-invalid"]].concat());
}

#[test]
fn capture_of_a_network_applies_to_every_container() {
    let node = Node::new();
    let more = json!({"capture": {"istio-inbound-ports": 80}, "defaults": {"drop-invalid": true}});
    let configuration = node.configuration(&more);
    let flags = ["-b", "80", "-u", "1337"];
    captures(&node, &configuration, &flags);
    // Neither a name nor an injector is necessary, and presets of injected pods do not apply.
    captures(&node, &annotated(&node, &[], &more), &flags);
    let given = [("sidecar-init/istio-inbound-ports", "81"), ("whatever", "1")];
    captures(&node, &annotated(&node, &given, &more), &["-b", "81", "-u", "1337"]);
    for arguments in ["", "IgnoreUnknown=1;K8S_POD_NAME=web"] {
        let pod = container();
        let path = pod.path();
        let mut variables = variables("c1", &path);
        variables.push(("CNI_ARGS", arguments));
        run("ADD", &variables, &configuration.to_string()).well();
        assert_eq!(rules(&pod), made_by(&flags), "{arguments:?}");
    }
}

#[track_caller]
fn skipped(node: &Node, configuration: &Value, why: &str) {
    let pod = container();
    for verb in ["ADD", "CHECK", "DEL"] {
        node.does(verb, configuration, &pod.path());
        assert_eq!(rules(&pod), "", "{verb}");
    }
    let lines = node.lines();
    let [add, check, del] = &lines[lines.len() - 3..] else { panic!("{lines:#?}") };
    for line in [add, check] {
        assert_eq!(line["outcome"], "skipped", "{line:#}");
        assert!(line["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{line:#}");
    }
    assert_eq!(del["outcome"], "nothing");
    assert!(node.attachments().is_empty());
}

#[test]
fn skipped_pods_have_a_reason_in_the_log() {
    let node = Node::new();
    let nothing = json!({});
    let captured = json!({"capture": {"istio-inbound-ports": "*"}});
    let both = r#"{"initContainers":["istio-init"],"containers":["istio-proxy"]}"#;
    let capability = json!({"io.kubernetes.cri.pod-annotations": true});
    skipped(&node, &node.configuration(&nothing), r#"-annotations": true}); the entry in the network"#);
    skipped(&node, &node.configuration(&json!({"capabilities": capability})), "set kubeconfig or");
    skipped(&node, &annotated(&node, &[], &nothing), "not injected");
    skipped(&node, &annotated(&node, &[("sidecar.istio.io/status", both)], &nothing), "istio-init");
    for more in [nothing, captured] {
        let refused = [INJECTED, ("sidecar.istio.io/inject", "false")];
        skipped(&node, &annotated(&node, &refused, &more), "sidecar.istio.io/inject");
        let none = [INJECTED, ("sidecar.istio.io/interceptionMode", "NONE")];
        skipped(&node, &annotated(&node, &none, &more), "NONE");
        let mut excluded = annotated(&node, &[INJECTED], &more);
        excluded["exclude_namespaces"] = json!(["shop"]);
        skipped(&node, &excluded, "its namespace shop is excluded");
    }
    let none = json!({"capture": {"istio-inbound-interception-mode": "none"}});
    let pod = container();
    node.does("ADD", &node.configuration(&none), &pod.path());
    assert_eq!(rules(&pod), "");
}

#[test]
fn without_a_pods_name_only_the_network_can_capture() {
    let (node, pod): (Node, Namespace) = (Node::new(), container());
    let path = pod.path();
    for arguments in ["", "K8S_POD_NAME=web"] {
        let mut variables = variables("c1", &path);
        variables.push(("CNI_ARGS", arguments));
        run("ADD", &variables, &annotated(&node, &[INJECTED], &json!({})).to_string()).well();
    }
    assert_eq!(rules(&pod), "");
    assert!(node.lines().iter().all(|line| line["reason"].to_string().contains("name or namespace")));
}
