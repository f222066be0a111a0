//! The agent makes no system call that `docker/cni/seccomp/sidecar-node.json` refuses.

use super::namespace::with_address;
use super::overview::{proc, tamper};
use super::scene::{Scene, broken, uid};
use crate::PROGRAM;
use std::{net::TcpStream, path::Path};
use testkit::{http::get, pod_namespace::PodNamespace, seccomp::TracedPrograms, until, word};

#[test]
fn the_profile_allows_the_agents_system_calls() {
    let scene = Scene::new();
    let programs = TracedPrograms::new("sidecar-node", &scene.cluster.folder);
    let sandbox = PodNamespace::new("10.213.10.7");
    let proc = proc(&sandbox, &scene.cluster.folder, &uid("web"));
    let address = "127.0.0.1:15519";
    let flags = ["--watch", "--proc", word(&proc), "--metrics", address, "--status-interval", "1"];
    let program = scene.start_by(&mut programs.command(Path::new(PROGRAM.path)), &flags);
    until("it listens", || TcpStream::connect(address).is_ok());
    until("pods are listed", || get(address, "/readyz").0 == 200);
    scene.cluster.put(&with_address(broken("web", 1), "10.213.10.7"));
    let is = |state: &str| {
        get(address, "/metrics")
            .1
            .contains(&format!("sidecar_node_pods{{state=\"{state}\",mesh=\"istio\"}} 1"))
    };
    // No proxy listens on the redirection target.
    until("it is counted as repaired", || is("failing"));
    tamper(&sandbox);
    until("it is counted as drifted", || is("drifted"));
    let has_event = |reason: &str| scene.cluster.all("events").iter().any(|event| event["reason"] == reason);
    until("an event reports the drift", || has_event("CaptureDrifted"));
    assert_eq!(program.stop(), Some(0));

    for action in ["label", "delete"] {
        scene.cluster.put(&broken("web", 2));
        let mut command = programs.command(Path::new(PROGRAM.path));
        let mut program = scene.start_by(&mut command, &["--action", action]);
        assert_eq!(program.wait().code(), Some(0), "{action}: {}", program.log());
    }
    programs.check();
}
