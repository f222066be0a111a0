//! The command line: errors and the manual.

use crate::PROGRAM;

#[test]
fn refusals_have_the_style_of_all_programs() {
    let all = PROGRAM.refused("repair --bogus --action labl");
    assert!(
        all.starts_with("error: 3 problems in the input\n") && all.contains("--node: is required"),
        "{all}"
    );
    assert!(PROGRAM.refused("repair --node=").contains("--node: "), "an empty node name");
    let both = PROGRAM.refused("pod --name web");
    assert!(both.starts_with("error: 2 problems in the input\n  --kubeconfig: is required"), "{both}");
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let pages = PROGRAM.manual();
    assert_eq!((pages.len(), &*pages[3].0), (5, "sidecar-node-repair.1"));
    assert!(pages[3].1.contains("[env: NODE_NAME"), "{}", pages[3].1);
}
