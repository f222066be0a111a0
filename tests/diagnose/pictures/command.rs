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

/// Rules that drop or send elsewhere are named beside the rest.
#[test]
fn all_traffic_by_rules_of_others_is_drawn() {
    let rules = "*filter\n:INPUT ACCEPT\n-A INPUT -s 10.0.0.0/8 -j DROP\nCOMMIT\n*nat\n:OUTPUT ACCEPT\n\
                 -A OUTPUT -d 10.96.0.1/32 -p tcp --dport 80 -j DNAT --to-destination 10.1.0.1:8080\n\
                 -A OUTPUT -d 10.96.0.3/32 -p tcp --dport 80 -j DNAT --to-destination 10.1.0.3:8080\nCOMMIT\n";
    let call = ["explain", "--from-save", "-", "--pod-ips", "10.44.0.7"];
    let text = bare(&call).write_stdin(rules).outcome().success().stdout;
    for expected in [
        "Into the pod dropped --x everything from network 10.0.0.0/8 (a rule of another program)",
        "TCP port 80 to addresses 10.96.0.1, 10.96.0.3 (a rule of another program sends them elsewhere)",
        "not captured --> network all else",
    ] {
        assert!(contains(&text, expected), "no {expected:?} in {text}");
    }
}

/// Wherever its lines break.
fn contains(text: &str, expected: &str) -> bool {
    text.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected)
}
