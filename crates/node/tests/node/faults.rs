//! An API server that is slow, refuses, lies, forgets and breaks off, and credentials that change.

use super::scene::{Program, Scene, broken};
use serde_json::json;
use std::{fs, time::Duration};
use testkit::cluster::{Cluster, Fault};
use testkit::{command, until, word};

/// That deletion goes on working is how a test sees that the program is well.
fn start(scene: &Scene) -> Program {
    scene.start(&["--watch", "--action", "delete", "--watch-timeout", "30", "--call-timeout", "2"])
}

fn is_deleted(cluster: &Cluster, name: &str) {
    cluster.put(&broken(name, 1));
    until("the broken pod is deleted", || cluster.find("pods", "shop", name).is_none());
}

/// Starts, lets a fault meet the next request of a verb, and sees that all goes well afterwards.
fn survives(verb: &'static str, fault: Fault, text: &str) {
    let scene = Scene::new();
    scene.cluster.fault(verb, "pods", fault);
    let program = start(&scene);
    is_deleted(&scene.cluster, "web");
    until("the fault is told", || program.log().contains(text));
    assert!(scene.cluster.state().faults.is_empty(), "the fault has been met");
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn slow_answers_are_waited_for() {
    survives("list", Fault::Slow(Duration::from_secs(1)), "the pods of the node are known");
    survives("delete", Fault::Slow(Duration::from_secs(1)), "it is deleted");
}

#[test]
fn answers_that_never_come_are_given_up() {
    survives("list", Fault::Hang, "does not list pods within 2s");
    survives("delete", Fault::Hang, "gave no answer within 2s");
}

#[test]
fn refusals_are_outlasted() {
    survives("list", Fault::Refuse(500), "\"kind\":\"refused\"");
    survives("list", Fault::Refuse(403), "\"kind\":\"forbidden\"");
    survives("watch", Fault::Refuse(500), "\"kind\":\"refused\"");
    survives("delete", Fault::Refuse(500), "it can't be repaired");
}

#[test]
fn lies_are_not_believed() {
    survives("list", Fault::Lie("<html>a proxy's page</html>"), "\"kind\":\"broken\"");
    survives("list", Fault::Lie("{\"kind\":\"PodList\",\"items\":[{\"spec\":7}]}"), "\"kind\":\"broken\"");
    survives("list", Fault::Cut, "\"kind\":\"unreachable\"");
    survives("watch", Fault::Lie("nonsense\n{\"type\":\"ADDED\"}\n"), "\"kind\":\"broken\"");
    survives("delete", Fault::Lie("{"), "it can't be repaired");
}

#[test]
fn a_version_too_old_is_answered_by_a_new_list() {
    survives("watch", Fault::Gone, "\"kind\":\"gone\"");
    survives("watch", Fault::Refuse(410), "\"kind\":\"gone\"");
}

#[test]
fn a_watch_cut_in_the_middle_goes_on_where_it_was() {
    let scene = Scene::new();
    let program = start(&scene);
    is_deleted(&scene.cluster, "first");
    let lists = scene.cluster.count("list", "pods");
    scene.cluster.cut();
    is_deleted(&scene.cluster, "second");
    assert_eq!(scene.cluster.count("list", "pods"), lists, "nothing was missed, so nothing is listed again");
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn bookmarks_spare_a_list() {
    for bookmarked in [true, false] {
        let scene = Scene::new();
        let program = start(&scene);
        is_deleted(&scene.cluster, "first");
        // Its event is a change too, behind which the bookmark has to come.
        until("the deletion has its event", || !scene.cluster.all("events").is_empty());
        if bookmarked {
            scene.cluster.bookmark();
            // The watch has to have got it.
            std::thread::sleep(Duration::from_millis(500));
        } else {
            scene.cluster.happen_elsewhere();
        }
        scene.cluster.forget();
        let lists = scene.cluster.count("list", "pods");
        scene.cluster.cut();
        is_deleted(&scene.cluster, "second");
        assert_eq!(scene.cluster.count("list", "pods") > lists, !bookmarked, "{}", program.log());
        assert_eq!(program.stop(), Some(0));
    }
}

#[test]
fn a_pod_that_goes_while_nobody_watches_is_forgotten() {
    let scene = Scene::new();
    scene.cluster.faults(20, "delete", "pods", Fault::Refuse(500));
    scene.cluster.put(&broken("web", 1));
    let program = start(&scene);
    until("it can't be deleted", || scene.cluster.count("delete", "pods") > 0);
    scene.cluster.remove("pods", "shop", "web");
    scene.cluster.happen_elsewhere();
    scene.cluster.forget();
    scene.cluster.cut();
    scene.cluster.state().faults.clear();
    is_deleted(&scene.cluster, "next");
    let calls = scene.cluster.count("delete", "pods");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(scene.cluster.count("delete", "pods"), calls, "{}", program.log());
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn failures_are_tried_again_later_and_later() {
    let scene = Scene::new();
    scene.cluster.faults(3, "delete", "pods", Fault::Refuse(500));
    scene.cluster.put(&broken("web", 1));
    let program = start(&scene);
    until("it is deleted", || scene.cluster.all("pods").is_empty());
    assert_eq!(scene.cluster.count("delete", "pods"), 4);
    let log = program.log();
    let times = log.lines().filter(|line| line.contains("\"action\":\"delete\""));
    let times: Vec<f64> = times.map(seconds).collect();
    let waits: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (wait, least) in waits.iter().zip([0.5, 1.0, 2.0]) {
        assert!(*wait >= least, "{waits:?}");
    }
    assert_eq!(program.stop(), Some(0));
}

/// The seconds within its hour that a line was logged at.
fn seconds(line: &str) -> f64 {
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let time = line["timestamp"].as_str().expect("a time").to_owned();
    let mut parts = time.trim_end_matches('Z').rsplit(':');
    let second: f64 = parts.next().and_then(|part| part.parse().ok()).expect("seconds");
    let minute: f64 = parts.next().and_then(|part| part.parse().ok()).expect("minutes");
    minute * 60.0 + second
}

#[test]
fn a_token_that_is_exchanged_is_read_again_and_never_told() {
    let scene = Scene::new();
    let token = scene.cluster.file("token");
    fs::write(&token, "the-first-secret").expect("written");
    scene.cluster.kubeconfig_with(&json!({ "tokenFile": word(&token) }));
    scene.cluster.admit("the-first-secret");
    let program = start(&scene);
    is_deleted(&scene.cluster, "first");
    scene.cluster.admit("the-second-secret");
    scene.cluster.cut();
    until("the old one is refused", || program.log().contains("\"kind\":\"unauthorized\""));
    fs::write(&token, "the-second-secret").expect("written");
    is_deleted(&scene.cluster, "second");
    // Not only the watch: each call.
    scene.cluster.admit("the-third-secret");
    fs::write(&token, "the-third-secret").expect("written");
    is_deleted(&scene.cluster, "third");
    assert!(!program.log().contains("secret"), "{}", program.log());
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn certificates_of_clients_are_credentials_too() {
    let scene = Scene::new();
    scene.cluster.kubeconfig_with(&json!({}));
    scene.cluster.put(&broken("web", 1));
    let (code, log) = scene.run(&["--action", "delete", "--call-timeout", "2"]);
    assert_eq!(code, Some(1), "without one nobody is let in: {log}");
    let (certificate, key) = scene.cluster.authority.client("node");
    let (certificate_path, key_path) = (scene.cluster.file("client.crt"), scene.cluster.file("client.key"));
    fs::write(&certificate_path, certificate).expect("written");
    fs::write(&key_path, key).expect("written");
    scene.cluster.kubeconfig_with(&json!({
        "client-certificate": word(&certificate_path), "client-key": word(&key_path) }));
    let (code, log) = scene.run(&["--action", "delete"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(scene.cluster.all("pods").is_empty());
}

#[test]
fn a_server_of_another_authority_learns_no_token() {
    let scene = Scene::new();
    scene.cluster.kubeconfig_with(&json!({ "token": "the-secret" }));
    let other = testkit::certificates::Authority::new("another");
    fs::write(scene.cluster.file("ca.crt"), other.pem).expect("written");
    let (code, log) = scene.run(&["--call-timeout", "2"]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("invalid peer certificate"), "{log}");
    assert!(scene.cluster.state().requests.is_empty());
    assert!(!log.contains("the-secret"), "{log}");
}

#[test]
fn credentials_by_a_program_are_refused_in_a_sentence() {
    let scene = Scene::new();
    let witness = scene.cluster.file("started");
    scene.cluster.kubeconfig_with(
        &json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "touch",
        "args": [word(&witness)], "interactiveMode": "Never" } }),
    );
    let (code, log) = scene.run(&[]);
    assert_eq!(code, Some(2), "{log}");
    assert!(
        log.contains("which is not started here; expected token, tokenFile, or client-certificate"),
        "{log}"
    );
    assert!(!witness.exists());
}

#[test]
fn bad_input_is_told_before_anything_is_done() {
    let scene = Scene::new();
    fs::write(scene.cluster.file("kubeconfig"), "clusters: 7").expect("written");
    let (code, log) = scene.run(&[]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("--kubeconfig") && log.contains("can't be read"), "{log}");
    let help = command(env!("CARGO_BIN_EXE_sidecar-node"), &["repair", "--help"]);
    for flag in ["--watch", "--action", "--kubeconfig", "--metrics"] {
        assert!(help.contains(flag), "{help}");
    }
}
