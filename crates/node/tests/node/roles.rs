//! The roles in `docker/cni/repair`, for each action its own, and in `docker/cni/lookup` hold what the program asks for, and
//! nothing else.

use super::scene::{Scene, broken, pod};
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path, process::Command};
use testkit::cluster::{Access, Fault};
use testkit::{until, word};

pub(crate) type Rule = (String, String, String);

/// What the ClusterRoles of a manifest allow, by group, resource and verb.
pub(crate) fn allowed(file: &str) -> BTreeSet<Rule> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker/cni/repair").join(file);
    let text = fs::read_to_string(&path).expect("a manifest");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let mut rules = BTreeSet::new();
    for rule in documents.iter().filter_map(|document| document["rules"].as_array()).flatten() {
        let list = |name: &str| {
            let items = rule[name].as_array().expect("a list").iter();
            items.map(|item| item.as_str().expect("a text").to_owned()).collect::<Vec<_>>()
        };
        for group in list("apiGroups") {
            for resource in list("resources") {
                rules.extend(list("verbs").into_iter().map(|verb| (group.clone(), resource.clone(), verb)));
            }
        }
    }
    rules
}

/// What the program asks for with an action while a pod breaks twice, which makes it tell the same again.
fn granted(action: &str) -> BTreeSet<Rule> {
    let scene = Scene::new();
    // No namespace is this pod's: repair fails, and tells so each time.
    let mut broken_one = broken("web", 1);
    broken_one["status"]["podIPs"] = serde_json::json!([{ "ip": "10.213.9.9" }]);
    scene.cluster.put(&pod("fresh"));
    scene.cluster.put(&broken_one.clone());
    if action != "repair" {
        // So that it has to be told twice.
        let verb = if action == "label" { "patch" } else { "delete" };
        scene.cluster.faults(2, verb, "pods", Fault::Refuse(500));
    }
    let program = scene.start(&["--watch", "--action", action]);
    until("something is told twice", || {
        let state = scene.cluster.state();
        state.requests.iter().any(|(access, _)| (&*access.resource, access.verb) == ("events", "patch"))
    });
    if action != "repair" {
        until("it is done", || program.log().contains("\"message\":\"it is "));
    }
    assert_eq!(program.stop(), Some(0));
    requested(&scene)
}

/// What the server was asked for.
pub(crate) fn requested(scene: &Scene) -> BTreeSet<Rule> {
    let state = scene.cluster.state();
    let rule =
        |Access { group, resource, verb, .. }: &Access| (group.clone(), resource.clone(), (*verb).to_owned());
    state.requests.iter().map(|(access, _)| rule(access)).collect()
}

#[test]
fn the_role_of_the_plugins_user_allows_to_get_a_pod_and_no_more() {
    let scene = Scene::new();
    scene.cluster.put(&pod("web"));
    let kubeconfig = scene.cluster.kubeconfig();
    let shown = Command::new(env!("CARGO_BIN_EXE_sidecar-node"))
        .args(["pod", "--kubeconfig", word(&kubeconfig), "--namespace", "shop", "--name", "web"])
        .args(["--timeout", "20000"])
        .output();
    assert!(shown.expect("the program starts").status.success());
    assert_eq!(allowed("../lookup/rbac.yaml"), requested(&scene));
}

#[test]
fn roles_allow_what_is_asked_for_and_no_more() {
    let repair = allowed("rbac.yaml");
    assert_eq!(granted("repair"), repair);
    for action in ["label", "delete"] {
        let more = allowed(&format!("{action}/rbac.yaml"));
        assert_eq!(granted(action), repair.union(&more).cloned().collect(), "{action}");
    }
}
