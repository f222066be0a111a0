//! A kubectl that records its calls and answers from files, and the objects that it answers with.

use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};
use testkit::command_line::{Ended, ended};
use testkit::folder::Folder;

pub(crate) const CONTAINER: &str =
    "containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The first answer whose pattern fits the call. Patterns are those of the shell's `case`.
const SCRIPT: &str = r#"#!/bin/sh
here=$(dirname "$0")
printf '%s\n' "$*" >>"$here/calls"
for answer in "$here"/answers/*; do
  pattern=$(cat "$answer/pattern")
  case "$*" in
  $pattern)
    case " $* " in *" -i "* | *" --stdin "*) cat >"$here/stdin" ;; esac
    cat "$answer/stdout"
    cat "$answer/stderr" >&2
    exit "$(cat "$answer/status")"
    ;;
  esac
done
echo "Error from server (NotFound): nothing answers $*" >&2
exit 1
"#;

pub(crate) struct Fake {
    folder: Folder,
    count: usize,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let folder = Folder::new("kubectl");
        fs::create_dir(folder.join("answers")).expect("a folder");
        let path = folder.join("kubectl");
        fs::write(&path, SCRIPT).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        Self { folder, count: 0 }
    }

    pub(crate) fn with(pod: &Value, agents: &[Value]) -> Self {
        let mut fake = Self::new();
        fake.object("get pod web-0*", pod);
        fake.object("get pods -l app.kubernetes.io/name=sidecar-node *", &list(agents));
        fake
    }

    /// One with the pod `shop/web-0` on a node with an agent.
    pub(crate) fn with_agent() -> Self {
        Self::with(&pod("web-0"), &[agent()])
    }

    pub(crate) fn without_agent() -> Self {
        Self::with(&pod("web-0"), &[])
    }

    /// Calls that fit the pattern are answered so. Earlier answers win.
    pub(crate) fn answer(&mut self, pattern: &str, stdout: &str, stderr: &str, status: i32) {
        let answer = self.folder.join("answers").join(format!("{:03}", self.count));
        self.count += 1;
        fs::create_dir_all(&answer).expect("a folder");
        let status = status.to_string();
        for (name, text) in [
            ("pattern", format!("*{pattern}").as_str()),
            ("stdout", stdout),
            ("stderr", stderr),
            ("status", &status),
        ] {
            fs::write(answer.join(name), text).expect("written");
        }
    }

    pub(crate) fn object(&mut self, pattern: &str, object: &Value) {
        self.answer(pattern, &object.to_string(), "", 0);
    }

    pub(crate) fn fails(&mut self, pattern: &str, stderr: &str) {
        self.answer(pattern, "", stderr, 1);
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-capture"));
        let path = format!("{}:{}", self.folder.display(), std::env::var("PATH").unwrap_or_default());
        command.args(words).env("PATH", path).env_remove("KUBECTL");
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        ended(&mut self.command(words))
    }

    /// The calls so far, and forgets them.
    pub(crate) fn calls(&self) -> Vec<String> {
        let path = self.folder.join("calls");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn input(&self) -> String {
        fs::read_to_string(self.folder.join("stdin")).expect("it was read")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A pod as Istio injects it, which runs.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "labels": { "app": "web" },
            "annotations": {
                "sidecar.istio.io/status": "{}",
                "kubectl.kubernetes.io/last-applied-configuration": "{\"secret\":1}"
            },
            "managedFields": [{ "manager": "kubectl" }],
        },
        "spec": {
            "nodeName": "worker-1",
            "initContainers": [{
                "name": "istio-init", "image": "istio/proxyv2",
                "args": ["istio-iptables", "-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*",
                    "-x", "", "-b", "*", "-d", "15090,15021,15020"],
            }],
            "containers": [
                { "name": "istio-proxy", "image": "istio/proxyv2", "args": ["proxy", "sidecar"],
                    "ports": [{ "containerPort": 15090, "protocol": "TCP" }] },
                { "name": "web", "image": "web", "ports": [{ "containerPort": 8080 }, { "containerPort": 53, "protocol": "UDP" }] },
            ],
        },
        "status": {
            "phase": "Running",
            "podIPs": [{ "ip": "10.1.2.3" }],
            "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [
                { "name": "istio-proxy", "containerID": CONTAINER, "state": { "running": {} } },
            ],
        },
    })
}

pub(crate) fn agent() -> Value {
    json!({
        "metadata": { "name": "sidecar-node-x7k2p", "namespace": "kube-system" },
        "spec": { "nodeName": "worker-1" },
        "status": { "containerStatuses": [{ "name": "repair", "state": { "running": {} } }] },
    })
}

pub(crate) fn list(items: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// A document of `sidecar-init explain` about a call of the port 8080 from outside.
pub(crate) fn explanation(verdict: &str, port: Option<u16>, reason: &str) -> Value {
    json!({
        "version": 1, "basis": { "kind": "rules", "text": "by the rules in namespace x" },
        "source": null, "destination": "10.1.2.3", "destination_port": 8080, "in_interface": "eth0",
        "out_interface": null, "unsent": null, "verdict": verdict, "port": port, "last_port": null,
        "summary": "goes there", "reason": reason, "example": "tcp 10.9.9.9 -> 10.1.2.3:8080, arriving at eth0, new",
        "decided_by": { "table": "nat", "chain": "ISTIO_IN_REDIRECT", "position": 1, "rule": "inbound-redirect",
            "text": "-p tcp -j REDIRECT", "option": "-z" },
        "trace": [{ "table": "nat", "chain": "ISTIO_IN_REDIRECT", "position": 1, "rule": "inbound-redirect",
            "text": "-p tcp -j REDIRECT", "matched": true, "option": "-z" }],
    })
}

pub(crate) fn several(documents: &[Value]) -> Value {
    let answers = documents.iter().map(|one| json!({ "object": "x", "answer": one }));
    json!({ "version": 1, "answers": answers.collect::<Vec<_>>() })
}
