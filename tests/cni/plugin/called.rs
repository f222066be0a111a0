//! How the program knows that a runtime calls it.

use crate::cni::plugin::runtime::{Answer, Node};
use crate::support::program::{BINARY, Outcome, fed};
use std::{os::unix::fs::symlink, path::Path, process::Command};

fn run(program: &Path, arguments: &[&str], command: Option<&str>) -> Outcome {
    let mut called = Command::new(program);
    called.args(arguments).env_clear().envs(command.map(|command| ("CNI_COMMAND", command)));
    fed(&mut called, "{}")
}

#[test]
fn by_the_command_the_plugins_name_or_the_variable_alone() {
    let node = Node::new();
    let named = |name: &str| {
        let path = node.folder.join(name);
        symlink(BINARY, &path).expect("a link");
        path
    };
    let (plugin, drop_in, other) = (named("sidecar-cni"), named("istio-iptables"), named("any-name"));
    let binary = Path::new(BINARY);
    let version = Some("VERSION");
    for (program, arguments) in
        [(binary, &["cni"][..]), (binary, &[]), (&plugin, &[]), (&other, &[]), (&other, &["cni"])]
    {
        let answer = run(program, arguments, version).well();
        assert!(answer.contains("supportedVersions"), "{program:?} {arguments:?}: {answer}");
    }
    // Where the name or the command asks for it, it says what is missing.
    run(&plugin, &[], None).refused(4);
    run(binary, &["cni"], None).refused(4);
    // A variable that is left in the environment makes no plugin of what is called by arguments, or as the drop-in.
    for (program, arguments) in [
        (binary, &["version"][..]),
        (binary, &["--version"]),
        (&drop_in, &["--help"]),
        (&plugin, &["--help"]),
    ] {
        let answer = run(program, arguments, version).well();
        assert!(!answer.contains("supportedVersions"), "{program:?} {arguments:?}: {answer}");
    }
    let ended = run(&drop_in, &[], version);
    assert!(!ended.stdout.contains("supportedVersions"), "{ended:?}");
    let ended = run(binary, &[], None);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
}

#[test]
fn its_help_is_printed_and_flags_are_refused() {
    let help = run(Path::new(BINARY), &["cni", "--help"], None).well();
    assert!(help.contains("\"capture\":") && help.contains("0.3.1, 0.4.0, 1.0.0, 1.1.0"), "{help}");
    for arguments in [&["cni", "--log_as_json"][..], &["--log_as_json", "cni"], &["cni", "ADD"]] {
        assert_eq!(run(Path::new(BINARY), arguments, Some("ADD")).code, Some(2), "{arguments:?}");
    }
}
