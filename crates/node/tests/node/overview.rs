//! The state of the node's pods: metrics, and an event for each drift.

use super::namespace::with_address;
use super::roles::allowed;
use super::scene::{Scene, broken, healthy, uid};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use testkit::{http::get, pod_namespace::PodNamespace, until, word};

const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const MONITOR: u32 = 5;

/// A `/proc` with a container of the pod `shop/web` with this UID, and containerd's shim, whose working directory is the folder
/// of the container's configuration.
pub(crate) fn proc(sandbox: &PodNamespace, folder: &Path, uid: &str) -> PathBuf {
    let proc = folder.join("proc");
    let bundle = folder.join("bundle");
    fs::create_dir_all(&bundle).expect("a folder");
    let annotations =
        json!({ "io.kubernetes.cri.sandbox-namespace": "shop", "io.kubernetes.cri.sandbox-name": "web" });
    let configuration = json!({ "ociVersion": "1.1.0", "annotations": annotations });
    fs::write(bundle.join("config.json"), configuration.to_string()).expect("written");
    let (id, group) = (sandbox.id(), format!("0::/kubepods/pod{uid}/{CONTAINER}"));
    for (number, group, parent) in
        [(MONITOR, "0::/system.slice/containerd.service", 1), (id, &*group, MONITOR)]
    {
        let process = proc.join(number.to_string());
        fs::create_dir_all(&process).expect("a folder");
        fs::write(process.join("cgroup"), group).expect("written");
        fs::write(process.join("status"), format!("Name:\tsome\nPPid:\t{parent}\n")).expect("written");
    }
    symlink(format!("/proc/{id}/ns"), proc.join(id.to_string()).join("ns")).expect("a link");
    symlink(&bundle, proc.join(MONITOR.to_string()).join("cwd")).expect("a link");
    proc
}

/// Edits rules by hand, like a user.
pub(crate) fn tamper(sandbox: &PodNamespace) {
    sandbox.command(&["nft", "add", "rule", "inet", "sidecar_init", "nat_ISTIO_OUTPUT", "counter"]);
}

#[test]
fn a_pod_that_drifts_is_counted_and_gets_an_event_once() {
    let scene = Scene::new();
    let sandbox = PodNamespace::new("10.213.7.7");
    let proc = proc(&sandbox, &scene.cluster.folder, &uid("web"));
    let names = scene.cluster.folder.join("netns");
    let address = "127.0.0.1:15517";
    let flags = ["--watch", "--proc", word(&proc), "--netns-dir", word(&names), "--metrics", address];
    let more = ["--status-interval", "1", "--metrics-per-pod"];
    let program = scene.start(&[&flags[..], &more[..]].concat());
    let pod = |state: &str, mesh: &str| {
        let labels = format!("state=\"{state}\",mesh=\"{mesh}\",namespace=\"shop\",pod=\"web\"");
        format!("sidecar_node_pods{{{labels}}} 1")
    };
    let is = |state: &str, mesh: &str| {
        let metrics = get(address, "/metrics").1;
        let pods: Vec<&str> = metrics.lines().filter(|line| line.starts_with("sidecar_node_pods{")).collect();
        pods == [pod(state, mesh)]
    };
    let drifts = || {
        let events = scene.cluster.all("events").into_iter();
        events.filter(|event| event["reason"] == "CaptureDrifted").collect::<Vec<Value>>()
    };
    let looks = || {
        let metrics = get(address, "/metrics").1;
        let line = "sidecar_node_looks_total{outcome=\"done\"} ";
        let count = metrics.lines().find_map(|one| one.strip_prefix(line)?.parse::<u64>().ok());
        count.unwrap_or_default()
    };
    until("it listens", || std::net::TcpStream::connect(address).is_ok());
    until("it is counted as not captured", || is("not-captured", ""));

    scene.cluster.put(&with_address(broken("web", 1), "10.213.7.7"));
    // No proxy listens on the redirection target.
    until("it is counted as repaired", || is("failing", "istio"));
    assert_eq!(drifts(), Vec::<Value>::new());

    tamper(&sandbox);
    until("it is counted as drifted", || is("drifted", "istio"));
    until("an event reports the drift", || !drifts().is_empty());
    let event = drifts()[0].clone();
    assert_eq!(
        (&event["type"], &event["regarding"]["uid"]),
        (&json!("Warning"), &json!(uid("web"))),
        "{event}"
    );
    let note = event["note"].as_str().unwrap_or_default();
    assert!(note.contains("sidecar-node-repair") && note.contains("changed since"), "{event}");
    let before = looks();
    until("it has read twice more", || looks() >= before + 2);
    assert_eq!((drifts().len(), scene.cluster.count("patch", "events")), (1, 0), "{}", program.log());

    // A repaired pod that is edited again has a second drift.
    scene.cluster.put(&with_address(broken("web", 2), "10.213.7.7"));
    until("it is counted as repaired again", || is("failing", "istio"));
    tamper(&sandbox);
    until("another event reports the drift", || drifts().len() + scene.cluster.count("patch", "events") >= 2);
    // Another pod of this name gets its own event, though the note has the same time.
    scene.cluster.remove("pods", "shop", "web");
    let mut other = healthy("web");
    other["metadata"]["uid"] = json!(uid("b"));
    scene.cluster.put(&other);
    let of_other = |event: &Value| event["regarding"]["uid"] == json!(uid("b"));
    until("the other pod's event", || drifts().iter().any(of_other));
    let requested = scene.cluster.requested();
    assert!(requested.is_subset(&allowed("repair")), "{requested:?}");
    assert_eq!(program.stop(), Some(0));
}

/// With `--action label`, the program need not see the node's namespaces, and counts none.
#[test]
fn namespaces_are_read_where_pods_are_repaired() {
    let scene = Scene::new();
    let address = "127.0.0.1:15518";
    let flags = ["--watch", "--action", "label", "--proc", "/nonexistent", "--metrics", address];
    let program = scene.start(&[&flags[..], &["--status-interval", "1"]].concat());
    until("pods are listed", || scene.cluster.count("watch", "pods") > 0);
    assert!(!get(address, "/metrics").1.contains("sidecar_node_looks_total{"));
    assert_eq!(program.stop(), Some(0));

    let flags = ["--watch", "--proc", "/nonexistent", "--metrics", address, "--status-interval", "1"];
    let program = scene.start(&flags);
    until("pods are listed", || scene.cluster.count("watch", "pods") > 1);
    until("a failure is counted", || {
        get(address, "/metrics").1.contains("sidecar_node_looks_total{outcome=\"failed\"}")
    });
    program.until_line("the node's namespaces can't be listed");
    assert_eq!(program.stop(), Some(0));
}
