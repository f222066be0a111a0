//! `sidecar-node pod`: its output for the plugin, and its exit codes for failures.

use super::scene::{Scene, pod};
use crate::PROGRAM;
use serde_json::json;
use std::time::Duration;
use testkit::{cluster::Fault, command_line::Ended, word};

fn look(scene: &Scene, name: &str, milliseconds: u32) -> Ended {
    let (kubeconfig, time) = (scene.cluster.kubeconfig(), milliseconds.to_string());
    let words = ["pod", "--kubeconfig", word(&kubeconfig), "--namespace", "shop", "--name", name];
    PROGRAM.run(&[&words[..], &["--timeout", &time]].concat())
}

fn refused(scene: &Scene, name: &str, milliseconds: u32, code: i32) -> String {
    let ended = look(scene, name, milliseconds).with(code);
    assert_eq!(ended.stdout, "");
    ended.stderr
}

fn knows(scene: &Scene) {
    scene.cluster.put(&pod("web"));
    let shown = look(scene, "web", 10_000).with(0).json();
    assert_eq!((&shown["kind"], &shown["metadata"]["uid"]), (&json!("Pod"), &pod("web")["metadata"]["uid"]));
    assert_eq!(shown["spec"], pod("web")["spec"]);
}

#[test]
fn a_pod_is_printed_whole_and_faults_are_survived() {
    let scene = Scene::new();
    knows(&scene);
    assert_eq!(scene.cluster.count("get", "pods"), 1);
    for fault in [
        Fault::Refuse(500),
        Fault::Refuse(401),
        Fault::Cut,
        Fault::Hang,
        Fault::Lie("nonsense"),
        Fault::Lie("{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"other\"},\"spec\":{}}"),
        Fault::Slow(Duration::from_millis(500)),
    ] {
        scene.cluster.fault("get", "pods", fault);
        knows(&scene);
        assert!(scene.cluster.state().faults.is_empty(), "{fault:?} has occurred");
    }
}

#[test]
fn the_time_limit_holds_and_the_last_error_is_reported() {
    let scene = Scene::new();
    scene.cluster.put(&pod("web"));
    scene.cluster.faults(100, "get", "pods", Fault::Refuse(500));
    let stderr = refused(&scene, "web", 1_500, 1);
    assert!(stderr.contains("did not answer about pod shop/web within 1.5s"), "{stderr}");
    let tries = scene.cluster.count("get", "pods");
    assert!((2..=15).contains(&tries), "{tries} tries: neither once nor in a loop");
}

#[test]
fn final_answers_are_not_retried() {
    let scene = Scene::new();
    let stderr = refused(&scene, "web", 20_000, 4);
    assert!(stderr.contains("pod shop/web does not exist"), "{stderr}");
    scene.cluster.fault("get", "pods", Fault::Refuse(403));
    let stderr = refused(&scene, "web", 20_000, 1);
    assert!(stderr.contains("grant get on pods"), "{stderr}");
    refused(&scene, "../../secrets/x", 20_000, 2);
    assert_eq!(scene.cluster.count("get", "pods"), 2, "neither is retried, and no invalid name is requested");
}

#[test]
fn a_refused_token_is_not_printed() {
    let scene = Scene::new();
    scene.cluster.kubeconfig_with(&json!({ "token": "the-secret" }));
    let stderr = refused(&scene, "web", 700, 1);
    assert!(!stderr.contains("secret"), "{stderr}");
}
