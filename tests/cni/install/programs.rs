//! `sidecar-node` goes among the plugins with the plugin, where it lies beside the program that installs, and does what
//! `cni repair --watch` asks for.

use crate::cni::install::node::{LIST, Node, program};
use crate::support::program::{Outcome, Run};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const KUBECONFIG: &str = r#"{"kubeconfig":"/etc/cni/net.d/sidecar-cni-kubeconfig"}"#;

/// A node, and a copy of the program in a folder of its own.
struct Copy {
    node: Node,
    program: PathBuf,
}

impl Copy {
    fn new() -> Self {
        let node = Node::new();
        node.put("10-a.conflist", LIST);
        fs::create_dir(node.path("release")).expect("a folder");
        let copy = node.path("release/sidecar-init");
        crate::support::program::copy(program(), &copy);
        Self { node, program: copy }
    }

    /// One that has what stands for `sidecar-node` beside it.
    fn with(script: &str) -> Self {
        let copy = Self::new();
        write_program(&copy.node.path("release/sidecar-node"), script);
        copy
    }

    fn placed(&self) -> PathBuf {
        self.node.programs().join("sidecar-node")
    }

    #[track_caller]
    fn succeed(&self, verb: &str, more: &[&str]) -> String {
        // By the plugin's name, it knows no other command.
        let skipped = usize::from(self.program.ends_with("sidecar-cni"));
        let arguments = self.node.arguments(verb, more);
        Command::new(&self.program).args(&arguments[skipped..]).outcome().with(0, verb).stderr
    }
}

fn write_program(path: &Path, script: &str) {
    crate::support::program::script(path, format!("#!/bin/sh\n{script}\n"));
}

#[test]
fn sidecar_node_comes_and_goes_with_the_plugin() {
    let copy = Copy::with("echo one");
    copy.succeed("install", &[]);
    let ours = fs::read(copy.node.path("release/sidecar-node")).expect("ours");
    assert_eq!(fs::read(copy.placed()).expect("placed"), ours);
    assert_eq!(fs::metadata(copy.placed()).expect("placed").mode() & 0o7777, 0o755);
    let number = fs::metadata(copy.placed()).expect("placed").ino();
    copy.succeed("install", &[]);
    assert_eq!(fs::metadata(copy.placed()).expect("placed").ino(), number, "it is written once");

    // Other words, more behind the same, less, and much of either.
    let long = "true; ".repeat(20_000);
    for script in ["echo two", "echo", "echo\necho", "echo", &long, &format!("{long}echo"), &long] {
        write_program(&copy.node.path("release/sidecar-node"), script);
        copy.succeed("install", &[]);
        let placed = fs::read_to_string(copy.placed()).expect("placed");
        assert!(placed == format!("#!/bin/sh\n{script}\n"), "{} bytes", placed.len());
    }

    copy.succeed("uninstall", &["--keep-program"]);
    assert!(copy.placed().exists() && copy.node.plugin().exists());
    let printed = copy.succeed("uninstall", &[]);
    assert!(printed.contains("bin/sidecar-node is removed"), "{printed}");
    assert_eq!(fs::read_dir(copy.node.programs()).expect("the folder").count(), 0);
    assert_eq!(copy.node.read("10-a.conflist"), LIST);
}

#[test]
fn a_program_that_is_run_among_the_plugins_keeps_its_sidecar_node() {
    let copy = Copy::new();
    let here = copy.node.programs().join("sidecar-init");
    fs::rename(&copy.program, &here).expect("moved");
    write_program(&copy.placed(), "echo one");
    let copy = Copy { program: here, ..copy };
    copy.succeed("install", &[]);
    copy.succeed("uninstall", &[]);
    assert!(copy.placed().exists() && !copy.node.plugin().exists());
    // The plugin itself takes all back.
    copy.succeed("install", &[]);
    let copy = Copy { program: copy.node.plugin(), ..copy };
    copy.succeed("uninstall", &[]);
    assert!(!copy.placed().exists() && !copy.node.plugin().exists());
}

#[test]
fn a_kubeconfig_without_sidecar_node_is_warned_of() {
    let printed = Copy::new().succeed("install", &["--entry", KUBECONFIG]);
    let warned = |printed: &str| printed.contains("has a kubeconfig, but sidecar-node");
    assert!(warned(&printed), "{printed}");
    assert!(!warned(&Copy::new().succeed("install", &[])), "nobody would ask");
    assert!(!warned(&Copy::with("echo one").succeed("install", &["--entry", KUBECONFIG])), "it is beside");
    let copy = Copy::new();
    write_program(&copy.placed(), "echo one");
    assert!(!warned(&copy.succeed("install", &["--entry", KUBECONFIG])), "it is in place");
}

fn repair(copy: &Copy, path: &Path, arguments: &[&str]) -> Outcome {
    Command::new(&copy.program).args(["cni", "repair"]).args(arguments).env("PATH", path).outcome()
}

/// Shows that it runs in the place of the one who started it: by its number, its words, its environment, its exit code.
const STAND_IN: &str = "echo $$ \"$0\"; printf '<%s>' \"$@\"; echo \"$NODE_NAME\"; exit 7";

#[test]
fn a_repair_that_watches_is_done_by_sidecar_node() {
    let copy = Copy::with(STAND_IN);
    let beside = copy.node.path("release/sidecar-node");
    let child = Command::new(&copy.program)
        .args([
            "cni",
            "repair",
            "--watch",
            "--node",
            "",
            "--action=label",
            "--log-level",
            "a b",
            "--no-such-flag",
        ])
        .env("NODE_NAME", "n1")
        .env("PATH", "/nowhere")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let id = child.id();
    let output = Outcome::from(child.wait_with_output().expect("it ends")).with(7, "it stands in").stdout;
    let words = "<repair><--watch><--node><><--action=label><--log-level><a b><--no-such-flag>n1";
    assert_eq!(output, format!("{id} {}\n{words}\n", beside.display()));

    fs::create_dir(copy.node.path("path")).expect("a folder");
    let elsewhere = copy.node.path("path/sidecar-node");
    fs::rename(beside, &elsewhere).expect("moved");
    let output = repair(&copy, &copy.node.path("path"), &["--node", "n2", "--watch"]).stdout;
    assert!(output.contains(&format!("{}\n<repair><--node><n2><--watch>", elsewhere.display())), "{output}");
}

#[test]
fn a_repair_that_watches_and_can_not_is_told_why() {
    let copy = Copy::with(STAND_IN);
    for (arguments, flags) in [
        (
            &["--watch", "--pid", "42", "--netns=/run/netns/a"][..],
            &["--netns: contradicts", "--pid: contradicts"][..],
        ),
        (&["--netns", "/run/netns/a", "--watch"], &["--netns: contradicts --watch"]),
    ] {
        let Outcome { stdout, stderr, .. } = repair(&copy, Path::new("/nowhere"), arguments).with(2, "flags");
        assert!(stdout.is_empty() && flags.iter().all(|flag| stderr.contains(flag)), "{stderr}");
    }
    let beside = copy.node.path("release/sidecar-node");
    fs::set_permissions(&beside, Permissions::from_mode(0o600)).expect("no program");
    let printed = repair(&copy, Path::new("/nowhere"), &["--watch"]).with(1, "repair").stderr;
    assert!(printed.contains("sidecar-node can't be started\n  because: "), "{printed}");
    fs::remove_file(&beside).expect("removed");
    let printed = repair(&copy, Path::new("/nowhere"), &["--watch"]).with(1, "repair").stderr;
    assert!(printed.contains(&format!("neither at {} nor on PATH", beside.display())), "{printed}");
    // Without it, it is the repair of one container, as ever.
    let printed = repair(&copy, Path::new("/nowhere"), &[]).with(2, "repair").stderr;
    assert!(printed.contains("--netns: is missing; give"), "{printed}");
}
