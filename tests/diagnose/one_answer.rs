//! All commands agree on any namespace: `status`, `explain`, `diff`, `lint`, `render`, `verify` and the node overview.

use crate::support::namespace::{Namespace, run};
use serde_json::Value;
use std::collections::BTreeSet;

fn pod() -> Namespace {
    let pod = Namespace::new();
    pod.eth0("10.77.0.2/24");
    pod.ip("addr add fd77::2/64 dev eth0 nodad\nlink set far up\nroute add default via 10.77.0.1\nroute add default via fd77::1");
    pod
}

struct Situation {
    name: &'static str,
    flags: &'static [&'static str],
    others: &'static str,
    verdicts: &'static [(&'static str, &'static str)],
    families: &'static [&'static str],
}

const OUTSIDE: &str = "10.99.0.1:443";
const BOTH: &[&str] = &["ipv4", "ipv6"];
const USUAL: &[&str] = &[
    "--pod-ips",
    "10.77.0.2,fd77::2",
    "--dual-stack",
    "-b",
    "*",
    "-i",
    "*",
    "-d",
    "15090",
    "-x",
    "10.96.0.0/16",
];

const SITUATIONS: [Situation; 7] = [
    Situation {
        name: "no rules",
        flags: &[],
        others: "",
        verdicts: &[("8080", "not_captured"), (OUTSIDE, "not_captured")],
        families: &[],
    },
    Situation {
        name: "no flags",
        flags: &["--pod-ips", "10.77.0.2"],
        others: "",
        verdicts: &[("8080", "not_captured"), (OUTSIDE, "not_captured")],
        families: &[],
    },
    Situation {
        name: "both families with exclusions",
        flags: USUAL,
        others: "",
        verdicts: &[
            ("8080", "captured"),
            ("15090", "not_captured"),
            ("15008", "not_captured"),
            ("10.96.0.9:80", "not_captured"),
            (OUTSIDE, "captured"),
            ("[fd99::1]:443", "captured"),
        ],
        families: BOTH,
    },
    Situation {
        name: "IPv4 alone",
        flags: &["--pod-ips", "10.77.0.2", "-b", "80", "-i", "10.0.0.0/8"],
        others: "",
        verdicts: &[
            ("80", "captured"),
            ("8080", "not_captured"),
            (OUTSIDE, "captured"),
            ("192.0.2.1:80", "not_captured"),
        ],
        families: &["ipv4"],
    },
    Situation {
        name: "TPROXY",
        flags: &["--pod-ips", "10.77.0.2", "-m", "TPROXY", "-b", "*", "-i", "*"],
        others: "",
        verdicts: &[("8080", "captured"), (OUTSIDE, "captured")],
        families: &["ipv4"],
    },
    Situation {
        name: "another program first",
        flags: USUAL,
        others: "table ip other {
            chain out { type nat hook output priority -150; tcp dport 443 dnat to 10.99.0.9; }
            chain in { type filter hook prerouting priority -150; tcp dport 8080 drop; }
        }
",
        verdicts: &[("8080", "dropped"), (OUTSIDE, "not_captured"), ("10.99.0.1:80", "captured")],
        families: BOTH,
    },
    Situation {
        name: "another mesh",
        flags: &[],
        others: "table ip other {
            chain out { type nat hook output priority -100; tcp dport 443 redirect to :15001; }
        }
",
        verdicts: &[("8080", "not_captured"), (OUTSIDE, "captured")],
        families: &["ipv4"],
    },
];

fn document(pod: &Namespace, words: &[&str]) -> (Value, Option<i32>) {
    let ended = run(pod, &[words, &["--output", "json"]].concat());
    let document = serde_json::from_str(&ended.stdout);
    (
        document.unwrap_or_else(|error| panic!("{words:?}: {error}: {}{}", ended.stdout, ended.stderr)),
        ended.code,
    )
}

fn codes(of: &Value) -> BTreeSet<String> {
    let findings = of["findings"].as_array().expect("a list").iter();
    findings.map(|one| format!("{} {}", one["level"], one["code"]).replace('"', "")).collect()
}

#[test]
fn all_commands_agree() {
    for Situation { name, flags, others, verdicts, families } in SITUATIONS {
        let pod = pod();
        if !flags.is_empty() {
            run(&pod, &[&["apply"], flags].concat()).with(0, name);
        }
        if !others.is_empty() {
            pod.load(others);
        }
        let (status, code) = document(&pod, &["status"]);
        let about = format!("{name}: {status:#}");
        // `explain` of all traffic has the rows of `status`; `explain` of one packet has its row's verdict.
        let (all, _) = document(&pod, &["explain"]);
        let does_nothing = |row: &Value| row["verdict"] == "not_captured" && row["option"].is_null();
        match status["rows"].as_array().expect("a list") {
            rows if rows.is_empty() => {
                assert!(all["rows"].as_array().expect("a list").iter().all(does_nothing), "{name}: {all:#}");
            }
            rows => assert_eq!(&all["rows"], &Value::from(rows.clone()), "{name}"),
        }
        for (to, verdict) in verdicts {
            let (answer, _) = document(&pod, &["explain", to]);
            assert_eq!(answer["verdict"], *verdict, "{name} {to}: {answer:#}");
            let is_expected = run(&pod, &["explain", "--expect", "captured", to]).code == Some(0);
            assert_eq!(is_expected, *verdict == "captured", "{name} {to}");
        }
        let is_captured = !families.is_empty();
        assert_eq!(status["capturing"], is_captured, "{about}");
        assert_eq!(status["families"], Value::from(families.to_vec()), "{about}");
        let text = run(&pod, &["status"]);
        assert_eq!(text.code, code, "{about}");
        assert_eq!(text.stdout.starts_with("Nothing is captured"), !is_captured, "{}", text.stdout);
        for one in codes(&status) {
            let words = text.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&one), "{name}: no {one} in {}", text.stdout);
        }
        let fails = codes(&status).iter().any(|one| one.starts_with("failure"));
        let expected = if fails {
            1
        } else if is_captured {
            0
        } else {
            3
        };
        assert_eq!(code, Some(expected), "{about}");
        let path = pod.path();
        let (outside, _) = document(&pod, &["status", "--network-namespace", &path]);
        assert_eq!(codes(&outside), codes(&status), "{name}");
        let plain = self::pod();
        let plain_path = plain.path();
        let (diff, _) =
            document(&pod, &["diff", "--network-namespace", &plain_path, "--network-namespace", &path]);
        let changes = diff["changes"].as_array().expect("a list");
        let is_new = |change: &Value| {
            change["new"]["verdict"] == "captured" && change["old"]["verdict"] == "not_captured"
        };
        assert!(changes.iter().any(is_new) || !is_captured, "{name}: {diff:#}");
        assert_eq!(changes.is_empty(), flags.is_empty() && others.is_empty(), "{name}: {diff:#}");
        // `diff` compares stored settings with the rules: other programs' rules may divert traffic that the settings capture.
        if !flags.is_empty() {
            let (diff, code) = document(&pod, &["diff"]);
            let changes = diff["changes"].as_array().expect("a list");
            assert_eq!(changes.is_empty(), others.is_empty(), "{name}: {diff:#}");
            assert_eq!(code, Some(if changes.is_empty() { 0 } else { 3 }), "{name}: {diff:#}");
            let from = |change: &Value| {
                change["new"]["verdict"] == "captured" && change["old"]["verdict"] != "captured"
            };
            assert_eq!(changes.iter().any(from), !others.is_empty(), "{name}: {diff:#}");
            let rendered = |words: &[&str]| run(&pod, words).with(0, name).stdout;
            let stored = rendered(&["render", "--network-namespace", &path]);
            assert_eq!(stored, rendered(&[&["render"], flags].concat()), "{name}");
        }
        let tried = run(&pod, &["verify"]);
        let has_rows = status["rows"].as_array().is_some_and(|rows| !rows.is_empty());
        assert_eq!(tried.code == Some(1), !has_rows, "{name}: {}{}", tried.stdout, tried.stderr);
    }
}
