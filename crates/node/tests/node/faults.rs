//! An API server that is slow, refuses, sends invalid answers, forgets and disconnects, and credentials that change.

use super::scene::{NODE, Scene, broken};
use crate::PROGRAM;
use serde_json::json;
use std::{fs, time::Duration};
use testkit::cluster::{Cluster, Fault};
use testkit::{running::Logged, scope, until, word};

/// Starts the program with deletion as the action, whose success shows that the program works.
fn start(scene: &Scene) -> Logged {
    scene.start(&["--watch", "--action", "delete", "--watch-timeout", "30", "--call-timeout", "2"])
}

fn is_deleted(cluster: &Cluster, name: &str) {
    cluster.put(&broken(name, 1));
    until("the broken pod is deleted", || cluster.find("pods", "shop", name).is_none());
}

/// Injects a fault into the next request of a verb, and verifies that the program recovers.
fn survives(verb: &'static str, fault: Fault, text: &str) {
    let scene = Scene::new();
    scene.cluster.fault(verb, "pods", fault);
    let program = start(&scene);
    is_deleted(&scene.cluster, "web");
    until("the fault is logged", || program.log().contains(text));
    assert!(scene.cluster.state().faults.is_empty(), "the fault has occurred");
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn faults_are_survived_and_logged() {
    let second = Duration::from_secs(1);
    let all = vec![
        ("list", Fault::Slow(second), "the node's pods are known"),
        ("list", Fault::Hang, "does not list pods within 2s"),
        ("list", Fault::Refuse(500), "\"kind\":\"refused\""),
        ("list", Fault::Refuse(403), "\"kind\":\"forbidden\""),
        ("list", Fault::Lie("<html>a proxy's page</html>"), "\"kind\":\"broken\""),
        ("list", Fault::Lie("{\"kind\":\"PodList\",\"items\":[{\"spec\":7}]}"), "\"kind\":\"broken\""),
        ("list", Fault::Cut, "\"kind\":\"unreachable\""),
        ("watch", Fault::Refuse(500), "\"kind\":\"refused\""),
        ("watch", Fault::Lie("nonsense\n{\"type\":\"ADDED\"}\n"), "\"kind\":\"broken\""),
        // An expired version: a new list.
        ("watch", Fault::Gone, "\"kind\":\"gone\""),
        ("watch", Fault::Refuse(410), "\"kind\":\"gone\""),
        ("delete", Fault::Slow(second), "it is deleted"),
        ("delete", Fault::Hang, "did not answer within 2s"),
        ("delete", Fault::Refuse(500), "cannot repair it"),
        ("delete", Fault::Lie("{"), "cannot repair it"),
    ];
    for (verb, fault, text) in scope::of(all, 4) {
        survives(verb, fault, text);
    }
}

#[test]
fn bookmarks_spare_a_list() {
    for bookmarked in [true, false] {
        let scene = Scene::new();
        let program = start(&scene);
        is_deleted(&scene.cluster, "first");
        // The deletion's event is a change too, and precedes the bookmark.
        until("the deletion has its event", || !scene.cluster.all("events").is_empty());
        if bookmarked {
            scene.cluster.bookmark();
            // Time for the watch to receive the bookmark.
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
fn a_pod_deleted_without_a_watch_is_forgotten() {
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
    until("the first one is forgotten", || program.line("it is deleted").is_some());
    // A further call for it would precede another pod's second call.
    let calls = scene.cluster.count("delete", "pods");
    scene.cluster.fault("delete", "pods", Fault::Refuse(500));
    is_deleted(&scene.cluster, "last");
    assert_eq!(scene.cluster.count("delete", "pods"), calls + 2, "{}", program.log());
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn an_exchanged_token_is_read_again_and_never_logged() {
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
    // All calls use the new token, not only the watch.
    scene.cluster.admit("the-third-secret");
    fs::write(&token, "the-third-secret").expect("written");
    is_deleted(&scene.cluster, "third");
    assert!(!program.log().contains("secret"), "{}", program.log());
    assert_eq!(program.stop(), Some(0));
}

#[test]
#[ignore = "five failures take a quarter of a minute"]
fn without_a_watch_an_api_server_that_refuses_is_given_up() {
    let scene = Scene::new();
    scene.cluster.storm("list", "pods", Fault::Refuse(500));
    let (code, log) = scene.run(&["--action", "delete"]);
    assert_eq!(code, Some(1), "{log}");
    assert_eq!(scene.cluster.count("list", "pods"), 5);
}

#[test]
fn a_server_of_another_authority_learns_no_token() {
    let scene = Scene::new();
    scene.cluster.kubeconfig_with(&json!({ "token": "the-secret" }));
    let other = testkit::certificates::Authority::new("another");
    fs::write(scene.cluster.file("ca.crt"), other.pem).expect("written");
    let program = start(&scene);
    until("it is not trusted", || program.log().contains("invalid peer certificate"));
    assert!(scene.cluster.state().requests.is_empty());
    assert!(!program.log().contains("the-secret"), "{}", program.log());
    assert_eq!(program.stop(), Some(0));
}

/// Both commands refuse unusable kubeconfigs before any action.
#[test]
fn kubeconfigs_that_can_not_be_used_are_refused() {
    let scene = Scene::new();
    let witness = scene.cluster.file("started");
    let kubeconfig = scene.cluster.kubeconfig_with(
        &json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "touch",
        "args": [word(&witness)], "interactiveMode": "Never" } }),
    );
    let commands = [&["repair", "--node", NODE][..], &["pod", "--namespace", "shop", "--name", "web"]];
    let are_refused = |parts: &[&str]| {
        for words in commands {
            let refused = PROGRAM.run(&[words, &["--kubeconfig", word(&kubeconfig)]].concat()).with(2);
            assert!(parts.iter().all(|part| refused.stderr.contains(part)), "{parts:?}: {refused:?}");
        }
    };
    are_refused(&["which is not supported; expected token, tokenFile, or client-certificate"]);
    assert!(!witness.exists());
    fs::write(&kubeconfig, "clusters: 7").expect("written");
    are_refused(&["--kubeconfig", "can't be read"]);
}
