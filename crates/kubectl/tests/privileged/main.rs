//! Answers of a real kernel: what runs in containers is the real `sidecar-init`, in a network namespace.

#[path = "../kubectl/played.rs"]
mod played;
mod websocket;

use played::pod;
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};
use testkit::{command, command_line::Ended, pod_namespace::PodNamespace, program_beside, word};

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program_beside(env!("CARGO_BIN_EXE_kubectl-capture"), "sidecar-init"))
}

/// The rules of the manifest are set, as the plugin does when the pod starts.
fn apply(namespace: &PodNamespace) {
    let pod = pod().to_string();
    let words = ["apply", "-f", &pod, "--backend", "nftables", "--network-namespace", &namespace.path()];
    command(word(program()), &words);
}

#[track_caller]
fn check_equality(diff: &Ended) {
    let expected = "Rules are in place (nftables)\n";
    assert!(diff.stdout.ends_with(expected), "{}", diff.stdout);
}
