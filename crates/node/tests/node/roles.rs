//! The chart's roles, one for each action, and `docker/cni/lookup`'s role grant exactly the program's requests.

use super::scene::{Scene, broken, pod};
use crate::PROGRAM;
use injection::chart::ChartTemplate;
use std::collections::BTreeSet;
use testkit::cluster::{self, Fault, Rule};
use testkit::{until, word};

pub(crate) fn allowed(action: &str) -> BTreeSet<Rule> {
    let values = serde_json::json!({ "repair": { "enabled": true, "action": action } });
    let granted = cluster::granted_by(&ChartTemplate::REPAIR.objects("kube-system", &values));
    granted.into_iter().map(|(_, rule)| rule).collect()
}

/// The rules that an action needs while a pod breaks twice, so that its event is repeated.
fn granted(action: &str) -> BTreeSet<Rule> {
    let scene = Scene::new();
    // No namespace belongs to this pod: each repair fails and is reported.
    let mut broken_one = broken("web", 1);
    broken_one["status"]["podIPs"] = serde_json::json!([{ "ip": "10.213.9.9" }]);
    scene.cluster.put(&pod("fresh"));
    scene.cluster.put(&broken_one.clone());
    if action != "repair" {
        // Two failures, so the event is repeated.
        let verb = if action == "label" { "patch" } else { "delete" };
        scene.cluster.faults(2, verb, "pods", Fault::Refuse(500));
    }
    let program = scene.start(&["--watch", "--action", action]);
    until("a line is logged twice", || {
        let state = scene.cluster.state();
        state.requests.iter().any(|(access, _)| (&*access.resource, access.verb) == ("events", "patch"))
    });
    if action != "repair" {
        until("it is done", || program.log().contains("\"message\":\"it is "));
    }
    assert_eq!(program.stop(), Some(0));
    scene.cluster.requested()
}

#[test]
fn the_role_of_the_plugins_user_allows_to_get_a_pod_and_no_more() {
    let scene = Scene::new();
    scene.cluster.put(&pod("web"));
    let kubeconfig = scene.cluster.kubeconfig();
    let words = ["pod", "--kubeconfig", word(&kubeconfig), "--namespace", "shop", "--name", "web"];
    PROGRAM.printed(&[&words[..], &["--timeout", "20000"]].concat());
    let allowed = cluster::granted("cni/lookup/rbac.yaml").into_iter().map(|(_, rule)| rule);
    assert_eq!(allowed.collect::<BTreeSet<_>>(), scene.cluster.requested());
}

#[test]
fn roles_allow_exactly_the_requests() {
    for action in ["repair", "label", "delete"] {
        assert_eq!(granted(action), allowed(action), "{action}");
    }
}
