//! Sessions of the real kubectl over WebSocket, as kubelets serve them, for a user who may do what `docker/kubectl` grants.
//! Needs kubectl 1.31: older ones open none. scripts/test leaves these tests out beside such a one, and says so.

use crate::fake::CONTAINER;
use crate::played::{account, put_agent, run, scene};
use crate::{apply, change_rules, check_drift, check_equality, pod_namespace, program};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
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
        let namespace = pod_namespace();
        let cluster = scene();
        let net = namespace.path();
        cluster.runs(move |words| {
            let [installed, command, rest @ ..] = words else { panic!("no command of ours: {words:?}") };
            assert_eq!(installed, INSTALLED);
            match rest {
                // The agent enters the namespace of a container, an ephemeral container is in it.
                [flag, container, rest @ ..] if flag == "--network-namespace" => {
                    assert_eq!(container, CONTAINER);
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

#[test]
fn the_agent_answers() {
    let session = Session::with_agent();
    let call = ["explain", "web-0", "8080", "10.0.0.5:443", "-o", "json"];
    let document = session.run(&call).with(0).json();
    assert_eq!(agreement(&document), [&json!(false), &json!(false)], "no rules are set: {document}");
    session.run(&["explain", "web-0", "8080", "--expect", "captured"]).with(3);

    apply(&session.namespace);
    let document = session.run(&call).with(0).json();
    assert_eq!(agreement(&document), [&json!(true), &json!(true)], "{document}");
    // The manifest is the input of the session.
    check_equality(&session.run(&["diff", "web-0"]).with(0));

    change_rules(&session.namespace);
    check_drift(&session.run(&["status", "web-0"]).with(0), &session.run(&["diff", "web-0"]).with(3));
    assert_eq!(session.cluster.count("get", "pods/exec"), 6);
}

#[test]
fn a_trace_ends_with_its_time() {
    let session = Session::with_agent();
    apply(&session.namespace);
    session
        .run(&["trace", "web-0", "--enable", "--for", "1s", "--destination", "443"])
        .with(0)
        .prints("shop/web-0");
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
