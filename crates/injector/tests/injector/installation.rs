//! Installations that kubectl applies to the played API server. Deployments have no controller there: for each one, the server of its
//! pods is started with the arguments and the configuration that are stored, and ends with it.

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

/// The servers of Deployments that are there, by their names.
#[derive(Default)]
pub(super) struct Kubelet(pub(super) BTreeMap<String, Logged>);

impl Kubelet {
    /// Starts the servers of new Deployments, which are available then, and ends those of deleted ones.
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

/// Sets the status of a Deployment, as its controller does.
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
    // What a pod has and a test has not: its mounts, its ports, its service account.
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
    until("its webhooks trust it", || {
        let all = cluster.all(WEBHOOKS);
        let all = all.iter().filter_map(|one| one["webhooks"].as_array()).flatten();
        let mut own = all.filter(|webhook| webhook["clientConfig"]["service"]["name"] == *name);
        own.all(|webhook| webhook["clientConfig"]["caBundle"].is_string())
    });
    server
}

/// Runs a command of a document in a shell, with the program and kubectl on PATH.
fn shell(cluster: &Cluster, command: &str) -> Ended {
    let folder = cluster.file("bin");
    fs::create_dir_all(&folder).expect("a folder");
    // The played server has no schemas, which kubectl validates by. kubectl refuses two restarts within a second.
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

/// What it prints on both streams, if it succeeds.
pub(super) fn run(cluster: &Cluster, command: &str) -> String {
    shell(cluster, command).with(0).shown()
}

/// A pod of one container with this metadata, which kubectl creates.
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

/// The revision that injects a new pod of a namespace; none if it gets no proxy.
pub(super) fn injected_by(cluster: &Cluster, namespace: &str) -> Option<String> {
    let name = format!("pod-{}", cluster.version());
    let pod = create_pod(cluster, &json!({ "name": name, "namespace": namespace }));
    let status = pod["metadata"]["annotations"]["sidecar.istio.io/status"].as_str()?;
    let status: Value = serde_json::from_str(status).expect("JSON");
    Some(status["revision"].as_str().expect("a revision").to_owned())
}
