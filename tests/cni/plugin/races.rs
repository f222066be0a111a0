//! ADD and DEL of the same container at once, as when an ADD has timed out, and a DEL whose record is lost: in any order, the
//! last DEL leaves neither rules nor record.

use crate::cni::plugin::runtime::{Answer, Node, container, rules, run, variables};
use crate::support::namespace::Namespace;
use crate::support::program::BINARY;
use crate::support::rows::rows;
use crate::support::scope;
use serde_json::{Value, json};
use std::{fs, thread};

fn rounds(count: usize, more: &Value, programs: Option<&str>) {
    let (node, pod) = (Node::new(), container());
    let mut configuration = node.capturing();
    configuration.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let (input, path) = (configuration.to_string(), pod.path());
    let call = |verb: &str| {
        let mut variables = variables("c1", &path);
        variables.extend(programs.map(|path| ("PATH", path)));
        run(verb, &variables, &input).well();
    };
    for round in 0..count {
        thread::scope(|scope| {
            for verb in ["ADD", "DEL", "DEL"] {
                scope.spawn(move || call(verb));
            }
        });
        let (now, records) = (rules(&pod), node.attachments().len());
        assert_eq!(
            now.contains("sidecar_init") || now.contains("ISTIO_"),
            records == 1,
            "round {round}: {now}"
        );
        call("DEL");
        assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0), "round {round}");
    }
}

rows! {
    add_and_del_at_once_leave_rules_with_their_record_or_nothing: rounds(scope::runs(300, 30), &json!({}), None);
    concurrent_add_and_del_with_iptables_programs: rounds(scope::runs(25, 10), &json!({"backend": "iptables-nft"}), Some("/usr/sbin:/usr/bin:/sbin:/bin"));
}

/// Each DEL may see the other attachment's record.
#[test]
fn concurrent_dels_leave_neither_rules_nor_records() {
    let (node, pod) = (Node::new(), container());
    let path = pod.path();
    let networks = [node.capturing(), node.second()];
    for round in 0..scope::runs(100, 15) {
        networks.iter().for_each(|network| drop(node.does("ADD", network, &path)));
        thread::scope(|scope| {
            for network in &networks {
                let (node, path) = (&node, &path);
                scope.spawn(move || node.does("DEL", network, path));
            }
        });
        assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0), "round {round}");
    }
}

fn lost(node: &Node) -> Namespace {
    let pod = container();
    node.does("ADD", &node.capturing(), &pod.path());
    node.attachments().iter().for_each(|path| fs::remove_file(path).expect("a record"));
    pod
}

#[test]
fn del_removes_rules_of_an_add_without_a_record() {
    let node = Node::new();
    let pod = lost(&node);
    node.does("DEL", &node.capturing(), &pod.path());
    assert_eq!(rules(&pod), "");
    assert_eq!(node.lines().last().expect("a line")["outcome"], "cleaned");
}

#[test]
fn del_without_a_record_keeps_rules_of_init_containers_and_other_attachments() {
    let node = Node::new();
    let pod = lost(&node);
    // Rules that an init container has changed belong to it.
    pod.stdout(BINARY, &["apply", "-b", "8080", "--backend", "nftables"]);
    let made = rules(&pod);
    node.does("DEL", &node.capturing(), &pod.path());
    assert_eq!(rules(&pod), made);

    let pod = container();
    let other = node.second();
    node.does("ADD", &other, &pod.path());
    let made = rules(&pod);
    node.does("DEL", &node.capturing(), &pod.path());
    assert_eq!(rules(&pod), made);
    node.does("DEL", &other, &pod.path());
    assert_eq!(rules(&pod), "");
}
