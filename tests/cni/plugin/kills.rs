//! `kill -9` at each system call of an ADD: DEL removes all leftovers, and no file is half-written.

use crate::cni::plugin::runtime::{Node, container, rules, text, variables};
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome, fed};
use crate::support::scope;
use serde_json::Value;
use std::{collections::HashMap, fs, path::Path, process::Command};

fn add_under_strace(node: &Node, pod: &Namespace, options: &[&str]) -> Outcome {
    let path = pod.path();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]).args(options).arg(BINARY);
    command.envs(variables("c1", &path)).env("CNI_COMMAND", "ADD");
    fed(command, node.capturing().to_string())
}

/// Calls in an strace log, from the first one that matches `begins`: the name, and its count within the thread.
pub(crate) fn calls(log: &Path, begins: impl Fn(&str, &str) -> bool) -> Vec<(String, usize)> {
    let text = fs::read_to_string(log).expect("a log");
    let mut counts: HashMap<(String, String), usize> = HashMap::new();
    let mut has_begun = false;
    let call = |line: &str| {
        let mut words = line.split_whitespace();
        let (thread, name) = (words.next()?, words.next()?.split_once('(')?.0);
        let count = counts.entry((thread.to_owned(), name.to_owned())).or_default();
        *count += 1;
        has_begun |= begins(name, line);
        has_begun.then(|| (name.to_owned(), *count))
    };
    text.lines().filter_map(call).collect()
}

#[test]
fn del_removes_leftovers_of_a_killed_add() {
    let (node, pod) = (Node::new(), container());
    let (configuration, path) = (node.capturing(), pod.path());
    let log = node.folder.join("calls");
    assert!(add_under_strace(&node, &pod, &["-o", text(&log)]).succeeded());
    let calls = calls(&log, |name, _| name == "setns");
    let made = rules(&pod);
    assert!(made.contains("sidecar_init") && calls.len() > 50, "{calls:?}");
    let mut found = [0, 0];
    let all = calls.len();
    for (name, count) in &scope::of(calls, 25) {
        node.does("DEL", &configuration, &path);
        assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0), "before {name} {count}");
        let kill = format!("inject={name}:signal=KILL:when={count}");
        if add_under_strace(&node, &pod, &["-o", "/dev/null", "-e", &kill]).succeeded() {
            continue;
        }
        let now = rules(&pod);
        assert!(now.is_empty() || now == made, "killed at {name} {count}: {now}");
        let named = node.attachments().into_iter().filter(|path| path.extension().is_some());
        for file in named {
            let text = fs::read_to_string(&file).expect("a state file");
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "killed at {name} {count}: {text}");
        }
        found[usize::from(!now.is_empty())] += 1;
        // Rules never exist without their record; temporary files are removed in time.
        node.does("DEL", &configuration, &path);
        assert_eq!(rules(&pod), "", "killed at {name} {count}");
        for path in node.attachments() {
            fs::remove_file(path).expect("a temporary file");
        }
    }
    let [none, whole] = found;
    let enough = if scope::all() { none > 20 && whole > 5 } else { none > 2 && whole > 0 };
    assert!(enough, "none {none}, whole {whole} of {all}");
}
