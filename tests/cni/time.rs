//! A call ends when its time is up, whatever it waits for.

use crate::runtime::{Node, container, rules, says, start, variables};
use serde_json::json;
use sidecar_init::sys::lock;
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

#[test]
fn a_lock_that_somebody_holds_is_not_waited_for_longer_than_allowed() {
    let (node, pod) = (Node::new(), container());
    let held = pod.run(|| lock::hold(Duration::ZERO).expect("nobody else has it"));
    for (timeout, most) in [("500ms", 5), ("2s", 8)] {
        let mut configuration = node.capturing();
        configuration["timeout"] = json!(timeout);
        let start = Instant::now();
        let error = node.call("ADD", &configuration, &pod.path()).refused(11);
        says(&error, &[&format!("process {} is changing", std::process::id())]);
        assert!(start.elapsed() < Duration::from_secs(most), "{:?}", start.elapsed());
        assert_eq!(rules(&pod), "");
    }
    drop(held);
    node.does("ADD", &node.capturing(), &pod.path());
}

#[test]
fn an_input_that_does_not_end_is_not_waited_for() {
    let pod = container();
    let path = pod.path();
    let begun = Instant::now();
    // At the same time, as each takes what is allowed when nobody says.
    let mut calls: Vec<_> = ["ADD", "CHECK", "DEL", "GC", "STATUS", "VERSION"]
        .into_iter()
        .map(|verb| {
            let mut child = start(verb, &variables("c1", &path));
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin.write_all(br#"{"cniVersion":"1.1.0","timeout":"100ms","#).expect("it reads");
            (child, stdin)
        })
        .collect();
    for (child, stdin) in &mut calls {
        let mut text = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("it ends");
        let error: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((error["code"].as_u64(), child.wait().expect("it ends").code()), (Some(11), Some(1)));
        says(&error, &["time is up", "standard input"]);
        stdin.flush().expect("it is still open");
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(30), "{took:?}");
    assert_eq!(rules(&pod), "");
}

/// A program of iptables that never ends is the kernel's or the node's fault; the pod hears of it in time.
#[test]
fn a_program_that_hangs_is_not_waited_for() {
    let (node, pod) = (Node::new(), container());
    let (programs, path) = (node.folder.join("programs"), pod.path());
    std::fs::create_dir(&programs).expect("a folder");
    for family in ["iptables", "ip6tables"] {
        for verb in ["save", "restore"] {
            let file = programs.join(format!("{family}-nft-{verb}"));
            std::fs::write(&file, "#!/bin/sh\nexec /bin/sleep 20\n").expect("a script");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&file, mode).expect("its mode");
        }
    }
    let mut configuration = node.capturing();
    (configuration["backend"], configuration["timeout"]) = (json!("iptables-nft"), json!("1s"));
    let mut variables = variables("c1", &path);
    variables.push(("PATH", crate::runtime::text(&programs)));
    let start = Instant::now();
    let error = crate::runtime::run("ADD", &variables, &configuration.to_string()).refused(11);
    says(&error, &["time is up", "1s"]);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    // The call is in the log all the same.
    assert_eq!(node.lines().last().expect("a line")["outcome"], "failed");
}
