//! DEL and GC: leftovers of containers that are deleted or already gone.

use crate::cni::plugin::runtime::{Answer, Node, container, mentions, rules, run, text, variables};
use crate::support::namespace::Namespace;
use serde_json::json;
use std::{fs, process::Command};

fn added() -> (Node, Namespace) {
    let (node, pod) = (Node::new(), container());
    node.does("ADD", &node.capturing(), &pod.path());
    assert_eq!(node.attachments().len(), 1);
    (node, pod)
}

#[test]
fn del_removes_rules_and_record_once() {
    let (node, pod) = added();
    pod.stdout("nft", &["add table ip other; add chain ip other own"]);
    assert_eq!(node.does("DEL", &node.capturing(), &pod.path()), "");
    assert_eq!(rules(&pod), "table ip other {\n\tchain own {\n\t}\n}\n");
    assert!(node.attachments().is_empty());
    node.does("DEL", &node.capturing(), &pod.path());
    let outcomes: Vec<String> =
        node.lines().iter().map(|line| line["outcome"].as_str().expect("a string").to_owned()).collect();
    assert_eq!(outcomes, ["captured", "cleaned", "nothing"]);
}

#[test]
fn del_succeeds_without_a_namespace() {
    let left = Node::new();
    let file = left.folder.join("what is left of a name");
    fs::write(&file, "").expect("a file");
    for path in ["", "/run/netns/no-such-namespace", "/proc/1/no/such", text(&file)] {
        let (node, _pod) = added();
        node.does("DEL", &node.capturing(), path);
        assert!(node.attachments().is_empty(), "{path:?}");
    }
}

#[test]
fn del_ignores_changes_of_the_configuration() {
    for key in ["capture", "whatever", "timeout", "backend", "prevResult", "runtimeConfig"] {
        let (node, pod) = added();
        let mut configuration = node.capturing();
        configuration[key] = json!([17]);
        node.does("DEL", &configuration, &pod.path());
        assert_eq!(rules(&pod), "", "{key}");
        assert!(node.attachments().is_empty(), "{key}");
    }
    // The network's name must be valid.
    let (node, pod) = added();
    let mut configuration = node.capturing();
    configuration["name"] = json!(17);
    mentions(&node.call("DEL", &configuration, &pod.path()).refused(7), &["name: 17"]);
    assert_eq!(node.attachments().len(), 1);
}

#[test]
fn rules_of_other_programs_stay() {
    let (node, pod) = (Node::new(), container());
    pod.stdout(crate::support::program::BINARY, &["apply", "-b", "*"]);
    let before = rules(&pod);
    node.does("DEL", &node.capturing(), &pod.path());
    assert_eq!(rules(&pod), before);
}

#[test]
fn gc_keeps_only_valid_attachments() {
    let (node, pod) = (Node::new(), container());
    let input = node.capturing().to_string();
    for container in ["c1", "c2", "c3", "c4"] {
        run("ADD", &variables(container, &pod.path()), &input).well();
    }
    node.does("ADD", &node.second(), &pod.path());
    let attachment =
        |container: &str, interface: &str| json!({"containerID": container, "ifname": interface});
    for (key, valid, left) in [
        // Attachments of the other network are unknown in this call.
        ("cni.dev/valid-attachments", json!(["c1", "c3", "c4", "c9"].map(|c| attachment(c, "eth0"))), 4),
        ("cni.dev/attachments", json!([attachment("c1", "eth0"), attachment("c3", "eth1")]), 2),
        // Go writes an empty list as null.
        ("cni.dev/valid-attachments", json!(null), 1),
    ] {
        let mut configuration = node.capturing();
        configuration[key] = valid.clone();
        assert_eq!(run("GC", &[], &configuration.to_string()).well(), "");
        assert_eq!(node.attachments().len(), left, "{valid}");
    }
    assert!(rules(&pod).contains("sidecar_init"), "GC removes records, not rules");
}

#[test]
fn gc_without_a_list_keeps_all_attachments() {
    let (node, _pod) = added();
    mentions(&run("GC", &[], &node.capturing().to_string()).refused(7), &["cni.dev/valid-attachments"]);
    for valid in [json!({}), json!("c1"), json!([{"containerID": "c1"}]), json!([17])] {
        let mut configuration = node.capturing();
        configuration["cni.dev/valid-attachments"] = valid;
        mentions(&run("GC", &[], &configuration.to_string()).refused(7), &["cni.dev/valid-attachments"]);
    }
    assert_eq!(node.attachments().len(), 1);
}

/// A killed write leaves a temporary file, which is removed once its writer has certainly ended.
#[test]
fn leftovers_of_killed_calls_are_removed() {
    let (node, _pod) = added();
    let folder = node.state().join("attachments");
    let files =
        [(".sidecar-cni-1-1", "now"), (".sidecar-cni-1-2", "3 hours ago"), ("foreign", "3 hours ago")];
    for (name, age) in files {
        fs::write(folder.join(name), "{").expect("a file");
        let touched = Command::new("touch").args(["-d", age]).arg(folder.join(name)).status();
        assert!(touched.is_ok_and(|status| status.success()), "touch");
    }
    let mut configuration = node.capturing();
    configuration["cni.dev/valid-attachments"] = json!([{"containerID": "c1", "ifname": "eth0"}]);
    run("GC", &[], &configuration.to_string()).well();
    assert_eq!(files.map(|(name, _)| folder.join(name).exists()), [true, false, true]);
    assert_eq!(node.attachments().len(), 3);
}
