//! The command line around pictures: which formats draw what, and what is refused.

use crate::support::program::{Run, bare, stdout_of};

const POD: [&str; 6] = ["--pod-ips", "10.44.0.7", "-u", "1337", "-i", "*"];

#[test]
fn traffic_is_drawn_unless_rules_are_asked_for() {
    let svg = |more: &[&str]| stdout_of(&[&["render", "--format", "svg"], more, &POD[..]].concat());
    assert_eq!(svg(&[]), svg(&["--of", "traffic"]));
    assert!(svg(&[]).contains("Within the pod"));
    let summary = svg(&["--of", "summary"]);
    assert!(summary.contains("Out of the pod") && !summary.contains("Within the pod"));
    assert!(svg(&["--of", "rules"]).contains("ISTIO_REDIRECT"));
    let v6 = ["--of", "rules", "--family", "v6", "--pod-ips", "10.44.0.7,fd00::7", "--dual-stack", "-i", "*"];
    assert!(stdout_of(&[&["render", "--format", "svg"], &v6[..]].concat()).contains("ISTIO_REDIRECT"));
    for format in ["mermaid", "dot"] {
        let bare = stdout_of(&[&["render", "--format", format], &POD[..]].concat());
        assert_eq!(bare, stdout_of(&[&["render", "--format", format, "--of", "rules"], &POD[..]].concat()));
    }
}

#[test]
fn what_can_not_be_drawn_is_refused_with_the_remedy() {
    let check = |more: &[&str], expected: &str| {
        let refused = bare(&[&["render"], more, &POD[..]].concat()).outcome().with(2, "it must fail");
        let text = refused.stderr;
        assert!(contains(&text, expected), "{more:?}: {text}");
        assert!(refused.stdout.is_empty());
    };
    check(&["--of", "rules"], "--format iptables is not a picture; drop --of, or give --format picture");
    check(&["--of", "rules", "--format", "picture"], "shows traffic; drop --of, or draw rules as svg");
    check(
        &["--of", "traffic", "--format", "dot"],
        "shows rules; drop --of, or draw traffic as picture or svg",
    );
    check(&["--of", "everything", "--format", "svg"], "is not traffic, summary or rules");
    check(&["--family", "v6", "--format", "svg"], "--family: is about pictures of rules");
    check(&["--family", "v6", "--format", "picture"], "both families; drop it, or draw rules as svg");
    for format in ["iptables", "commands", "nft", "json", "yaml"] {
        check(&["--family", "v6", "--format", format], "is about pictures of rules, and this format has");
    }
}

/// Rules that no flag describes: the packet's way alone.
#[test]
fn rules_of_others_show_the_way_alone() {
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
