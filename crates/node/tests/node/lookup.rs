//! `sidecar-node pod`: what the plugin is told of a pod, and how it ends where nobody knows.

use super::scene::{Scene, pod};
use serde_json::{Value, json};
use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};
use testkit::{cluster::Fault, word};

/// Exit code, standard output, standard error.
type Ended = (Option<i32>, String, String);

fn look(scene: &Scene, name: &str, milliseconds: u32) -> Ended {
    let kubeconfig = scene.cluster.kubeconfig();
    let output = Command::new(env!("CARGO_BIN_EXE_sidecar-node"))
        .args(["pod", "--kubeconfig", word(&kubeconfig), "--namespace", "shop", "--name", name, "--timeout"])
        .arg(milliseconds.to_string())
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn knows(scene: &Scene) {
    scene.cluster.put(&pod("web"));
    let (code, stdout, stderr) = look(scene, "web", 20_000);
    assert_eq!(code, Some(0), "{stderr}");
    let shown: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((&shown["kind"], &shown["metadata"]["uid"]), (&json!("Pod"), &pod("web")["metadata"]["uid"]));
    assert_eq!(shown["spec"], pod("web")["spec"]);
}

#[test]
fn a_pod_is_told_whole() {
    let scene = Scene::new();
    knows(&scene);
    assert_eq!(scene.cluster.count("get", "pods"), 1);
}

#[test]
fn faults_are_outlasted() {
    for fault in [
        Fault::Refuse(500),
        Fault::Refuse(401),
        Fault::Cut,
        Fault::Hang,
        Fault::Lie("nonsense"),
        Fault::Lie("{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"other\"},\"spec\":{}}"),
        Fault::Slow(Duration::from_millis(500)),
    ] {
        let scene = Scene::new();
        scene.cluster.fault("get", "pods", fault);
        knows(&scene);
    }
}

#[test]
fn time_is_kept_and_the_last_reason_told() {
    let scene = Scene::new();
    scene.cluster.put(&pod("web"));
    scene.cluster.faults(100, "get", "pods", Fault::Refuse(500));
    let start = Instant::now();
    let (code, stdout, stderr) = look(&scene, "web", 1_500);
    let took = start.elapsed();
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("no answer about the pod shop/web within 1.5s"), "{stderr}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let tries = scene.cluster.count("get", "pods");
    assert!((3..=15).contains(&tries), "{tries} tries: neither once nor in a loop");
}

#[test]
fn what_is_said_for_good_is_not_asked_again() {
    let scene = Scene::new();
    let (code, _, stderr) = look(&scene, "web", 20_000);
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("the API server knows no pod shop/web"), "{stderr}");
    scene.cluster.fault("get", "pods", Fault::Refuse(403));
    let (code, _, stderr) = look(&scene, "web", 20_000);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("allow its user to get pods"), "{stderr}");
    assert_eq!(scene.cluster.count("get", "pods"), 2);
    let (code, _, stderr) = look(&scene, "../../secrets/x", 20_000);
    assert_eq!(code, Some(2), "{stderr}");
    assert_eq!(scene.cluster.count("get", "pods"), 2, "no such name is asked for");
}

#[test]
fn each_call_reads_the_token_again_and_nobody_is_told_it() {
    let scene = Scene::new();
    let token = scene.cluster.file("token");
    scene.cluster.kubeconfig_with(&json!({ "tokenFile": word(&token) }));
    for secret in ["the-first-secret", "the-second-secret"] {
        fs::write(&token, secret).expect("written");
        scene.cluster.admit(secret);
        knows(&scene);
    }
    scene.cluster.admit("another");
    let (code, stdout, stderr) = look(&scene, "web", 700);
    assert_eq!(code, Some(1));
    assert!(!stdout.contains("secret") && !stderr.contains("secret"), "{stderr}");
}

#[test]
fn a_kubeconfig_that_can_not_be_used_is_told() {
    let scene = Scene::new();
    scene.cluster.kubeconfig_with(
        &json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "true" } }),
    );
    let (code, _, stderr) = look(&scene, "web", 1_000);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("which is not started here"), "{stderr}");
    fs::write(scene.cluster.file("kubeconfig"), "{").expect("written");
    let (code, _, stderr) = look(&scene, "web", 1_000);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--kubeconfig") && stderr.contains("can't be read"), "{stderr}");
}
