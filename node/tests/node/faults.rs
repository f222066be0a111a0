//! An API server that is slow, refuses, lies, forgets and breaks off, and credentials that change.

use super::scene::{Program, Scene, broken, command, text, until};
use super::server::{Fault, Server};
use serde_json::json;
use std::{fs, time::Duration};

/// That deletion goes on working is how a test sees that the program is well.
fn start(scene: &Scene) -> Program {
    scene.start(&["--watch", "--action", "delete", "--watch-timeout", "30", "--call-timeout", "2"])
}

fn is_deleted(server: &Server, name: &str) {
    server.put(broken(name, 1));
    until("the broken pod is deleted", || {
        !server.state().pods.contains_key(&("shop".to_owned(), name.to_owned()))
    });
}

/// Starts, lets a fault meet the next request of a verb, and sees that all goes well afterwards.
fn survives(verb: &'static str, fault: Fault, told: &str) {
    let scene = Scene::new();
    scene.server.state().faults.push((verb, fault));
    let program = start(&scene);
    is_deleted(&scene.server, "web");
    until("the fault is told", || program.log().contains(told));
    assert!(scene.server.state().faults.is_empty(), "the fault has been met");
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
    is_deleted(&scene.server, "first");
    let lists = scene.server.count("list");
    scene.server.cut();
    is_deleted(&scene.server, "second");
    assert_eq!(scene.server.count("list"), lists, "nothing was missed, so nothing is listed again");
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn bookmarks_spare_a_list() {
    for bookmarked in [true, false] {
        let scene = Scene::new();
        let program = start(&scene);
        is_deleted(&scene.server, "first");
        if bookmarked {
            scene.server.bookmark();
            // The watch has to have got it.
            std::thread::sleep(Duration::from_millis(500));
        } else {
            scene.server.state().happen_elsewhere();
        }
        scene.server.compact();
        let lists = scene.server.count("list");
        scene.server.cut();
        is_deleted(&scene.server, "second");
        assert_eq!(scene.server.count("list") > lists, !bookmarked, "{}", program.log());
        assert_eq!(program.stop(), Some(0));
    }
}

#[test]
fn a_pod_that_goes_while_nobody_watches_is_forgotten() {
    let scene = Scene::new();
    scene.server.state().faults.extend([("delete", Fault::Refuse(500)); 20]);
    scene.server.put(broken("web", 1));
    let program = start(&scene);
    until("it can't be deleted", || scene.server.count("delete") > 0);
    scene.server.remove("shop", "web");
    scene.server.state().happen_elsewhere();
    scene.server.compact();
    scene.server.cut();
    scene.server.state().faults.clear();
    is_deleted(&scene.server, "next");
    let calls = scene.server.count("delete");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(scene.server.count("delete"), calls, "{}", program.log());
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn failures_are_tried_again_later_and_later() {
    let scene = Scene::new();
    scene.server.state().faults.extend([("delete", Fault::Refuse(500)); 3]);
    scene.server.put(broken("web", 1));
    let program = start(&scene);
    until("it is deleted", || scene.server.state().pods.is_empty());
    assert_eq!(scene.server.count("delete"), 4);
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
    let token = scene.folder.join("token");
    fs::write(&token, "the-first-secret").expect("written");
    scene.kubeconfig(&json!({ "tokenFile": text(&token) }));
    scene.server.state().token = Some("the-first-secret".to_owned());
    let program = start(&scene);
    is_deleted(&scene.server, "first");
    scene.server.state().token = Some("the-second-secret".to_owned());
    scene.server.cut();
    until("the old one is refused", || program.log().contains("\"kind\":\"unauthorized\""));
    fs::write(&token, "the-second-secret").expect("written");
    is_deleted(&scene.server, "second");
    // Not only the watch: each call.
    scene.server.state().token = Some("the-third-secret".to_owned());
    fs::write(&token, "the-third-secret").expect("written");
    is_deleted(&scene.server, "third");
    assert!(!program.log().contains("secret"), "{}", program.log());
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn certificates_of_clients_are_credentials_too() {
    let scene = Scene::with(true);
    scene.server.put(broken("web", 1));
    let (code, log) = scene.run(&["--action", "delete", "--call-timeout", "2"]);
    assert_eq!(code, Some(1), "without one nobody is let in: {log}");
    let (certificate, key) = scene.server.authority.client("node");
    let (certificate_path, key_path) = (scene.folder.join("client.crt"), scene.folder.join("client.key"));
    fs::write(&certificate_path, certificate).expect("written");
    fs::write(&key_path, key).expect("written");
    scene.kubeconfig(&json!({
        "client-certificate": text(&certificate_path), "client-key": text(&key_path) }));
    let (code, log) = scene.run(&["--action", "delete"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(scene.server.state().pods.is_empty());
}

#[test]
fn a_server_of_another_authority_learns_no_token() {
    let scene = Scene::new();
    scene.kubeconfig(&json!({ "token": "the-secret" }));
    let other = super::certificates::Authority::new("another");
    fs::write(scene.folder.join("ca.crt"), other.pem).expect("written");
    let (code, log) = scene.run(&["--call-timeout", "2"]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("invalid peer certificate"), "{log}");
    assert!(scene.server.state().requests.is_empty());
    assert!(!log.contains("the-secret"), "{log}");
}

#[test]
fn credentials_by_a_program_are_refused_in_a_sentence() {
    let scene = Scene::new();
    let witness = scene.folder.join("started");
    scene.kubeconfig(&json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "touch",
        "args": [text(&witness)], "interactiveMode": "Never" } }));
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
    fs::write(scene.folder.join("kubeconfig"), "clusters: 7").expect("written");
    let (code, log) = scene.run(&[]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("--kubeconfig") && log.contains("can't be read"), "{log}");
    let help = command(env!("CARGO_BIN_EXE_sidecar-node"), &["repair", "--help"]);
    for flag in ["--watch", "--action", "--kubeconfig", "--metrics"] {
        assert!(help.contains(flag), "{help}");
    }
}
