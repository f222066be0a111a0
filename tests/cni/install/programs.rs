//! `sidecar-node` is installed with the plugin if it is beside the installing program, and `cni repair --watch` runs it.

use crate::cni::install::node::{LIST, Node, program};
use crate::support::program::{Outcome, Run};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const KUBECONFIG: &str = r#"{"kubeconfig":"/etc/cni/net.d/sidecar-cni-kubeconfig"}"#;

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
        // Under the plugin's name, the program has no other command.
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
    let ours = fs::read(copy.node.path("release/sidecar-node")).expect("the source");
    assert_eq!(fs::read(copy.placed()).expect("placed"), ours);
    assert_eq!(fs::metadata(copy.placed()).expect("placed").mode() & 0o7777, 0o755);
    let number = fs::metadata(copy.placed()).expect("placed").ino();
    copy.succeed("install", &[]);
    assert_eq!(
        fs::metadata(copy.placed()).expect("placed").ino(),
        number,
        "a second install writes it again"
    );

    // Other content, an appended part, a shorter file, and long versions of each.
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
    copy.succeed("install", &[]);
    let copy = Copy { program: copy.node.plugin(), ..copy };
    copy.succeed("uninstall", &[]);
    assert!(!copy.placed().exists() && !copy.node.plugin().exists());
}

#[test]
fn kubeconfig_without_sidecar_node_has_a_warning() {
    let printed = Copy::new().succeed("install", &["--entry", KUBECONFIG]);
    let warned = |printed: &str| printed.contains("has a kubeconfig, but sidecar-node");
    assert!(warned(&printed), "{printed}");
    assert!(!warned(&Copy::new().succeed("install", &[])), "no kubeconfig");
    assert!(
        !warned(&Copy::with("echo one").succeed("install", &["--entry", KUBECONFIG])),
        "beside the program"
    );
    let copy = Copy::new();
    write_program(&copy.placed(), "echo one");
    assert!(!warned(&copy.succeed("install", &["--entry", KUBECONFIG])), "in place");
}

fn repair(copy: &Copy, path: &Path, arguments: &[&str]) -> Outcome {
    Command::new(&copy.program).args(["cni", "repair"]).args(arguments).env("PATH", path).outcome()
}

/// Prints its process ID, arguments and environment, and exits with 7: `sidecar-node` replaces the calling process.
const STAND_IN: &str = "echo $$ \"$0\"; printf '<%s>' \"$@\"; echo \"$NODE_NAME\"; exit 7";

#[test]
fn repair_watch_runs_sidecar_node() {
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
        .expect("the program starts");
    let id = child.id();
    let output =
        Outcome::from(child.wait_with_output().expect("the program ends")).with(7, "sidecar-node").stdout;
    let words = "<repair><--watch><--node><><--action=label><--log-level><a b><--no-such-flag>n1";
    assert_eq!(output, format!("{id} {}\n{words}\n", beside.display()));

    fs::create_dir(copy.node.path("path")).expect("a folder");
    let elsewhere = copy.node.path("path/sidecar-node");
    fs::rename(beside, &elsewhere).expect("moved");
    let output = repair(&copy, &copy.node.path("path"), &["--node", "n2", "--watch"]).stdout;
    assert!(output.contains(&format!("{}\n<repair><--node><n2><--watch>", elsewhere.display())), "{output}");
}

#[test]
fn failed_repair_watch_names_its_cause() {
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
    let printed = repair(&copy, Path::new("/nowhere"), &[]).with(2, "repair").stderr;
    assert!(printed.contains("--netns: is missing; identify"), "{printed}");
}
