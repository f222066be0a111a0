//! Traces of calls on the node: log lines and counters.

use crate::cni::plugin::runtime::{Answer, Node, container, run, variables};
use serde_json::{Value, json};
use std::{fs, os::unix::net::UnixDatagram, thread};

#[test]
fn log_line_has_call_pod_outcome_and_duration() {
    let (node, pod) = (Node::new(), container());
    node.does("ADD", &node.capturing(), &pod.path());
    let mut wrong = node.capturing();
    wrong["timeout"] = json!("x");
    node.call("CHECK", &wrong, &pod.path()).refused(7);
    let lines = node.lines();
    let [add, check] = &lines[..] else { panic!("{lines:#?}") };
    let expected = json!({
        "verb": "ADD", "network": "mesh", "pod": "shop/web", "container": "c1", "interface": "eth0",
        "outcome": "captured", "time": add["time"], "milliseconds": add["milliseconds"], "reason": add["reason"],
    });
    assert_eq!(*add, expected);
    assert!(add["milliseconds"].as_f64().is_some_and(|time| time > 0.0 && time < 10_000.0), "{add:#}");
    assert!(
        add["time"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')),
        "{add:#}"
    );
    assert_eq!((&check["verb"], &check["outcome"]), (&json!("CHECK"), &json!("failed")));
    assert!(check["reason"].as_str().is_some_and(|reason| reason.contains("timeout: \"x\"")), "{check:#}");
}

#[test]
fn concurrent_calls_lose_no_line_or_count_during_log_rotation() {
    let (node, pod) = (Node::new(), container());
    let mut configuration = node.configuration(&json!({"log_max_bytes": 2_000}));
    configuration["cniVersion"] = json!("1.0.0");
    let (input, path) = (configuration.to_string(), pod.path());
    let calls = |group: usize| {
        for n in 0..10 {
            run("ADD", &variables(&format!("c{group}-{n}"), &path), &input).well();
        }
    };
    let mut seen = 0;
    for round in 0..4 {
        thread::scope(|scope| (0..4).for_each(|group| drop(scope.spawn(move || calls(round * 4 + group)))));
        seen += 40;
        let counters: Value =
            serde_json::from_slice(&fs::read(node.state().join("counters.json")).expect("counters"))
                .expect("JSON");
        assert_eq!(counters["verbs"]["ADD"]["outcomes"]["skipped"], seen);
    }
    // Each line is complete, and there is one rotated file.
    let aside = fs::read_to_string(node.log().with_extension("1")).expect("a file aside");
    assert!(aside.len() >= 2_000 && aside.len() < 6_000, "{}", aside.len());
    assert!(aside.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{aside}");
    assert!(fs::metadata(node.log()).map_or(0, |metadata| metadata.len()) < 4_000);
    drop(node.lines());
    let logs = fs::read_dir(&*node.folder).expect("a folder");
    assert_eq!(
        logs.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path() != node.state())).count(),
        2
    );
}

#[test]
fn invalid_paths_leave_no_files() {
    let (node, pod) = (Node::new(), container());
    for (key, value) in
        [("state_dir", json!("relative")), ("log", json!("")), ("log_max_bytes", json!("many"))]
    {
        let path = pod.path();
        crate::support::mounts::in_mount_namespace(|| {
            node.call("ADD", &node.configuration(&json!({key: value})), &path).refused(7);
            assert!(!std::path::Path::new("/run/sidecar-init").exists(), "{key}");
        });
    }
    assert!(!node.log().exists() && !node.state().exists());
}

#[test]
fn unwritable_log_does_not_refuse_a_pod() {
    let (node, pod) = (Node::new(), container());
    let file = node.folder.join("file");
    fs::write(&file, "").expect("a file");
    let fifo = node.folder.join("fifo");
    crate::cni::plugin::hostile::fifo(&fifo);
    for log in [file.join("log"), fifo, node.folder.to_path_buf()] {
        let ended = node.call("ADD", &node.configuration(&json!({"log": log})), &pod.path());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stderr.contains("cannot write the log"), "{ended:?}");
    }
}

/// In a separate mount namespace, with a test socket in place of the journal's.
#[test]
fn the_journal_gets_a_line_with_its_priority() {
    let (node, pod) = (Node::new(), container());
    let path = pod.path();
    let received = crate::support::mounts::in_mount_namespace(|| {
        fs::create_dir_all("/run/systemd/journal").expect("a folder");
        let journal = UnixDatagram::bind("/run/systemd/journal/socket").expect("a socket");
        let mut configuration = node.configuration(&json!({"log": "journal"}));
        node.does("ADD", &configuration, &path);
        configuration["timeout"] = json!("x");
        node.call("ADD", &configuration, &path).refused(7);
        [(); 2].map(|()| {
            let mut buffer = [0; 65_536];
            let length = journal.recv(&mut buffer).expect("a message");
            String::from_utf8(buffer[..length].to_vec()).expect("UTF-8")
        })
    });
    for (message, (priority, outcome)) in received.iter().zip([("6", "skipped"), ("3", "failed")]) {
        let rest =
            message.strip_prefix(&format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=sidecar-cni\nMESSAGE="));
        let line: Value = serde_json::from_str(rest.expect("the fields").trim_end()).expect("JSON");
        assert_eq!((&line["outcome"], &line["pod"]), (&json!(outcome), &json!("shop/web")));
    }
}
