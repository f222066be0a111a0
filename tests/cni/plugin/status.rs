//! STATUS: whether ADD could serve here.

use crate::cni::plugin::runtime::{Answer, Node, run, says};
use crate::support::program::{BINARY, Outcome, fed};
use serde_json::json;
use std::{fs, process::Command};

#[test]
fn a_node_that_can_serve_says_so_and_nothing_is_left_of_the_trial() {
    let node = Node::new();
    for more in [json!({}), json!({"capture": {"istio-inbound-interception-mode": "TPROXY"}})] {
        assert_eq!(run("STATUS", &[], &node.configuration(&more).to_string()).well(), "");
    }
    assert!(node.attachments().is_empty());
    assert_eq!(node.lines()[0]["outcome"], "ready");
}

#[test]
fn settings_that_add_would_refuse_are_told() {
    let node = Node::new();
    let configuration = node.configuration(&json!({"capture": {"istio-inbound-ports": "x"}}));
    says(
        &run("STATUS", &[], &configuration.to_string()).refused(50),
        &["capture.istio-inbound-ports: \"x\""],
    );
    let configuration = node.configuration(&json!({"defaults": {"proxy-uid": "x"}}));
    says(&run("STATUS", &[], &configuration.to_string()).refused(50), &["defaults.proxy-uid: \"x\""]);
}

#[test]
fn a_state_directory_that_can_not_be_written_is_told() {
    let node = Node::new();
    fs::write(node.state(), "a file").expect("a file");
    let error = run("STATUS", &[], &node.capturing().to_string()).refused(50);
    says(&error, &["state directory", "state_dir"]);
}

fn without(capability: &str, node: &Node) -> Outcome {
    let set = format!("--bounding-set=-{capability}");
    let mut command = Command::new("setpriv");
    command.args([&set, "--inh-caps=-all", BINARY]).env("CNI_COMMAND", "STATUS");
    fed(&mut command, node.capturing().to_string())
}

#[test]
fn rights_that_are_missing_are_named() {
    let node = Node::new();
    says(&without("sys_admin", &node).refused(50), &["CAP_SYS_ADMIN"]);
    says(&without("net_admin", &node).refused(50), &["CAP_NET_ADMIN"]);
}
