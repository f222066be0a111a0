//! A configured kubeconfig: what `sidecar-node` tells of a pod counts, and what it can't tell fails the call.

use crate::cni::plugin::runtime::{Answer, Node, container, rules, says, variables};
use crate::support::program::{BINARY, Outcome, fed};
use serde_json::{Value, json};
use std::{fs, process::Command};

/// A folder with the plugin and a program beside it that stands for `sidecar-node`. It keeps its arguments.
struct Installed {
    node: Node,
}

impl Installed {
    fn new(script: &str) -> Self {
        let node = Node::new();
        crate::support::program::copy(BINARY, node.folder.join("sidecar-cni"));
        let installed = Self { node };
        installed.answers(script);
        installed
    }

    fn answers(&self, script: &str) {
        let path = self.node.folder.join("sidecar-node");
        let queries = self.node.folder.join("asked");
        let script = format!("#!/bin/sh\necho \"$@\" >> {}\n{script}\n", queries.display());
        crate::support::program::script(&path, script);
    }

    fn queries(&self) -> String {
        fs::read_to_string(self.node.folder.join("asked")).unwrap_or_default()
    }

    fn add(&self, annotations: &Value, namespace: &str) -> Outcome {
        let configuration = self.node.configuration(&json!({
            "kubeconfig": "/etc/cni/kubeconfig", "timeout": "8s",
            "runtimeConfig": { "io.kubernetes.cri.pod-annotations": annotations },
        }));
        let mut command = Command::new(self.node.folder.join("sidecar-cni"));
        command.env_clear().envs(variables("c1", namespace)).env("CNI_COMMAND", "ADD");
        fed(&mut command, configuration.to_string())
    }
}

fn pod(user: u32) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "web", "namespace": "shop", "annotations": {
            "sidecar.istio.io/status": "{}", "traffic.sidecar.istio.io/excludeInboundPorts": "7070" } },
        "spec": { "containers": [{ "name": "istio-proxy", "image": "p", "args": ["proxy", "sidecar"],
            "securityContext": { "runAsUser": user } }] } })
}

#[test]
fn what_the_api_server_knows_is_captured() {
    let pod_of_user = pod(4242).to_string();
    let (installed, namespace) = (Installed::new(&format!("echo '{pod_of_user}'")), container());
    installed.add(&Value::Null, &namespace.path()).well();
    let rules = rules(&namespace);
    for word in ["7070", "4242"] {
        assert!(rules.contains(word), "no {word} in {rules}");
    }
    let expected = "pod --kubeconfig /etc/cni/kubeconfig --namespace shop --name web --timeout 6000\n";
    assert_eq!(installed.queries(), expected);
}

fn of_mesh(metadata: &Value, init_container: &Value, container: &str) -> String {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "spec": { "initContainers": [init_container], "containers": [{ "name": container, "image": "p" }] } });
    pod["metadata"] = metadata.clone();
    pod["metadata"]["name"] = json!("web");
    pod["metadata"]["namespace"] = json!("shop");
    pod.to_string()
}

/// Labels and init containers, which no runtime tells, are known then.
#[test]
fn the_api_server_tells_of_which_mesh_a_pod_is_and_whether_it_sets_its_own_rules() {
    let other = json!({ "name": "fetch", "image": "i" });
    let setter = |name: &str| json!({ "name": name, "image": "i" });
    let ambient = json!({ "labels": { "istio.io/dataplane-mode": "ambient" } });
    let linkerd = json!({ "annotations": { "linkerd.io/proxy-version": "1" } });
    let kuma = json!({ "annotations": { "kuma.io/sidecar-injected": "true" } });
    for (metadata, init_container, name, table) in [
        (&ambient, &other, "app", Some("sidecar_init_ambient")),
        (&linkerd, &other, "linkerd-proxy", Some("sidecar_init_linkerd")),
        (&linkerd, &setter("linkerd-init"), "linkerd-proxy", None),
        (&linkerd, &other, "app", None),
        (&kuma, &other, "kuma-sidecar", Some("sidecar_init_kuma")),
        (&kuma, &setter("kuma-init"), "kuma-sidecar", None),
    ] {
        let pod = of_mesh(metadata, init_container, name);
        let (installed, namespace) = (Installed::new(&format!("echo '{pod}'")), container());
        installed.add(&Value::Null, &namespace.path()).well();
        let rules = rules(&namespace);
        let found = rules.lines().find_map(|line| line.strip_prefix("table inet ")?.strip_suffix(" {"));
        assert_eq!(found, table, "{pod}");
    }
}

#[test]
fn nobody_asks_for_a_pod_that_is_left_alone_anyway() {
    let (installed, namespace) = (Installed::new("exit 1"), container());
    installed.add(&json!({ "app": "web" }), &namespace.path()).well();
    assert_eq!(installed.queries(), "", "the runtime has told that it was not injected");
    assert_eq!(rules(&namespace), "");
}

#[test]
fn a_pod_that_nobody_knows_fails_the_call_with_the_reason() {
    let (installed, namespace) = (Installed::new("echo nobody home >&2; exit 1"), container());
    says(&installed.add(&Value::Null, &namespace.path()).refused(11), &["kubeconfig", "nobody home"]);
    installed.answers("echo a bad kubeconfig >&2; exit 2");
    says(&installed.add(&Value::Null, &namespace.path()).refused(7), &["a bad kubeconfig"]);
    installed.answers("echo nonsense");
    says(
        &installed.add(&Value::Null, &namespace.path()).refused(11),
        &["knows of the pod can't be read", "it has no kind"],
    );
    fs::remove_file(installed.node.folder.join("sidecar-node")).expect("removed");
    says(&installed.add(&Value::Null, &namespace.path()).refused(50), &["belongs beside the plugin"]);
    assert_eq!(rules(&namespace), "");
}
