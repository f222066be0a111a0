//! Installations that kubectl applies to the simulated API server, which has no Deployment controller: the tests start each
//! Deployment's server with its arguments and configuration, and end it with the Deployment.

use super::webhook::address;
use crate::PROGRAM;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};
use testkit::cluster::Cluster;
use testkit::{
    command_line::{Ended, ended},
    running::Logged,
    until, word,
};

pub(super) const NAMESPACE: &str = "sidecar-injector";
pub(super) const WEBHOOKS: &str = "mutatingwebhookconfigurations";

#[derive(Default)]
pub(super) struct Kubelet(pub(super) BTreeMap<String, Logged>);

impl Kubelet {
    /// Starts new Deployments' servers, so the Deployments become available, and ends deleted Deployments' servers.
    pub(super) fn follow(&mut self, cluster: &Cluster) {
        let wanted: BTreeMap<String, Value> = cluster
            .all("deployments")
            .into_iter()
            .filter(|one| one["metadata"]["namespace"] == NAMESPACE)
            .map(|one| (one["metadata"]["name"].as_str().expect("a name").to_owned(), one))
            .collect();
        self.0.retain(|name, _| wanted.contains_key(name));
        for (name, deployment) in wanted {
            if !self.0.contains_key(&name) {
                self.0.insert(name.clone(), start(cluster, &name, &deployment));
                available(cluster, &name, true);
            }
        }
    }
}

pub(super) fn available(cluster: &Cluster, name: &str, is_available: bool) {
    let mut deployment = cluster.find("deployments", NAMESPACE, name).expect("a Deployment");
    let ready = if is_available { deployment["spec"]["replicas"].clone() } else { json!(0) };
    deployment["status"] = json!({ "readyReplicas": ready, "conditions": [{ "type": "Available",
        "status": if is_available { "True" } else { "False" }, "message": "by the test" }] });
    cluster.put(&deployment);
}

fn start(cluster: &Cluster, name: &str, deployment: &Value) -> Logged {
    let map = cluster.find("configmaps", NAMESPACE, name).expect("a ConfigMap");
    let folder = cluster.file(&format!("{name}.configuration"));
    fs::create_dir_all(&folder).expect("a folder");
    for (key, text) in map["data"].as_object().expect("texts") {
        fs::write(folder.join(key), text.as_str().expect("a text")).expect("written");
    }
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    // Replaces a pod's mounts, ports and service account.
    let arguments =
        arguments.as_array().expect("arguments").iter().map(|word| match word.as_str().expect("a text") {
            word if word.starts_with("--config-dir=") => format!("--config-dir={}", folder.display()),
            word if word.starts_with("--metrics-address=") => "--metrics-address=127.0.0.1:0".to_owned(),
            word => word.to_owned(),
        });
    let server = Logged::start(
        Command::new(PROGRAM.path)
            .args(arguments)
            .args(["--address", "127.0.0.1:0", "--kubeconfig"])
            .arg(cluster.account(NAMESPACE, name)),
    );
    cluster.route(NAMESPACE, name, address(&server, "address"));
    until("webhooks trust the server", || {
        let all = cluster.all(WEBHOOKS);
        let all = all.iter().filter_map(|one| one["webhooks"].as_array()).flatten();
        let mut own = all.filter(|webhook| webhook["clientConfig"]["service"]["name"] == *name);
        own.all(|webhook| webhook["clientConfig"]["caBundle"].is_string())
    });
    server
}

/// Runs a document's command in a shell, with the program and kubectl on PATH.
fn shell(cluster: &Cluster, command: &str) -> Ended {
    let folder = cluster.file("bin");
    fs::create_dir_all(&folder).expect("a folder");
    // The simulated server has no schemas for kubectl's validation. kubectl refuses two restarts within a second.
    let wrapper = folder.join("kubectl");
    let kubectl = Command::new("sh").args(["-c", "command -v kubectl"]).output().expect("sh");
    let kubectl = String::from_utf8(kubectl.stdout).expect("UTF-8");
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = apply ]; then shift; set -- apply --validate=false \"$@\"; fi\n\
         case \"$*\" in *restart*) sleep 1 ;; esac\nexec {} --cache-dir {} \"$@\"\n",
        kubectl.trim(),
        word(&cluster.file("kubectl"))
    );
    fs::write(&wrapper, text).expect("written");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("a program");
    let programs = Path::new(PROGRAM.path).parent().expect("a folder").display();
    let path = format!("{}:{programs}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let words = ["-c", &format!("set -o pipefail; {command}")];
    ended(Command::new("bash").args(words).env("PATH", path).env("KUBECONFIG", cluster.kubeconfig()))
}

/// A successful command's output on both streams.
pub(super) fn run(cluster: &Cluster, command: &str) -> String {
    shell(cluster, command).with(0).shown()
}

pub(super) fn create_pod(cluster: &Cluster, metadata: &Value) -> Value {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": { "containers": [{ "name": "application", "image": "example/application:1" }] } });
    let file = cluster.file("pod.json");
    fs::write(&file, pod.to_string()).expect("written");
    let (succeeded, shown) = cluster.kubectl(&["create", "--validate=false", "-f", word(&file)]);
    assert!(succeeded, "{shown}");
    let field = |name: &str| metadata[name].as_str().expect("a text");
    cluster.find("pods", field("namespace"), field("name")).expect("a pod")
}

/// Revision that injects a new pod in a namespace; `None` if the pod gets no proxy.
pub(super) fn injected_by(cluster: &Cluster, namespace: &str) -> Option<String> {
    let name = format!("pod-{}", cluster.version());
    let pod = create_pod(cluster, &json!({ "name": name, "namespace": namespace }));
    let status = pod["metadata"]["annotations"]["sidecar.istio.io/status"].as_str()?;
    let status: Value = serde_json::from_str(status).expect("JSON");
    Some(status["revision"].as_str().expect("a revision").to_owned())
}
