//! The command line: refusals, completions, the manual.

use crate::PROGRAM;

#[test]
fn refusals_have_the_style_of_all_programs() {
    for (call, expected) in [
        ("foo", "unknown command foo (see --help)"),
        ("repair --node 3 --bogus", "unknown flag --bogus (see --help)"),
        ("repair", "--node: is required: --node <NAME>"),
        (
            "repair --node 3 --action labl",
            "--action: \"labl\" is not repair, label or delete; did you mean label?",
        ),
    ] {
        assert_eq!(PROGRAM.refused(call), format!("error: 1 problem in the input\n  {expected}\n"), "{call}");
    }
    let all = PROGRAM.refused("repair --bogus --action labl");
    assert!(
        all.starts_with("error: 3 problems in the input\n") && all.contains("--node: is required"),
        "{all}"
    );
    let both = PROGRAM.refused("pod --name web");
    assert!(both.starts_with("error: 2 problems in the input\n  --kubeconfig: is required"), "{both}");
}

#[test]
fn shells_complete() {
    PROGRAM.completes(&[
        ("re", &["repair"]),
        ("repair --action ", &["repair", "label", "delete"]),
        ("repair --kubeconfig pod", &["pod.yaml"]),
        ("repair --log-l", &["--log-level"]),
        ("repair ", &[]),
    ]);
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let pages = PROGRAM.manual();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["completions", "man", "pod", "repair"].map(|name| format!("sidecar-node-{name}.1"));
    assert_eq!(names, [&expected.each_ref().map(String::as_str)[..], &["sidecar-node.1"]].concat());
    let (_, repair) = &pages[3];
    for text in ["\nEXIT STATUS\n", "\nEXAMPLES\n", "Variable: NODE_NAME", "One of: repair, label, delete"] {
        assert!(repair.contains(text), "{text}: {repair}");
    }
}
