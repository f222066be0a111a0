//! A test's setting: the API server, a folder, the program, and pods.

use crate::PROGRAM;
use serde_json::{Value, json};
use std::{path::Path, process::Command};
use testkit::{cluster::Cluster, running::Logged, seccomp};

pub(crate) const NODE: &str = "node-1";

pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self { cluster: Cluster::start() }
    }

    pub(crate) fn pod(&self, name: &str) -> Value {
        self.cluster.find("pods", "shop", name).unwrap_or_default()
    }

    /// Starts `sidecar-node repair` with these additional flags; without an interval, it ignores other tests' namespaces.
    pub(crate) fn start(&self, flags: &[&str]) -> Logged {
        self.start_by(&mut seccomp::command("sidecar-node", Path::new(PROGRAM.path)), flags)
    }

    pub(crate) fn start_by(&self, command: &mut Command, flags: &[&str]) -> Logged {
        let quiet = (!flags.contains(&"--status-interval")).then_some("--status-interval=0");
        let command = command.args(["repair", "--node", NODE, "--log-level", "debug", "--kubeconfig"]);
        let command = command.arg(self.cluster.kubeconfig()).args(flags).args(quiet);
        Logged::start(command.env_remove("NODE_NAME"))
    }

    pub(crate) fn run(&self, flags: &[&str]) -> (Option<i32>, String) {
        let mut program = self.start(flags);
        let status = program.wait();
        (status.code(), program.log())
    }
}

/// A pod as injected for a plugin, with the status that its kubelet reports while it starts.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": uid(name), "labels": { "app": name },
            "annotations": {
                "sidecar.istio.io/status": "{\"initContainers\":[\"istio-validation\"],\"containers\":[\"istio-proxy\"]}",
                "traffic.sidecar.istio.io/excludeInboundPorts": "9999",
            },
        },
        "spec": {
            "nodeName": NODE,
            "initContainers": [{ "name": "istio-validation", "image": "proxyv2",
                "args": ["istio-iptables", "-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*",
                    "-x", "", "-b", "*", "-d", "15090,15021,15020", "--run-validation", "--skip-rule-apply"] }],
            "containers": [
                { "name": "istio-proxy", "image": "proxyv2", "args": ["proxy", "sidecar"],
                  "securityContext": { "runAsUser": 1337, "runAsGroup": 1337 } },
                { "name": "app", "image": "app" },
            ],
        },
        "status": { "phase": "Pending" },
    })
}

/// The pod after this number of failed validations.
pub(crate) fn broken(name: &str, failures: u32) -> Value {
    let mut pod = pod(name);
    let ended = json!({ "terminated": { "exitCode": 126, "reason": "Error", "containerID": format!("c://{failures}") } });
    pod["status"]["initContainerStatuses"] = json!([{
        "name": "istio-validation", "image": "proxyv2", "imageID": "", "ready": false, "restartCount": failures,
        "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "lastState": ended,
    }]);
    pod
}

pub(crate) fn healthy(name: &str) -> Value {
    let mut pod = broken(name, 1);
    pod["status"]["phase"] = "Running".into();
    pod["status"]["initContainerStatuses"][0]["state"] =
        json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
    pod
}

pub(crate) fn uid(name: &str) -> String {
    format!("7c3e4f2a-0000-4d1c-9a55-{:0>12}", name.replace(|c: char| !c.is_ascii_hexdigit(), "0"))
}
