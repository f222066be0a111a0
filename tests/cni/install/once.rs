//! A single install: files that it writes, files that it excludes, and an uninstall that restores every byte.

use crate::cni::install::node::{Node, identity, shapes, types};
use serde_json::Value;
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    thread,
    time::Duration,
};

const ENTRY: &str = r#"{"type":"sidecar-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true}}"#;

#[test]
fn eight_real_network_configurations_get_the_entry_and_are_restored() {
    for (name, text) in shapes() {
        let node = Node::new();
        node.put(&name, &text);
        let path = node.configurations().join(&name);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("rights");
        chown(&path, Some(7), Some(8)).expect("an owner");
        node.succeed("install", &[]);
        let list = name.replace(".conf", ".conflist").replace(".conflistlist", ".conflist");
        let all = node.all();
        assert_eq!(all.keys().collect::<Vec<_>>(), [&list], "one file, and no temporary file");
        check(&text, &all[&list]);
        let path = node.configurations().join(&list);
        let metadata = fs::metadata(&path).expect("the list");
        assert_eq!((metadata.mode() & 0o7777, metadata.uid(), metadata.gid()), (0o640, 7, 8), "{name}");

        let before = (identity(&path), identity(&node.plugin()));
        node.succeed("install", &[]);
        assert_eq!((identity(&path), identity(&node.plugin())), before, "{name} is written once");

        node.succeed("uninstall", &[]);
        assert_eq!(node.all(), [(name.clone(), text)].into());
        let metadata = fs::metadata(node.configurations().join(&name)).expect("the file");
        assert_eq!((metadata.mode() & 0o7777, metadata.uid(), metadata.gid()), (0o640, 7, 8), "{name}");
        assert_eq!(fs::read_dir(node.programs()).expect("the folder").count(), 0);
        node.succeed("uninstall", &[]);
    }
}

/// Checks that every byte of the file is kept, in one piece or around the entry, and that only the entry is new.
#[track_caller]
fn check(before: &str, after: &str) {
    let plugins = types(after);
    assert_eq!(plugins.last().map(String::as_str), Some("sidecar-cni"), "{after}");
    let (first, rest) = after.split_once(ENTRY).expect("the entry");
    match types(before) {
        single if single.is_empty() => {
            assert!(first.contains(before), "{after}");
            let list: Value = serde_json::from_str(after).expect("JSON");
            let one: Value = serde_json::from_str(before).expect("JSON");
            assert_eq!((&list["name"], &list["cniVersion"]), (&one["name"], &one["cniVersion"]));
        }
        others => {
            assert_eq!(others, plugins[..plugins.len() - 1]);
            let first = first.trim_end().strip_suffix(',').expect("a comma");
            assert_eq!(format!("{first}{rest}"), before);
        }
    }
}

#[test]
fn entry_has_the_requested_keys_and_is_replaced_on_change() {
    let node = Node::new();
    let text = r#"{"name":"n","cniVersion":"1.0.0","plugins":[ {"type":"a"} ]}"#;
    node.put("10-a.conflist", text);
    node.succeed("install", &["--plugin-log", "none", "--exclude-namespaces", "kube-system, mesh"]);
    let object = node.path("entry.json");
    fs::write(&object, "{\n  \"capture\": {\"istio-inbound-ports\": \"*\"}\n}\n").expect("written");
    let entry = |node: &Node| {
        let list: Value = serde_json::from_str(&node.read("10-a.conflist")).expect("JSON");
        list["plugins"][1].clone()
    };
    assert_eq!(entry(&node)["exclude_namespaces"], serde_json::json!(["kube-system", "mesh"]));
    assert_eq!(entry(&node)["log"], "none");
    node.succeed("install", &["--state-dir", "/run/a", "--entry", object.to_str().expect("UTF-8")]);
    assert_eq!(entry(&node)["capture"]["istio-inbound-ports"], "*");
    assert_eq!((&entry(&node)["log"], &entry(&node)["state_dir"]), (&Value::Null, &"/run/a".into()));
    assert_eq!(types(&node.read("10-a.conflist")), ["a", "sidecar-cni"]);
    node.succeed("uninstall", &[]);
    assert_eq!(node.read("10-a.conflist"), text);
}

#[test]
fn first_file_of_the_runtime_is_chosen() {
    let list = r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"a"}]}"#;
    let single = r#"{"name":"n","cniVersion":"0.3.1","type":"a"}"#;
    let nameless = r#"{"cniVersion":"0.3.1","type":"a"}"#;
    for (files, chosen) in [
        (vec![("20-b.conflist", list), ("10-a.conflist", list)], "10-a.conflist"),
        (vec![("10-a.conf", single), ("10-b.conflist", list)], "10-a.conflist"),
        (vec![("10-a.json", single), ("10-b.conf", single)], "10-a.conflist"),
        // CRI-O names its network after the file.
        (vec![("10-a.conf", nameless), ("10-b.conflist", list)], "10-a.conflist"),
        (vec![("00-a.txt", list), ("00-a.conflist.bak", list), ("10-a.conflist", list)], "10-a.conflist"),
        // A runtime skips an invalid file and uses the next one.
        (vec![("00-a.conflist", "{"), ("05-a.conf", list), ("10-a.conflist", list)], "10-a.conflist"),
    ] {
        let node = Node::new();
        files.iter().for_each(|(name, text)| node.put(name, text));
        node.succeed("install", &[]);
        let with: Vec<String> = node
            .all()
            .into_iter()
            .filter(|(_, text)| text.contains("sidecar-cni"))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(with, [chosen], "{files:?}");
        node.succeed("uninstall", &[]);
        assert_eq!(node.all(), files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect());
    }
}

/// A file unusable for longer does not shorten the wait.
#[test]
fn each_half_written_file_is_waited_for() {
    let node = Node::new();
    let half = |name: &str| fs::write(node.configurations().join(name), "{ half").expect("written");
    half("00-x.conflist");
    let mut running = node.start(&[]);
    running.until("the skipped file", || running.log().contains("ignored"));
    half("10-a.conflist");
    thread::sleep(Duration::from_millis(300));
    let text = r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"a"}]}"#;
    node.put("20-b.conflist", text);
    thread::sleep(Duration::from_millis(300));
    node.put("10-a.conflist", text);
    assert_eq!(running.ended(), Some(0), "{}", running.log());
    assert_eq!(types(&node.read("10-a.conflist")), ["a", "sidecar-cni"]);
    assert_eq!(node.read("20-b.conflist"), text);
}
