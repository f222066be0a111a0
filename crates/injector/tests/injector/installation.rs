//! Installations that kubectl applies to the played API server. Deployments have no controller there: for each one, the server of its
//! pods is started with the arguments and the configuration that are stored, and ends with it.

use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    process::{Child, Command},
};
use testkit::cluster::Cluster;
use testkit::{until, word};

pub(super) const NAMESPACE: &str = "sidecar-injector";
pub(super) const WEBHOOKS: &str = "mutatingwebhookconfigurations";
const PROGRAM: &str = env!("CARGO_BIN_EXE_sidecar-injector");

/// The servers of Deployments that are there, by their names.
#[derive(Default)]
pub(super) struct Kubelet(BTreeMap<String, Child>);

impl Kubelet {
    /// Starts the servers of new Deployments, which are available then, and ends those of deleted ones.
    pub(super) fn follow(&mut self, cluster: &Cluster) {
        let wanted: BTreeMap<String, Value> = cluster
            .all("deployments")
            .into_iter()
            .filter(|one| one["metadata"]["namespace"] == NAMESPACE)
            .map(|one| (one["metadata"]["name"].as_str().expect("a name").to_owned(), one))
            .collect();
        let ended: Vec<String> = self.0.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        ended.iter().for_each(|name| self.end(name));
        for (name, deployment) in wanted {
            if !self.0.contains_key(&name) {
                self.0.insert(name.clone(), start(cluster, &name, &deployment));
                available(cluster, &name, true);
            }
        }
    }

    pub(super) fn end(&mut self, name: &str) {
        if let Some(mut child) = self.0.remove(name) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        let names: Vec<String> = self.0.keys().cloned().collect();
        names.iter().for_each(|name| self.end(name));
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

fn start(cluster: &Cluster, name: &str, deployment: &Value) -> Child {
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
    let log = cluster.file(&format!("{name}.log"));
    let child = Command::new(PROGRAM)
        .args(arguments)
        .args(["--address", "127.0.0.1:0", "--kubeconfig"])
        .arg(cluster.account(NAMESPACE, name))
        .stderr(File::create(&log).expect("a log"))
        .spawn()
        .expect("the program starts");
    let mut address = None;
    until("it serves", || {
        let log = fs::read_to_string(&log).expect("a log");
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        address = lines.filter_map(|line| line["address"].as_str()?.parse().ok()).next();
        address.is_some()
    });
    cluster.route(NAMESPACE, name, address.expect("it serves"));
    until("its webhooks trust it", || {
        let all = cluster.all(WEBHOOKS);
        let all = all.iter().filter_map(|one| one["webhooks"].as_array()).flatten();
        let mut own = all.filter(|webhook| webhook["clientConfig"]["service"]["name"] == *name);
        own.all(|webhook| webhook["clientConfig"]["caBundle"].is_string())
    });
    child
}

/// Runs a command of a document in a shell, with the program and kubectl on PATH.
pub(super) fn shell(cluster: &Cluster, command: &str) -> (Option<i32>, String) {
    let folder = cluster.file("bin");
    fs::create_dir_all(&folder).expect("a folder");
    // The played server has no schemas, which kubectl validates by.
    let wrapper = folder.join("kubectl");
    let kubectl = Command::new("sh").args(["-c", "command -v kubectl"]).output().expect("sh");
    let kubectl = String::from_utf8(kubectl.stdout).expect("UTF-8");
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = apply ]; then shift; set -- apply --validate=false \"$@\"; fi\nexec {} --cache-dir {} \"$@\"\n",
        kubectl.trim(),
        word(&cluster.file("kubectl"))
    );
    fs::write(&wrapper, text).expect("written");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("a program");
    let programs = std::path::Path::new(PROGRAM).parent().expect("a folder").display();
    let path = format!("{}:{programs}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-c", &format!("set -o pipefail; {command}")])
        .env("PATH", path)
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

/// The same, which has to succeed.
pub(super) fn run(cluster: &Cluster, command: &str) -> String {
    let (code, text) = shell(cluster, command);
    assert_eq!(code, Some(0), "{command}: {text}");
    text
}

/// The revision that injects a new pod of a namespace; none if it gets no proxy.
pub(super) fn injected_by(cluster: &Cluster, namespace: &str) -> Option<String> {
    let name = format!("pod-{}", cluster.version());
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace },
        "spec": { "containers": [{ "name": "application", "image": "example/application:1" }] } });
    let file = cluster.file("pod.json");
    fs::write(&file, pod.to_string()).expect("written");
    let (succeeded, shown) = cluster.kubectl(&["create", "--validate=false", "-f", word(&file)]);
    assert!(succeeded, "{shown}");
    let pod = cluster.find("pods", namespace, &name).expect("a pod");
    let status = pod["metadata"]["annotations"]["sidecar.istio.io/status"].as_str()?;
    let status: Value = serde_json::from_str(status).expect("JSON");
    Some(status["revision"].as_str().expect("a revision").to_owned())
}
