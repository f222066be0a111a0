//! `kill -9` at each system call of an install and of an uninstall: each network configuration is the old or the new one, and so
//! is the program; the next run finishes.

use crate::cni::install::node::{Node, program, shapes};
use crate::cni::plugin::kills::calls;
use crate::support::program::{Outcome, Run};
use crate::support::rows::rows;
use crate::support::scope;
use std::{collections::BTreeMap, fs, process::Command};

type Files = BTreeMap<String, String>;

fn strace(options: &[&str], node: &Node, verb: &str) -> Outcome {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]).args(options).arg(program()).args(node.arguments(verb, &[]));
    command.outcome()
}

fn check(name: &str, text: &str, verb: &str) {
    let prepare = |node: &Node| {
        for file in fs::read_dir(node.configurations()).expect("the folder") {
            fs::remove_file(file.expect("an entry").path()).expect("removed");
        }
        node.put(name, text);
        // One of the four cases copies the program; the others find it in place.
        if verb == "install" && name.ends_with("list") {
            let _ = fs::remove_file(node.plugin());
            return;
        }
        crate::support::program::copy(program(), node.plugin());
        if verb == "uninstall" {
            node.succeed("install", &[]);
        }
    };
    let node = Node::new();
    prepare(&node);
    let old = node.configurations_by_name();
    let log = node.path("calls");
    strace(&["-o", log.to_str().expect("UTF-8")], &node, verb).success();
    let calls = calls(&log, |name, line| line.contains("net.d") && name != "execve");
    let new = node.configurations_by_name();
    assert!(old != new && calls.len() > 20, "{calls:?}");
    let both: Files = old.clone().into_iter().chain(new.clone()).collect();
    let whole = fs::read(program()).expect("the program");
    let (mut killed, mut olds, mut news) = (0, 0, 0);
    for (call, count) in scope::of(calls, 16) {
        prepare(&node);
        let run = strace(
            &["-o", "/dev/null", "-e", &format!("inject={call}:signal=KILL:when={count}")],
            &node,
            verb,
        );
        let at = format!("{name} {verb}, killed at {call} {count}");
        killed += usize::from(run.code.is_none());
        let found = node.configurations_by_name();
        // When a single plugin becomes a list or the reverse, both exist for a while, and the runtime's first choice is complete.
        assert!([&old, &new, &both].contains(&&found), "{at}: {found:#?}");
        olds += usize::from(found == old);
        news += usize::from(found == new);
        let plugin = fs::read(node.plugin());
        assert!(plugin.as_ref().map_or(true, |plugin| *plugin == whole), "{at}: the program is torn");
        assert!(
            plugin.is_ok() || !found.values().next().is_some_and(|first| first.contains("sidecar-cni")),
            "{at}: the runtime would look for a missing plugin"
        );
        node.succeed(verb, &[]);
        assert_eq!(node.all(), new, "{at}: the next run arrives and leaves nothing unfinished");
        assert!(fs::read_dir(node.programs()).expect("the folder").count() <= 1, "{at}");
    }
    let least = if scope::all() { [20, 5, 0] } else { [6, 0, 0] };
    let enough = killed > least[0] && olds > least[1] && news > least[2];
    assert!(enough, "{killed} killed, {olds} old, {news} new");
}

fn shape(name: &str) -> String {
    shapes().into_iter().find(|(shape, _)| shape == name).expect("the shape").1
}

rows! {
    an_install_into_a_list: check("10-calico.conflist", &shape("10-calico.conflist"), "install");
    an_install_that_makes_a_list: check("10-bridge.conf", &shape("10-bridge.conf"), "install");
    an_uninstall_from_a_list: check("10-kindnet.conflist", &shape("10-kindnet.conflist"), "uninstall");
    an_uninstall_that_gives_a_single_plugin_back: check("00-multus.conf", &shape("00-multus.conf"), "uninstall");
}
