//! Folders that other users may write to: an entry that is not a network configuration of sensible size is skipped and reported.
//! It neither blocks the installer nor costs memory.

use crate::cni::install::node::{LIST, Node, Running, types};
use crate::cni::plugin::hostile::{Form, fifo};
use crate::support::program::Run;
use crate::support::scope;
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    process::Command,
};

fn huge(path: &Path) {
    File::create(path).and_then(|file| file.set_len(1 << 30)).expect("a file of 1 GiB");
}

/// Folder entries, and the report on each.
const FORMS: [(&str, Form, &str); 6] = [
    ("a pipe", fifo, "is not a regular file"),
    ("a huge file", huge, "has more than 1048576 bytes"),
    ("a device", |path| symlink("/dev/zero", path).expect("a link"), "is not a regular file"),
    (
        "a link to itself",
        |path| symlink(path.file_name().expect("a name"), path).expect("a link"),
        "is not a regular file",
    ),
    (
        "a socket",
        |path| drop(std::os::unix::net::UnixListener::bind(path).expect("a socket")),
        "is not a regular file",
    ),
    ("other bytes", |path| fs::write(path, b"\xff\xfe").expect("a file"), "is not complete JSON"),
];

/// Peak memory of a process in kB.
fn peak(running: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", running.id())).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn invalid_configurations_are_skipped_and_reported() {
    for (what, form, printed) in scope::of(FORMS.to_vec(), 2) {
        for name in scope::of(vec!["00-x.conflist", "00-x.conf"], 1) {
            let node = Node::new();
            let path = node.configurations().join(name);
            form(&path);
            let mut running = node.start(&["--watch"]);
            running.until("a report", || running.log().contains(printed));
            node.put("10-a.conflist", LIST);
            running.until("the entry in the next file", || types(&node.read("10-a.conflist")).len() == 2);
            let is_warning =
                |line: &str| line.contains("ignored") && line.contains(name) && line.contains(printed);
            running.until(what, || running.log().lines().any(is_warning));
            assert!(peak(&running) < 50_000, "{what}: {} kB", peak(&running));
            assert_eq!(running.end(), Some(0), "{what}");
            node.succeed("uninstall", &[]);
            assert_eq!(node.read("10-a.conflist"), LIST, "{what}");
            fs::remove_file(path).expect("the entry is kept");
        }
    }
}

/// Other entries occupy the names of the installer's files.
#[test]
fn occupied_names_are_reported() {
    let node = Node::new();
    node.put("10-a.conf", r#"{"name":"n","cniVersion":"1.0.0","type":"a"}"#);
    fifo(&node.configurations().join("10-a.conflist"));
    fs::create_dir(node.configurations().join(".sidecar-cni-1-1")).expect("a folder");
    fs::create_dir(node.programs().join(".sidecar-cni-1-1")).expect("a folder");
    fifo(&node.plugin());
    let output = node.call("install", &["--wait", "100ms"]);
    let printed = output.with(1, "names that are taken").stderr;
    assert!(printed.contains("10-a.conflist is not a regular file"), "{printed}");
    // A pipe in the program's place is not a program and is replaced.
    assert!(fs::metadata(node.plugin()).is_ok_and(|plugin| plugin.is_file()));
}

#[test]
fn configuration_never_exceeds_the_read_limit() {
    let node = Node::new();
    let most = 1024 * 1024;
    let padded = |length: usize| {
        let text = r#"{"name":"n","cniVersion":"1.0.0","x":"","plugins":[{"type":"a"}]}"#;
        text.replace("\"\"", &format!("\"{}\"", "x".repeat(length - text.len())))
    };
    node.put("10-a.conflist", &padded(most - 10));
    let output = node.call("install", &["--wait", "100ms"]);
    let printed = output.with(1, "too long").stderr;
    assert!(printed.contains("would have more than 1048576 bytes"), "{printed}");
    assert_eq!(node.read("10-a.conflist").len(), most - 10);
    node.put("10-a.conflist", &padded(most - 1000));
    node.succeed("install", &[]);
    node.succeed("uninstall", &[]);
    assert_eq!(node.read("10-a.conflist"), padded(most - 1000));
}

/// The runtime uses the first file, so an entry in the second would have no effect. The test waits longer than for a half-written
/// file.
#[test]
fn unsupported_file_is_reported_and_kept_and_no_later_one_is_used() {
    let latin = b"{\"name\":\"n\",\"x\":\"\xe9\",\"cniVersion\":\"1.0.0\",\"plugins\":[{\"type\":\"a\"},{\"type\":\"sidecar-cni\"}]}";
    for (name, text, printed) in [
        ("10-a.conf", br#"{"name":"n","cniVersion":"0.2.0","type":"a"}"#.as_slice(), "has version"),
        ("10-a.json", br#"{"name":"n","cniVersion":"0.1.0","type":"a"}"#, "has version"),
        (
            "10-a.conflist",
            br#"{"name":"n","cniVersion":"1.0.0"}"#,
            "has no plugins, but loads plugins from the folder \"n\"",
        ),
        ("10-a.conflist", latin, "is not UTF-8"),
    ] {
        let node = Node::new();
        let path = node.configurations().join(name);
        fs::write(&path, text).expect("written");
        node.put("20-b.conflist", LIST);
        let folder = node.configurations().join("n");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("a.conf"), r#"{"type":"a"}"#).expect("written");
        let wait = if printed == "has version" { "100ms" } else { "3s" };
        let said = node.call("install", &["--wait", wait]).with(1, printed).stderr;
        assert!(said.contains(&format!("{name} {printed}")) && !said.contains("ignored"), "{said}");
        assert_eq!(fs::read(&path).expect("the file"), text, "{printed}");
        assert_eq!(node.read("20-b.conflist"), LIST, "{printed}");
        if text == latin {
            let said = node.call("uninstall", &[]).with(1, printed).stderr;
            assert!(said.contains("is not UTF-8, and names sidecar-cni; fix it first"), "{said}");
        }
        // Runtimes skip a list without plugins once its folder is empty.
        fs::remove_file(folder.join("a.conf")).expect("removed");
        if printed.starts_with("has no plugins") {
            node.succeed("install", &[]);
            assert_eq!(types(&node.read("20-b.conflist")), ["a", "sidecar-cni"]);
        }
    }
}

#[test]
fn file_size_limit_is_an_error() {
    let node = Node::new();
    node.put("10-a.conflist", LIST);
    let output = Command::new("prlimit")
        .args(["--fsize=1000".into(), crate::cni::install::node::program().as_os_str().to_owned()])
        .args(node.arguments("install", &[]))
        .outcome();
    let printed = output.with(1, "a file size limit").stderr;
    assert!(printed.contains("File too large"), "{printed}");
    assert_eq!((node.read("10-a.conflist"), node.plugin().exists()), (LIST.to_owned(), false));
}
