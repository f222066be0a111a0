//! The runtime's own network namespace is never changed, whatever path `CNI_NETNS` has, with or without `/proc`.

use crate::cni::plugin::runtime::{Answer, Node, container, mentions, rules, run, text};
use crate::support::mounts::{in_mount_namespace, mount};
use crate::support::namespace::Namespace;
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// A file with a namespace mounted on it, like a runtime's.
fn named(node: &Node, name: &str, namespace: &str) -> PathBuf {
    let file = node.folder.join(name);
    fs::write(&file, "").expect("a file");
    mount(&["--bind", namespace, text(&file)]);
    file
}

/// The test process's namespace, which is the plugin's own namespace in a call.
fn own() -> Namespace {
    File::open("/proc/self/ns/net").expect("our own").into()
}

fn without_proc(work: impl FnOnce() + Send) {
    let status = Command::new("umount").args(["--lazy", "/proc"]).status().expect("umount");
    assert!(status.success() && !Path::new("/proc/self").exists());
    work();
}

#[test]
fn every_path_to_the_own_namespace_is_refused() {
    let node = Node::new();
    let before = rules(&own());
    in_mount_namespace(|| {
        let link = node.folder.join("link");
        let mounted = named(&node, "mounted", "/proc/self/ns/net");
        symlink(&mounted, &link).expect("a link");
        for path in
            [mounted.as_path(), &link, Path::new("/proc/self/ns/net"), Path::new("/proc/thread-self/ns/net")]
        {
            for verb in ["ADD", "CHECK"] {
                let error = node.call(verb, &node.capturing(), text(path)).refused(4);
                mentions(&error, &["CNI_NETNS", text(path), "the runtime's own network namespace"]);
            }
            node.does("DEL", &node.capturing(), text(path));
        }
        // Another namespace's record is not removed here.
        let pod = container();
        node.does("ADD", &node.capturing(), &pod.path());
        mentions(&node.call("DEL", &node.capturing(), text(&mounted)).refused(4), &["the runtime's own"]);
        node.does("DEL", &node.capturing(), &pod.path());
    });
    assert_eq!(rules(&own()), before);
}

#[test]
fn every_call_is_refused_without_proc() {
    let node = Node::new();
    let (pod, ours) = (container(), own());
    let before = rules(&ours);
    in_mount_namespace(|| {
        let files = [named(&node, "own", "/proc/self/ns/net"), named(&node, "pod", &pod.path())];
        without_proc(|| {
            for file in &files {
                for verb in ["ADD", "CHECK"] {
                    let error = node.call(verb, &node.capturing(), text(file)).refused(4);
                    mentions(&error, &["CNI_NETNS", text(file), "mount /proc to check it"]);
                }
                node.does("DEL", &node.capturing(), text(file));
            }
            let error = run("STATUS", &[], &node.capturing().to_string()).refused(50);
            mentions(&error, &["mount /proc to check it"]);
        });
        assert!(node.attachments().is_empty());
    });
    assert_eq!((rules(&pod), rules(&ours)), (String::new(), before));
    // An earlier ADD keeps its record until the rules can be removed.
    node.does("ADD", &node.capturing(), &pod.path());
    let made = rules(&pod);
    in_mount_namespace(|| {
        let file = named(&node, "pod-again", &pod.path());
        without_proc(|| {
            let error = node.call("DEL", &node.capturing(), text(&file)).refused(4);
            mentions(&error, &["mount /proc to check it"]);
        });
    });
    assert_eq!((rules(&pod), node.attachments().len()), (made, 1));
    node.does("DEL", &node.capturing(), &pod.path());
    assert_eq!((rules(&pod), node.attachments().len()), (String::new(), 0));
}
