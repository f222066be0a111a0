//! Agents that constantly rewrite the network configuration with the entry in it: no write is lost, and no reader sees half a
//! file.

use crate::cni::install::node::{Node, program, types};
use crate::support::{scope, wait};
use serde_json::Value;
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

const FILE: &str = "10-a.conflist";

/// An agent's content for a round, long enough that writing takes time.
fn text(round: u32) -> String {
    let filling = "x".repeat(20_000);
    format!(
        "{{\n  \"name\": \"n\", \"cniVersion\": \"1.0.0\",\n  \"plugins\": [\n    {{\"type\": \"a\", \"round\": {round}, \"filling\": \
         \"{filling}\"}},\n    {{\"type\": \"portmap\"}}\n  ]\n}}\n"
    )
}

/// Lets an agent write during reads and checks each content read.
fn check(write: impl Fn(&Node, &str) + Sync, is_whole_always: bool) {
    let node = Node::new();
    write(&node, &text(0));
    let running = node.start(&["--watch"]);
    running.until("the entry", || node.read(FILE).contains("sidecar-cni"));
    let rounds = scope::runs(400, 80);
    let ends = AtomicBool::new(false);
    let (reads, with_entry) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let path = node.configurations().join(FILE);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Acquire) {
                // An exchanged file exists at every moment.
                let seen = fs::read(&path).expect("the file");
                match serde_json::from_slice::<Value>(&seen) {
                    Ok(list) => {
                        reads.fetch_add(1, Ordering::Relaxed);
                        let plugins = list["plugins"].as_array().expect("plugins");
                        let ours = plugins.iter().filter(|plugin| plugin["type"] == "sidecar-cni").count();
                        assert!(plugins.len() == 2 + ours && ours <= 1);
                        with_entry.fetch_add(ours, Ordering::Relaxed);
                    }
                    Err(error) => assert!(!is_whole_always, "{error}"),
                }
            }
        });
        for round in 1..=rounds {
            write(&node, &text(round));
            thread::sleep(Duration::from_millis(u64::from(round % 4)));
        }
        let is_read = || reads.load(Ordering::Relaxed) > 100 && with_entry.load(Ordering::Relaxed) > 0;
        wait::until("many reads, some with the entry", is_read);
        ends.store(true, Ordering::Release);
    });
    running.until("the last text with the entry", || {
        let text = node.read(FILE);
        text.contains(&format!("\"round\": {rounds},")) && types(&text) == ["a", "portmap", "sidecar-cni"]
    });
    drop(running);
    node.succeed("uninstall", &[]);
    assert_eq!(node.read(FILE), text(rounds), "to the byte");
    assert_eq!(node.all().len(), 1, "no temporary file");
}

#[test]
fn an_agent_that_renames() {
    check(|node, text| node.put(FILE, text), true);
}

#[test]
fn an_agent_that_writes_into_the_file() {
    let write = |node: &Node, text: &str| {
        let mut file = fs::File::create(node.configurations().join(FILE)).expect("the file");
        for piece in text.as_bytes().chunks(7_000) {
            file.write_all(piece).expect("written");
            thread::yield_now();
        }
    };
    check(write, false);
}

/// Starts an install that pauses before and after exchanging files, lets an agent write during the pause, and returns the final
/// content.
fn overtaken(write: impl FnOnce(&Path)) -> String {
    let node = Node::new();
    node.put(FILE, &text(0));
    node.succeed("install", &[]);
    node.succeed("uninstall", &["--keep-program"]);
    let stops = "inject=renameat2:delay_enter=400000:delay_exit=400000:when=1";
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-e", stops])
        .arg(program())
        .args(node.arguments("install", &[]));
    let mut child = strace.stderr(Stdio::null()).spawn().expect("strace starts");
    let is_written = || node.all().values().filter(|text| text.contains("sidecar-cni")).count() == 1;
    wait::until("the new file is written", is_written);
    thread::sleep(Duration::from_millis(100));
    write(&node.configurations().join(FILE));
    assert!(child.wait().expect("strace ends").success());
    let text = node.read(FILE);
    assert_eq!(node.all().len(), 1);
    node.succeed("uninstall", &[]);
    assert_eq!(node.all().len(), 1);
    assert_eq!(types(&text), ["a", "portmap", "sidecar-cni"]);
    node.read(FILE)
}

#[test]
fn a_file_that_is_renamed_at_the_last_moment_is_kept() {
    let kept = overtaken(|path| {
        let aside = path.with_extension("new");
        fs::write(&aside, text(7)).expect("written");
        fs::rename(aside, path).expect("renamed");
    });
    assert_eq!(kept, text(7));
}

#[test]
fn a_file_that_is_being_written_while_it_is_exchanged_is_kept() {
    // After the exchange, and after its detection and reversal.
    for pause in [400, 1200] {
        let kept = overtaken(|path| {
            let mut file = fs::File::create(path).expect("the file");
            thread::sleep(Duration::from_millis(pause));
            file.write_all(text(7).as_bytes()).expect("written");
        });
        assert_eq!(kept, text(7), "after {pause} ms");
    }
}
