//! Commands and their output, with a kubectl that reads files.

use crate::object::object;
use testkit::command_line::Program;

pub(crate) const PROGRAM: Program =
    Program { path: env!("CARGO_BIN_EXE_kubectl-capture"), name: "kubectl-capture" };

fn check(name: &str) {
    let pod = object("pod.json");
    let container = pod["status"]["containerStatuses"][0]["containerID"].as_str().expect("a container");
    let file = format!("{}/tests/kubectl/sessions/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    PROGRAM.sessions(file, &[("CONTAINER", container)]);
}

#[test]
fn pods() {
    check("pods");
}

#[test]
fn lint() {
    check("lint");
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let pages = PROGRAM.manual();
    assert_eq!((pages.len(), &*pages[2].0), (8, "kubectl-capture-explain.1"));
    assert!(pages[2].1.contains("[env: KUBECTL"), "{}", pages[2].1);
}
