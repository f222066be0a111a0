//! A state file cut at any byte, or with foreign content: CHECK, ADD and DEL of the attachment still work.

use crate::cni::plugin::runtime::{Answer, Node, container, rules};
use crate::support::scope;
use std::fs;

#[test]
fn truncated_state_file_is_tolerated() {
    let (node, pod) = (Node::new(), container());
    let (configuration, path) = (node.capturing(), pod.path());
    node.does("ADD", &configuration, &path);
    let made = rules(&pod);
    let file = node.attachments().remove(0);
    let whole = fs::read(&file).expect("a state file");
    let ends = scope::of((0..whole.len()).collect(), 25);
    for &end in &ends {
        fs::write(&file, &whole[..end]).expect("a torn file");
        node.does("CHECK", &configuration, &path);
    }
    assert_eq!(rules(&pod), made);
    let torn =
        node.lines().iter().filter(|line| line["warnings"].to_string().contains("can't be read")).count();
    assert_eq!(torn, ends.len());
}

#[test]
fn differences_are_found_and_repaired_without_a_state_file() {
    for content in [&b""[..], b"\0\0\0\0", b"{}", br#"{"form":99}"#, br#"[1,2]"#] {
        let (node, pod) = (Node::new(), container());
        let (configuration, path) = (node.capturing(), pod.path());
        node.does("ADD", &configuration, &path);
        let (made, file) = (rules(&pod), node.attachments().remove(0));
        let whole = fs::read(&file).expect("a state file");
        pod.stdout("nft", &["flush", "chain", "inet", "sidecar_init", "nat_OUTPUT"]);
        fs::write(&file, content).expect("a torn file");
        node.call("CHECK", &configuration, &path).refused(101);
        node.does("ADD", &configuration, &path);
        assert_eq!((rules(&pod), fs::read(&file).expect("a state file")), (made, whole));
        fs::write(&file, content).expect("a torn file");
        node.does("DEL", &configuration, &path);
        assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0));
    }
}

#[test]
fn torn_counters_start_again() {
    let node = Node::new();
    let pod = container();
    for content in ["", "{", "[]", "\0\0"] {
        fs::create_dir_all(node.state()).expect("a folder");
        let file = node.state().join("counters.json");
        fs::write(&file, content).expect("a torn file");
        node.does("ADD", &node.capturing(), &pod.path());
        let counters: serde_json::Value =
            serde_json::from_slice(&fs::read(&file).expect("counters")).expect("JSON");
        assert_eq!(counters["verbs"]["ADD"]["outcomes"]["captured"], 1);
    }
}
