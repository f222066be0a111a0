//! What `docker/cni` asks of a node is accepted by the program, and takes no right but to write two folders of root's.

use crate::cni::install::node::{LIST, Node, program, types};
use crate::support::namespace::Namespace;
use crate::support::program::Outcome;
use crate::support::wait;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

const FILE: &str = "10-a.conflist";

fn manifest(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker/cni").join(name);
    fs::read_to_string(path).expect("the manifest")
}

fn arguments() -> Vec<String> {
    let text = manifest("base/daemonset.yaml");
    let list = text.split("          args:\n").nth(1).expect("arguments");
    let items = list.lines().map_while(|line| line.trim().strip_prefix("- "));
    items.map(str::to_owned).collect()
}

/// Arguments that a patch adds.
fn added(overlay: &str) -> Vec<String> {
    let text = manifest(&format!("{overlay}/kustomization.yaml"));
    let values = text.lines().filter_map(|line| line.trim().strip_prefix("value: --"));
    values.map(|value| format!("--{}", value.replace("$(HOST_IP)", "127.0.0.1"))).collect()
}

/// Runs the container's program as root without any capability, on a node of the test's, until it is installed, and then
/// asks it to end.
fn check(overlays: &[&str]) -> (Node, String) {
    let (node, namespace) = (Node::new(), Namespace::new());
    node.put(FILE, LIST);
    let here = |folder: &str| node.path(folder).to_string_lossy().into_owned();
    let arguments = arguments().into_iter().chain(overlays.iter().flat_map(|overlay| added(overlay)));
    let arguments: Vec<String> = arguments
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
    Outcome::from(child.wait_with_output().expect("it ends")).with(0, &format!("{arguments:?}"));
    (node, with)
}

#[test]
fn the_base_installs_and_leaves_all_in_place() {
    let (node, with) = check(&[]);
    assert_eq!(types(&with), ["a", "sidecar-cni"]);
    assert!(node.read(FILE) == with && node.plugin().exists());
}

#[test]
fn metrics_are_an_addition() {
    assert_eq!(added("metrics").len(), 1);
    check(&["metrics"]);
}

#[test]
fn the_way_back_leaves_nothing() {
    let (node, _) = check(&["uninstall"]);
    assert_eq!(node.read(FILE), LIST);
    assert!(!node.plugin().exists());
}
