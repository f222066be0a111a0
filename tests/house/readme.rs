//! Every command in README and docs works: `sidecar-init` commands run here, in a pod-like namespace, in each document's order.
//! `tests/house/documents.rs` checks the rest, without root.

use super::repository::{ROOT, block_lines, files, guides, is_of_the_program};
use crate::support::{namespace::Namespace, program::BINARY};
use std::{env, path::Path};

/// Named namespaces of a document are below a private `/run` and are removed with it.
#[test]
fn commands_of_the_program_succeed_in_the_order_of_their_document() {
    let folder = Path::new(BINARY).parent().expect("a folder").display();
    let path = format!("{folder}:{}", env::var("PATH").unwrap_or_default());
    let (mut run, mut named) = (0, 0);
    let names_a_namespace = |line: &String| line.starts_with("ip netns ");
    let is_run = |line: &String| is_of_the_program(line) || names_a_namespace(line);
    // `diff -f` compares a manifest with flags.
    let allow_differences = |line: String| match line.starts_with("sidecar-init diff -f ") {
        true => line + " || test $? = 3",
        false => line,
    };
    // Troubleshooting commands exit according to the problem; `tests/cli/contract.rs` checks that they are valid.
    for document in guides().filter(|document| document.path != "docs/troubleshooting.md") {
        let lines = block_lines(document, "sh").into_iter();
        let commands: Vec<String> = lines.filter(is_run).map(allow_differences).collect();
        run += commands.len();
        named += commands.iter().filter(|line| names_a_namespace(line)).count();
        let pod = Namespace::new();
        pod.eth0("10.77.0.2/24");
        let setup = format!("set -e; mount -t tmpfs tmpfs /run; cd '{ROOT}'; PATH='{path}'");
        let script = [&[setup, "set -x".to_owned()], &commands[..]].concat().join("\n");
        let output = pod.output("unshare", &["--mount", "sh", "-c", &script], "");
        assert!(output.succeeded(), "{}: {}", document.path, output.stderr);
    }
    assert!(run >= 16 && named >= 2, "documents show the program at work: {run}, {named}");
}

#[test]
#[ignore = "links the program again"]
fn commands_of_cargo_that_contributing_begins_with_succeed() {
    let guide = files("CONTRIBUTING.md")[0];
    let lines = block_lines(guide, "sh").into_iter();
    let commands: Vec<String> = lines.filter(|line| line.starts_with("cargo ")).collect();
    assert_eq!(commands, ["cargo run -- sandbox"], "CONTRIBUTING.md begins with it");
    let printed = testkit::command(
        env!("CARGO"),
        &["run", "--manifest-path", &format!("{ROOT}/Cargo.toml"), "--", "sandbox"],
    );
    assert!(printed.contains("All 7 connections matched the rules"), "{printed}");
}
