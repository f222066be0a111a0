//! Sessions of the real kubectl over WebSocket, as kubelets serve them, for a user who may do what `docker/kubectl` grants.
//! Needs kubectl 1.31: older ones open none. scripts/test leaves these tests out beside such a one, and says so.

use crate::played::{account, pod, put_agent, run, scene};
use crate::{apply, check_equality, program};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use testkit::{cluster::Cluster, command_line::Ended, pod_namespace::PodNamespace};

/// The program in our images.
const INSTALLED: &str = "/usr/local/bin/sidecar-init";

struct Session {
    namespace: PodNamespace,
    cluster: Cluster,
    kubeconfig: PathBuf,
}

impl Session {
    fn new() -> Self {
        let namespace = PodNamespace::new("10.1.2.3");
        let cluster = scene();
        let net = namespace.path();
        cluster.runs(move |words| {
            let [installed, command, rest @ ..] = words else { panic!("no command of ours: {words:?}") };
            assert_eq!(installed, INSTALLED);
            match rest {
                // The agent enters the namespace of a container, an ephemeral container is in it.
                [flag, container, rest @ ..] if flag == "--network-namespace" => {
                    assert_eq!(pod()["status"]["containerStatuses"][0]["containerID"], **container);
                    let mut agent = Command::new(program());
                    agent.args([command, flag, &net]).args(rest);
                    agent
                }
                rest => {
                    let mut ephemeral = Command::new("nsenter");
                    ephemeral.arg(format!("--net={net}")).arg(program()).arg(command).args(rest);
                    ephemeral
                }
            }
        });
        let kubeconfig = account(&cluster);
        Self { namespace, cluster, kubeconfig }
    }

    fn with_agent() -> Self {
        let session = Self::new();
        put_agent(&session.cluster, "worker-1");
        session
    }

    fn run(&self, words: &[&str]) -> Ended {
        run(&self.cluster, &self.kubeconfig, words)
    }
}

fn agreement(document: &Value) -> Vec<&Value> {
    document["answers"].as_array().into_iter().flatten().map(|answer| &answer["agree"]).collect()
}

/// A pod's rules: none, those of its manifest, changed ones; then the namespace goes.
#[test]
fn the_agent_answers() {
    let mut session = Session::with_agent();
    let call = ["explain", "web-0", "8080", "10.0.0.5:443", "-o", "json"];
    let document = session.run(&call).with(0).json();
    assert_eq!(agreement(&document), [&json!(false), &json!(false)], "no rules are set: {document}");
    session.run(&["explain", "web-0", "8080", "--expect", "captured"]).with(3);
    session.run(&["diff", "web-0"]).with(3).prints(": not captured -> captured").prints("# missing");

    apply(&session.namespace);
    let document = session.run(&call).with(0).json();
    assert_eq!(agreement(&document), [&json!(true), &json!(true)], "{document}");
    let proxy = ["explain", "web-0", "10.0.0.5:443", "--sender", "proxy", "--expect", "not-captured"];
    session.run(&proxy).with(0);
    session.run(&["status", "web-0"]).with(1).prints("Outbound and inbound traffic is captured over IPv4");
    // The manifest is the input of the session.
    check_equality(&session.run(&["diff", "web-0"]).with(0));

    // As another program does.
    session.namespace.command(&["nft", "flush", "chain", "inet", "sidecar_init", "nat_ISTIO_INBOUND"]);
    let status = session.run(&["status", "web-0"]).with(1).stdout;
    assert!(status.contains("our table was") && status.contains("changed"), "{status}");
    session.run(&["diff", "web-0"]).with(3).prints("nat_ISTIO_INBOUND").prints("# missing");
    assert_eq!(session.cluster.count("get", "pods/exec"), 9);

    session.namespace.0.kill().expect("it runs");
    session.namespace.0.wait().expect("it ends");
    let stderr = session.run(&["status", "web-0"]).with(1).stderr;
    let start = "error: sidecar-init in pod kube-system/sidecar-node-x7k2p: ";
    assert!(stderr.starts_with(start) && stderr.contains("--network-namespace"), "{stderr}");
}

#[test]
fn packets_are_traced() {
    let session = Session::with_agent();
    apply(&session.namespace);
    let traced = thread::scope(|scope| {
        let trace = scope.spawn(|| {
            session.run(&[
                "trace",
                "web-0",
                "--enable",
                "--count",
                "1",
                "--for",
                "30s",
                "--destination",
                "443",
            ])
        });
        // The trace begins at a time that is not known. No proxy listens: the connection is refused at once.
        while !trace.is_finished() {
            let net = format!("--net={}", session.namespace.path());
            let call = ["bash", "-c", "exec 3<>/dev/tcp/10.0.0.5/443"];
            let _ = Command::new("nsenter").arg(net).args(call).output().expect("nsenter starts");
        }
        trace.join().expect("it does not panic")
    });
    traced.with(0).prints("-> 10.0.0.5:443").prints("=> captured");
}

#[test]
fn an_ephemeral_container_answers() {
    let session = Session::new();
    apply(&session.namespace);
    let call = |words: &[&'static str]| {
        let image = ["--image", "registry.example/sidecar-init:0.1.0", "--yes"];
        session.run(&[words, &image].concat())
    };
    let document = call(&["explain", "web-0", "8080", "10.0.0.5:443", "-o", "json"]).with(0).json();
    assert_eq!(agreement(&document), [&json!(true), &json!(true)], "{document}");
    check_equality(&call(&["diff", "web-0"]).with(0));
    let opened = |resource| session.cluster.count("get", resource);
    assert_eq!((opened("pods/attach"), opened("pods/exec")), (2, 0));
    let pod = session.cluster.find("pods", "shop", "web-0").expect("it is there");
    let containers = pod["spec"]["ephemeralContainers"].as_array().expect("a list");
    assert_eq!(containers.len(), 2);
    assert_eq!(containers[0]["securityContext"]["capabilities"]["add"], json!(["NET_ADMIN", "NET_RAW"]));
}
