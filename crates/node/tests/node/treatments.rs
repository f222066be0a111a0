//! Labels, deletions and exclusions.

use super::scene::{Scene, broken, healthy, pod, uid};
use serde_json::{Value, json};
use testkit::{cluster::Fault, running::Logged, until};

fn label(scene: &Scene, name: &str) -> Value {
    scene.pod(name)["metadata"]["labels"]["cni.istio.io/uninitialized"].clone()
}

fn watch(scene: &Scene, action: &str) -> Logged {
    let program = scene.start(&["--watch", "--action", action]);
    until("pods are listed", || scene.cluster.count("watch", "pods") > 0);
    program
}

#[test]
fn broken_pods_are_labelled_once() {
    let scene = Scene::new();
    scene.cluster.put(&healthy("well"));
    scene.cluster.put(&broken("web", 1));
    let program = watch(&scene, "label");
    until("it is labelled", || label(&scene, "web") == "true");
    scene.cluster.put(&broken("late", 1));
    until("the late one too", || label(&scene, "late") == "true");
    let labelled = scene.pod("web");
    let mut again = broken("web", 2);
    again["metadata"]["labels"] = labelled["metadata"]["labels"].clone();
    scene.cluster.put(&again);
    until("it sees the label", || program.log().contains("already"));
    assert_eq!(labelled["metadata"]["labels"]["app"], "web", "other labels stay");
    assert_eq!(label(&scene, "well"), Value::Null);
    let state = scene.cluster.state();
    let patches =
        state.requests.iter().filter(|(access, _)| (&*access.resource, access.verb) == ("pods", "patch"));
    let types: Vec<_> = patches.map(|(_, request)| request.header("content-type")).collect();
    assert_eq!(types, [Some("application/merge-patch+json"); 2]);
    drop(state);
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn the_label_is_configurable() {
    let scene = Scene::new();
    scene.cluster.put(&broken("web", 1));
    let (code, log) = scene.run(&["--action", "label", "--label", "example.com/broken=yes"]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(scene.pod("web")["metadata"]["labels"], json!({ "app": "web", "example.com/broken": "yes" }));
}

#[test]
fn broken_pods_are_deleted_by_their_uid() {
    let scene = Scene::new();
    scene.cluster.put(&broken("web", 1));
    scene.cluster.put(&healthy("well"));
    let (code, log) = scene.run(&["--action", "delete"]);
    assert_eq!(code, Some(0), "{log}");
    let left = scene.cluster.all("pods");
    assert_eq!(left.iter().map(|pod| &pod["metadata"]["name"]).collect::<Vec<_>>(), ["well"]);
    let state = scene.cluster.state();
    let (_, request) = state.requests.iter().find(|(access, _)| access.verb == "delete").expect("a deletion");
    let options: Value = serde_json::from_slice(&request.body).expect("options");
    assert_eq!(options["preconditions"]["uid"], uid("web"));
}

#[test]
fn pods_of_other_nodes_and_without_a_proxy_are_ignored() {
    let scene = Scene::new();
    let mut elsewhere = broken("elsewhere", 1);
    elsewhere["spec"]["nodeName"] = "node-2".into();
    let mut plain = broken("plain", 1);
    plain["metadata"]["annotations"] = json!({});
    let mut leaving = broken("leaving", 1);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    for pod in [elsewhere, plain, leaving, pod("fresh")] {
        scene.cluster.put(&pod);
    }
    let (code, log) = scene.run(&["--action", "delete"]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(scene.cluster.count("delete", "pods"), 0);
    let state = scene.cluster.state();
    let (_, list) = state.requests.iter().find(|(access, _)| access.verb == "list").expect("a list");
    assert_eq!(list.parameter("fieldSelector"), Some("spec.nodeName=node-1"));
    assert_eq!(list.parameter("resourceVersion"), Some("0"), "from the cache");
}

#[test]
fn a_successor_with_the_same_name_is_not_touched() {
    let scene = Scene::new();
    scene.cluster.put(&broken("web", 1));
    let program = watch(&scene, "delete");
    until("it is deleted", || scene.cluster.all("pods").is_empty());
    // The next broken pod is replaced by another of its name before the program's call.
    scene.cluster.fault("delete", "pods", Fault::Refuse(409));
    scene.cluster.put(&broken("web", 1));
    until("the refusal is logged", || program.log().contains("cannot repair it"));
    scene.cluster.remove("pods", "shop", "web");
    let mut other = healthy("web");
    other["metadata"]["uid"] = "another".into();
    scene.cluster.put(&other);
    until("the first one is forgotten", || program.log().contains("it is deleted"));
    assert_eq!(scene.cluster.all("pods").len(), 1);
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn a_patch_has_the_uid_of_its_pod() {
    let scene = Scene::new();
    let program = watch(&scene, "label");
    {
        let mut state = scene.cluster.state();
        state.place(&broken("web", 1));
        // Before the watch reports the deletion, another pod has its name.
        let pod = state.find_mut("pods", "shop", "web").expect("the pod");
        pod["metadata"]["uid"] = "another".into();
    }
    scene.cluster.bookmark();
    until("the refusal is logged", || program.log().contains("cannot repair it"));
    assert_eq!(label(&scene, "web"), Value::Null);
    assert_eq!(scene.cluster.count("create", "events"), 0, "no event is published: nothing failed");
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn an_event_has_the_api_servers_reason() {
    let scene = Scene::new();
    scene.cluster.fault("delete", "pods", Fault::Refuse(403));
    scene.cluster.put(&broken("web", 1));
    let (code, log) = scene.run(&["--action", "delete"]);
    assert_eq!(code, Some(1), "{log}");
    let event = scene.cluster.all("events")[0].clone();
    let note = event["note"].as_str().unwrap_or_default();
    assert!(note.contains("request to the API server failed: ") && note.ends_with("(403)"), "{event}");
}

#[test]
fn no_more_pods_than_the_rate_are_deleted() {
    let scene = Scene::new();
    for number in 0..10 {
        scene.cluster.put(&broken(&format!("a{number}"), 1));
    }
    let program = scene.start(&["--watch", "--action", "delete", "--rate", "3"]);
    until("three are deleted", || scene.cluster.count("delete", "pods") == 3);
    scene.cluster.put(&broken("late", 1));
    let is_late = |line: &Value| line["pod"] == "shop/late";
    until("it sees another one", || {
        program.lines("its validation failed: its traffic is not captured").iter().any(is_late)
    });
    assert_eq!(scene.cluster.count("delete", "pods"), 3);
    assert_eq!(program.stop(), Some(0), "it ends immediately, despite due work");
}
