//! The chart's DaemonSet uses only settings that the program accepts, and needs write access only to two root-owned folders.

use crate::cni::install::node::{LIST, Node, program, types};
use crate::support::namespace::Namespace;
use crate::support::program::Outcome;
use crate::support::wait;
use injection::chart::ChartTemplate;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

const FILE: &str = "10-a.conflist";

fn arguments(mut values: Value) -> Vec<String> {
    values["enabled"] = true.into();
    let objects = ChartTemplate::CNI.objects("kube-system", &json!({ "cni": values }));
    let set = objects.iter().find(|object| object["kind"] == "DaemonSet").expect("a DaemonSet");
    let words = &set["spec"]["template"]["spec"]["containers"][0]["args"];
    let words: Vec<String> = serde_json::from_value(words.clone()).expect("strings");
    words.into_iter().map(|word| word.replace("$(HOST_IP)", "127.0.0.1")).collect()
}

/// Runs the container's program as root without capabilities on a test node until it is installed, then ends it.
fn check(values: Value) -> (Node, String) {
    let (node, namespace) = (Node::new(), Namespace::new());
    node.put(FILE, LIST);
    let here = |folder: &str| node.path(folder).to_string_lossy().into_owned();
    let arguments: Vec<String> = arguments(values)
        .into_iter()
        .map(|word| {
            word.replace("/host/etc/cni/net.d", &here("net.d"))
                .replace("/host/opt/cni/bin", &here("bin"))
                .replace("/run/sidecar-init/cni", &here("state"))
        })
        .collect();
    let rights = ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"];
    let mut command = Command::new("setpriv");
    command.args(rights).arg(program()).args(&arguments).stderr(Stdio::piped());
    let child = namespace.run(|| command.spawn()).expect("setpriv starts");
    wait::until("the entry", || types(&node.read(FILE)) == ["a", "sidecar-cni"]);
    let with = node.read(FILE);
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    Outcome::from(child.wait_with_output().expect("the program ends")).with(0, &format!("{arguments:?}"));
    (node, with)
}

#[test]
fn entry_and_program_stay_after_exit() {
    let (node, with) = check(json!({}));
    assert_eq!(types(&with), ["a", "sidecar-cni"]);
    assert!(node.read(FILE) == with && node.plugin().exists());
}

#[test]
fn metrics_need_no_capability() {
    check(json!({ "metrics": true }));
}

#[test]
fn uninstall_on_exit_leaves_nothing() {
    let (node, _) = check(json!({ "uninstallOnExit": true }));
    assert_eq!(node.read(FILE), LIST);
    assert!(!node.plugin().exists());
}
