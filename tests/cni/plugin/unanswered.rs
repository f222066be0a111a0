//! An ADD whose result does not reach the runtime fails and is reverted.

use crate::cni::plugin::runtime::{Node, container, rules, variables};
use crate::support::program::{BINARY, Outcome, finish};
use serde_json::json;
use std::{
    fs::File,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

fn add(redirection: &str, stdout: Stdio, input: &str, path: &str) -> Outcome {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("exec \"$0\" {redirection}"), BINARY]).env_clear();
    command.envs(variables("c1", path)).env("CNI_COMMAND", "ADD");
    let child = command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped()).spawn();
    finish(child.expect("sh"), input)
}

fn broken_pipe() -> Stdio {
    let (_, writer) = std::io::pipe().expect("a pipe");
    writer.into()
}

type Opened = fn() -> Stdio;

const UNWRITABLE: [(&str, Opened); 4] =
    [(">&-", Stdio::null), (">/dev/full", Stdio::null), ("", broken_pipe), ("1</dev/null", Stdio::null)];

#[track_caller]
fn fails(node: &Node, redirection: &str, ended: &Outcome, what: &str) {
    assert_eq!(ended.code, Some(1), "{redirection}: {ended:?}");
    let line = node.lines().pop().expect("a line");
    assert_eq!((line["verb"].as_str(), line["outcome"].as_str()), (Some("ADD"), Some("failed")), "{line:#}");
    for text in [line["reason"].to_string(), ended.stderr.clone()] {
        assert!(
            text.contains("can't be written to standard output") && text.contains(what),
            "{redirection}: {text}"
        );
    }
}

#[test]
fn unwritable_result_reverts_the_add() {
    let (node, pod) = (Node::new(), container());
    let (configuration, path) = (node.capturing(), pod.path());
    for (redirection, stdout) in UNWRITABLE {
        let ended = add(redirection, stdout(), &configuration.to_string(), &path);
        fails(&node, redirection, &ended, "the change is undone");
        assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0), "{redirection}");
    }
    // An excluded pod's ADD fails too, with nothing to revert.
    let ended = add(">&-", Stdio::null(), &node.configuration(&json!({})).to_string(), &path);
    fails(&node, ">&-", &ended, "nothing was changed");
}

#[test]
fn failed_add_restores_earlier_attachments() {
    for network in ["mesh", "second"] {
        let (node, pod) = (Node::new(), container());
        let path = pod.path();
        node.does("ADD", &node.capturing(), &path);
        let kept = || {
            let records: Vec<_> = node.attachments().iter().map(|path| std::fs::read(path).ok()).collect();
            (rules(&pod), records)
        };
        let made = kept();
        for capture in [json!({"istio-inbound-ports": "80"}), node.capturing()["capture"].clone()] {
            let input = node.configuration(&json!({"name": network, "capture": capture})).to_string();
            for (redirection, stdout) in UNWRITABLE {
                let ended = add(redirection, stdout(), &input, &path);
                fails(&node, redirection, &ended, "the change is undone");
                assert_eq!(kept(), made, "{network} {redirection}");
            }
        }
        node.does("CHECK", &node.capturing(), &path);
        node.does("DEL", &node.capturing(), &path);
        assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0));
    }
}

/// The result is longer than a pipe's buffer, so a runtime that does not read blocks it.
#[test]
fn unread_result_times_out() {
    let (node, pod) = (Node::new(), container());
    let mut configuration = node.capturing();
    configuration["timeout"] = json!("1s");
    configuration["prevResult"] = json!({"cniVersion": "1.1.0", "long": "x".repeat(200_000)});
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let start = Instant::now();
    let ended = add("", writer.into(), &configuration.to_string(), &pod.path());
    fails(&node, "", &ended, "the change is undone");
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
    assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0));
}

#[test]
fn a_long_result_arrives_whole() {
    let (node, pod) = (Node::new(), container());
    let mut configuration = node.capturing();
    configuration["prevResult"] = json!({"cniVersion": "1.1.0", "long": "x".repeat(1_000_000)});
    let file = node.folder.join("result");
    let stdout = File::create(&file).expect("a file");
    let ended = add("", stdout.into(), &configuration.to_string(), &pod.path());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).expect("the result")).expect("JSON");
    assert_eq!(result["long"].as_str().map(str::len), Some(1_000_000));
    assert_eq!(
        node.does("ADD", &configuration, &pod.path()).len(),
        std::fs::read(&file).expect("the result").len()
    );
}
