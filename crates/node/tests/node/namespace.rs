//! Repair in a real network namespace, held by a test process instead of the pod's.

use super::overview::proc;
use super::scene::{Scene, broken, healthy, uid};
use serde_json::json;
use sidecar_init::sys::namespace;
use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    time::Duration,
};
use testkit::{http::get, pod_namespace::PodNamespace, until, word};

/// The nftables rules without objects' handles.
fn rules(namespace: &PodNamespace) -> String {
    crate::note::without_note(&namespace.command(&["nft", "list", "ruleset"]))
}

fn captures(namespace: &PodNamespace) -> bool {
    let connect = || {
        let proxy = TcpListener::bind("127.0.0.1:15001").expect("a port");
        proxy.set_nonblocking(true).expect("a socket");
        let to = "198.51.100.7:80".parse().expect("an address");
        TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_ok() && proxy.accept().is_ok()
    };
    namespace::within(Path::new(&namespace.path()), connect).expect("a namespace")
}

pub(crate) fn with_address(mut pod: serde_json::Value, address: &str) -> serde_json::Value {
    pod["status"]["podIP"] = address.into();
    pod["status"]["podIPs"] = json!([{ "ip": address }]);
    pod
}

#[test]
fn a_pod_is_repaired_once_a_failure_and_its_traffic_captured() {
    let scene = Scene::new();
    let sandbox = PodNamespace::new("10.213.1.7");
    let proc = proc(&sandbox, &scene.cluster.folder, &uid("web"));
    assert!(!captures(&sandbox), "nothing has set rules yet");

    let program = scene.start(&["--watch", "--proc", word(&proc), "--metrics", "127.0.0.1:15514"]);
    until("pods are listed", || scene.cluster.count("watch", "pods") > 0);
    scene.cluster.put(&with_address(broken("web", 1), "10.213.1.7"));
    until("an event reports the repair", || !scene.cluster.all("events").is_empty());
    assert!(captures(&sandbox), "the rules are there:\n{}", rules(&sandbox));
    let set = rules(&sandbox);
    assert!(set.contains("table inet sidecar_init") && set.contains("9999"), "{set}");
    let event = scene.cluster.all("events")[0].clone();
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Normal"), &json!("SidecarRepairDone")),
        "{event}"
    );
    assert_eq!(event["regarding"]["uid"], uid("web"));

    // An unchanged failure causes no action; the next failure causes a check, which finds all rules in place.
    scene.cluster.put(&with_address(broken("web", 1), "10.213.1.7"));
    scene.cluster.put(&with_address(broken("web", 2), "10.213.1.7"));
    until("it has checked again", || program.log().contains("already in its namespace"));
    assert_eq!(rules(&sandbox), set);
    assert_eq!(program.log().matches("\"action\":\"repair\"").count(), 2, "{}", program.log());

    scene.cluster.put(&with_address(healthy("web"), "10.213.1.7"));
    until("it has recovered", || program.log().contains("it has recovered"));
    let metrics = get("127.0.0.1:15514", "/metrics").1;
    for line in
        ["sidecar_node_repairs_total{action=\"repair\",outcome=\"done\"} 2", "sidecar_node_recovered_total 1"]
    {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert!(get("127.0.0.1:15514", "/readyz").0 == 200);
    assert!(program.log().lines().all(|line| line.starts_with('{')), "each line is JSON: {}", program.log());
    assert_eq!(program.stop(), Some(0));
}

/// A pod of a mesh other than Istio, by its annotations.
#[test]
fn a_pod_of_linkerd_is_repaired_with_its_own_rules() {
    let scene = Scene::new();
    let sandbox = PodNamespace::new("10.213.6.7");
    let proc = proc(&sandbox, &scene.cluster.folder, &uid("web"));
    let mut pod = with_address(broken("web", 1), "10.213.6.7");
    pod["metadata"]["annotations"] = json!({
        "linkerd.io/proxy-version": "edge-26.8.1", "config.linkerd.io/skip-inbound-ports": "9999",
    });
    pod["spec"]["initContainers"] = json!([{ "name": "sidecar-validation", "image": "i" }]);
    pod["spec"]["containers"] =
        json!([{ "name": "linkerd-proxy", "image": "p" }, { "name": "app", "image": "a" }]);
    pod["status"]["initContainerStatuses"][0]["name"] = "sidecar-validation".into();
    scene.cluster.put(&pod.clone());
    let (code, log) = scene.run(&["--proc", word(&proc)]);
    assert_eq!(code, Some(0), "{log}");
    let set = rules(&sandbox);
    assert!(set.contains("table inet sidecar_init_linkerd") && set.contains("9999"), "{set}{log}");
    // Another mesh's rules get no additions.
    pod["metadata"]["annotations"] = json!({ "kuma.io/sidecar-injected": "true" });
    pod["spec"]["containers"][0]["name"] = "kuma-sidecar".into();
    pod["status"]["initContainerStatuses"][0]["restartCount"] = 2.into();
    scene.cluster.put(&pod);
    let (code, log) = scene.run(&["--proc", word(&proc)]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("Kuma was requested") && log.contains("clean --mesh linkerd"), "{log}");
    assert_eq!(rules(&sandbox), set);
}

#[test]
fn addresses_identify_a_pod_without_processes() {
    let scene = Scene::new();
    let (sandbox, _other) = (PodNamespace::new("10.213.2.7"), PodNamespace::new("10.213.2.8"));
    scene.cluster.put(&with_address(broken("web", 1), "10.213.2.7"));
    let (code, log) = scene.run(&[]);
    assert_eq!(code, Some(0), "{log}");
    assert!(captures(&sandbox), "{log}");
    assert!(!captures(&_other), "another pod's namespace is untouched");
}

#[test]
fn ambiguous_namespaces_are_not_touched() {
    let scene = Scene::new();
    let sandboxes = [PodNamespace::new("10.213.3.7"), PodNamespace::new("10.213.3.7")];
    scene.cluster.put(&with_address(broken("web", 1), "10.213.3.7"));
    let (code, log) = scene.run(&[]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("several namespaces may be the pod's"), "{log}");
    assert_eq!(sandboxes.each_ref().map(rules), ["", ""]);
    let event = scene.cluster.all("events")[0].clone();
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("SidecarRepairFailed")),
        "{event}"
    );
}

#[test]
fn a_process_or_address_of_another_pod_is_not_used() {
    for (pod_of_process, address, reported) in [
        // A process of the pod's group, in a namespace with a foreign address.
        ("web", "10.213.4.7", "10.213.4.9"),
        // An address that now belongs to another pod.
        ("b", "10.213.8.7", "10.213.8.7"),
    ] {
        let scene = Scene::new();
        let sandbox = PodNamespace::new(address);
        let proc = proc(&sandbox, &scene.cluster.folder, &uid(pod_of_process));
        scene.cluster.put(&with_address(broken("web", 1), reported));
        let (code, log) = scene.run(&["--proc", word(&proc)]);
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains("no process of the pod, and no namespace with its addresses"), "{log}");
        assert_eq!(rules(&sandbox), "", "{pod_of_process}");
    }
}

#[test]
fn invalid_annotations_are_reported_and_nothing_is_touched() {
    let scene = Scene::new();
    let sandbox = PodNamespace::new("10.213.5.7");
    let proc = proc(&sandbox, &scene.cluster.folder, &uid("web"));
    let mut pod = with_address(broken("web", 1), "10.213.5.7");
    pod["metadata"]["annotations"]["traffic.sidecar.istio.io/excludeInboundPorts"] = "99999".into();
    scene.cluster.put(&pod);
    let (code, log) = scene.run(&["--proc", word(&proc)]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("excludeInboundPorts") && log.contains("99999"), "{log}");
    assert_eq!(rules(&sandbox), "");
}
