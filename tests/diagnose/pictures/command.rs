//! The command line around pictures.

use crate::support::program::{Run, bare, stdout_of};

const POD: [&str; 6] = ["--pod-ips", "10.44.0.7", "-u", "1337", "-i", "*"];

#[test]
fn a_picture_shows_traffic_or_its_summary() {
    let svg = |more: &[&str]| stdout_of(&[&["explain", "--format", "svg"], more, &POD[..]].concat());
    assert_eq!(svg(&[]), svg(&["--of", "traffic"]));
    assert!(svg(&[]).contains("Within the pod"));
    let summary = svg(&["--of", "summary"]);
    assert!(summary.contains("Out of the pod") && !summary.contains("Within the pod"));
}

#[test]
fn other_parts_of_traffic_are_refused() {
    let more = ["explain", "--of", "everything", "--format", "svg"];
    let refused = bare(&[&more[..], &POD[..]].concat()).outcome().with(2, "it must fail");
    assert!(contains(&refused.stderr, "is not traffic or summary"), "{}", refused.stderr);
}

/// Rules that no flag describes: all traffic by them.
#[test]
fn rules_of_others_are_drawn_too() {
    let rules = "*nat\n:OUTPUT ACCEPT\n-A OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 9000\nCOMMIT\n";
    for (format, expected) in [("picture", "captured ==> proxy 9000"), ("svg", "port 9000")] {
        let arguments =
            ["explain", "--from-save", "-", "--format", format, "--source", "10.1.1.1", "10.2.2.2:80"];
        let text = bare(&arguments).write_stdin(rules).outcome().success().stdout;
        assert!(contains(&text, expected) && contains(&text, "rule 1 of OUTPUT in table nat"), "{text}");
    }
}

/// Whether the text says this, wherever its lines break.
fn contains(text: &str, expected: &str) -> bool {
    text.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected)
}
