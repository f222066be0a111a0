//! A state directory with invalid entries in place of records, read-only, or without space: every container can be deleted, and
//! no call blocks.

use crate::cni::plugin::runtime::{Answer, Node, container, mentions, rules, run, text, variables};
use crate::support::mounts::mount;
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome, fed};
use crate::support::scope;
use serde_json::json;
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

pub(crate) fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success()), "mkfifo");
}

pub(crate) type Form = fn(&Path);

const FORMS: [(&str, Form); 8] = [
    ("a folder", |path| fs::create_dir(path).expect("a folder")),
    ("a folder that is not empty", |path| {
        fs::create_dir_all(path.join("a/b")).expect("folders");
        fs::write(path.join("a/c"), "x").expect("a file");
    }),
    ("a pipe", fifo),
    ("a link to nothing", |path| symlink("nowhere", path).expect("a link")),
    ("a link to itself", |path| symlink(path.file_name().expect("a name"), path).expect("a link")),
    ("a link to an endless device", |path| symlink("/dev/zero", path).expect("a link")),
    ("a huge file", |path| {
        let file = File::create(path).expect("a file");
        file.set_len(1 << 40).expect("a hole");
    }),
    ("a socket", |path| drop(std::os::unix::net::UnixListener::bind(path).expect("a socket"))),
];

#[track_caller]
fn quickly(what: &str, call: impl FnOnce() -> Outcome) -> Outcome {
    let start = Instant::now();
    let ended = call();
    assert!(start.elapsed() < Duration::from_secs(9), "{what}: {:?}", start.elapsed());
    ended
}

fn replaced(path: &Path, form: Form) {
    fs::remove_file(path).expect("a record");
    form(path);
}

#[test]
fn record_that_is_not_a_file_blocks_no_call() {
    for (what, form) in scope::of(FORMS.to_vec(), 3) {
        let (node, pod) = (Node::new(), container());
        let (configuration, path) = (node.capturing(), pod.path());
        node.does("ADD", &configuration, &path);
        let (made, record) = (rules(&pod), node.attachments().remove(0));
        for verb in ["CHECK", "ADD", "DEL"] {
            replaced(&record, form);
            assert_eq!(
                quickly(what, || node.call(verb, &configuration, &path)).well().is_empty(),
                verb != "ADD"
            );
            let left = if verb == "DEL" { "" } else { &made };
            assert_eq!(rules(&pod), left, "{verb} with {what}");
            if verb == "CHECK" {
                let warnings = node.lines().pop().expect("a line")["warnings"].to_string();
                assert!(warnings.contains("can't be read"), "{what}: {warnings}");
                drop(node.call("DEL", &configuration, &path).well());
                node.does("ADD", &configuration, &path);
            }
        }
        assert!(node.attachments().is_empty(), "{what}");
    }
}

/// Another container's invalid record blocks neither DEL nor GC.
#[test]
fn record_that_is_not_a_file_affects_only_its_container_until_gc() {
    for (what, form) in scope::of(FORMS.to_vec(), 3) {
        let (node, pod) = (Node::new(), container());
        node.does("ADD", &node.capturing(), &pod.path());
        form(&node.state().join("attachments/c2@eth0@mesh.json"));
        quickly(what, || node.call("DEL", &node.capturing(), &pod.path())).well();
        assert_eq!(rules(&pod), "", "{what}");
        let configuration = node.configuration(&json!({"cni.dev/valid-attachments": []})).to_string();
        quickly(what, || run("GC", &[], &configuration)).well();
        assert!(node.attachments().is_empty(), "{what}");
    }
}

#[test]
fn counters_that_are_not_a_file_block_no_call() {
    for name in ["counters.json", "counters.lock"] {
        for (what, form) in scope::of(FORMS.to_vec(), 3) {
            let (node, pod) = (Node::new(), container());
            fs::create_dir_all(node.state()).expect("a folder");
            form(&node.state().join(name));
            let ended = quickly(what, || node.call("ADD", &node.capturing(), &pod.path()));
            assert_eq!(ended.code, Some(0), "{name} is {what}: {ended:?}");
        }
    }
}

fn read_only(node: &Node, work: impl FnOnce() + Send) {
    crate::support::mounts::in_mount_namespace(|| {
        let state = node.state();
        for options in [&["--bind", text(&state), text(&state)][..], &["-o", "remount,bind,ro", text(&state)]]
        {
            mount(options);
        }
        work();
    });
}

#[test]
fn del_succeeds_where_the_record_can_not_be_removed_and_gc_forgets_it_later() {
    let (node, pod) = (Node::new(), container());
    let (configuration, path) = (node.capturing(), pod.path());
    node.does("ADD", &configuration, &path);
    read_only(&node, || {
        for path in [&path, &path, "/run/netns/no-such-namespace"] {
            let ended = node.call("DEL", &configuration, path);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(rules(&pod), "");
            let line = node.lines().pop().expect("a line");
            assert!(line["warnings"].to_string().contains("can't be removed (state_dir)"), "{line:#}");
        }
        mentions(&node.call("ADD", &configuration, &path).refused(5), &["state_dir"]);
        assert_eq!(rules(&pod), "");
    });
    assert_eq!(node.attachments().len(), 1);
    let gc = node.configuration(&json!({"cni.dev/valid-attachments": []})).to_string();
    run("GC", &[], &gc).well();
    assert!(node.attachments().is_empty());
}

/// Two attachments share rules: if records can't be removed, each DEL would leave the rules to the other attachment.
#[test]
fn rules_that_two_attachments_share_do_not_get_lost_on_a_read_only_folder() {
    let (node, pod) = (Node::new(), container());
    let other = node.second();
    node.does("ADD", &node.capturing(), &pod.path());
    node.does("ADD", &other, &pod.path());
    let made = rules(&pod);
    read_only(&node, || mentions(&node.call("DEL", &other, &pod.path()).refused(5), &["state_dir"]));
    assert_eq!(rules(&pod), made);
    node.does("DEL", &other, &pod.path());
    node.does("DEL", &node.capturing(), &pod.path());
    assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0));
}

fn limited(verb: &str, bytes: usize, node: &Node, pod: &Namespace) -> Outcome {
    let path = pod.path();
    let mut command = Command::new("prlimit");
    command.args([&format!("--fsize={bytes}"), BINARY]).envs(variables("c1", &path)).env("CNI_COMMAND", verb);
    fed(command, node.capturing().to_string())
}

#[test]
fn file_size_limit_is_an_error() {
    let (node, pod) = (Node::new(), container());
    for bytes in [0, 10, 100] {
        let error = limited("ADD", bytes, &node, &pod).refused(5);
        mentions(&error, &["state directory can't be written", "File too large"]);
        assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0), "{bytes}");
    }
    node.does("ADD", &node.capturing(), &pod.path());
    let ended = limited("DEL", 0, &node, &pod);
    assert!(ended.code == Some(0) && ended.stderr.contains("cannot write the log"), "{ended:?}");
    assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0));
}
