//! `diff`: the packets whose verdict two configurations change, for people, programs and pipelines.

use crate::support::folder::Folder;
use crate::support::program::{Outcome, Run, bare};
use serde_json::Value;

fn pod(name: &str, ports: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  annotations:\n    \
         sidecar.istio.io/status: '{{}}'\n    traffic.sidecar.istio.io/excludeOutboundPorts: '{ports}'\n\
         spec:\n  initContainers:\n  - name: istio-init\n    image: proxyv2\n    args: [istio-iptables, -p, '15001', -i, '*', \
         -b, '*', -o, '{ports}']\n  containers:\n  - {{name: web}}\n  - {{name: istio-proxy, image: proxyv2}}\n"
    )
}

/// Files in the folder by their names.
fn diff(files: &[(&str, String)], arguments: &[&str], code: i32) -> String {
    called(files, arguments).with(code, "the exit code says whether a verdict changes").stdout
}

fn called(files: &[(&str, String)], arguments: &[&str]) -> Outcome {
    let folder = Folder::new("diff");
    for (name, text) in files {
        folder.write(name, text);
    }
    let mut call = bare(&[&["diff"], arguments].concat());
    call.current_dir(&*folder).outcome()
}

#[test]
fn two_manifests_are_compared_by_their_packets() {
    let files = [("old.yaml", pod("web", "")), ("new.yaml", pod("web", "5432"))];
    let text = diff(&files, &["-f", "old.yaml", "-f", "new.yaml"], 3);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "from Pod web of old.yaml to Pod web of new.yaml:");
    assert_eq!(lines[1], "outbound TCP to port 5432: captured -> not captured");
    assert!(
        lines[2].starts_with("  before captured: goes to the proxy's outbound port 15001, because "),
        "{text}"
    );
    assert!(
        lines[3].starts_with("  after  not captured: goes to an address outside:5432 as it was sent"),
        "{text}"
    );
    assert_eq!(
        diff(&files, &["-f", "old.yaml", "-f", "old.yaml"], 0),
        "from Pod web of old.yaml to Pod web of old.yaml:\nNo verdict changes.\n"
    );
}

#[test]
fn flags_are_compared_with_the_manifest_that_they_change() {
    let of_file = diff(&[("pod.yaml", pod("web", ""))], &["-f", "pod.yaml", "-o", "5432"], 3);
    let mut call = bare(&["diff", "-f", "-", "-o", "5432"]);
    let of_input = call.write_stdin(pod("web", "")).outcome().with(3, "a verdict changes").stdout;
    for (text, name) in [(of_file, "pod.yaml"), (of_input, "standard input")] {
        let first = format!("from Pod web of {name} to Pod web of {name} with the flags:\n");
        assert!(text.starts_with(&first), "{text}");
        assert!(text.contains("\noutbound TCP to port 5432: captured -> not captured\n"), "{text}");
    }
}

#[test]
fn a_mesh_that_is_named_is_compared_with_the_manifests_own() {
    let files = [("pod.yaml", pod("web", ""))];
    let text = diff(&files, &["-f", "pod.yaml", "--mesh", "kuma"], 3);
    assert!(text.starts_with("from Pod web of pod.yaml to Pod web of pod.yaml with the flags:\n"), "{text}");
    assert!(!text.contains("No verdict changes"), "{text}");
    let text = diff(&files, &["-f", "pod.yaml", "--mesh", "istio"], 0);
    assert!(text.ends_with("\nNo verdict changes.\n"), "{text}");
}

#[test]
fn pods_are_matched_by_their_names() {
    let two = |first: &str, second: &str| format!("{}---\n{}", pod("a", first), pod("b", second));
    let three = format!("{}---\n{}", two("", "80"), pod("c", ""));
    let files = [
        ("old.yaml", two("80", "")),
        ("same.yaml", format!("{}---\n{}", pod("b", ""), pod("a", "80"))),
        ("new.yaml", three),
    ];
    diff(&files, &["-f", "old.yaml", "-f", "same.yaml"], 0);
    let text = diff(&files, &["-f", "old.yaml", "-f", "new.yaml"], 3);
    for part in [
        "== Pod a\nfrom Pod a of old.yaml to Pod a of new.yaml:\noutbound TCP to port 80: not captured -> captured\n",
        "== Pod b\nfrom Pod b of old.yaml to Pod b of new.yaml:\noutbound TCP to port 80: captured -> not captured\n",
        "== Pod c\nonly Pod c of new.yaml\n",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn programs_get_the_packets_as_data() {
    let files = [("old.yaml", pod("web", "")), ("new.yaml", pod("web", "5432,8000-8010"))];
    let text = diff(&files, &["-f", "old.yaml", "-f", "new.yaml", "--format", "json"], 3);
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let change = &answer["changes"][0];
    assert_eq!((&answer["complete"], &answer["from"]), (&true.into(), &"Pod web of old.yaml".into()));
    assert_eq!(change["traffic"]["ports"]["values"], serde_json::json!(["5432", "8000-8010"]));
    assert_eq!(change["traffic"]["direction"], "outbound");
    assert_eq!((&change["old"]["verdict"], &change["old"]["port"]), (&"captured".into(), &15001.into()));
    assert_eq!((&change["new"]["verdict"], &change["new"]["port"]), (&"not_captured".into(), &Value::Null));
}

#[test]
fn two_listings_are_compared_by_their_packets() {
    let listing = |rules: &str| format!("*nat\n:OUTPUT ACCEPT [0:0]\n{rules}COMMIT\n");
    let files = [
        ("old.txt", listing("-A OUTPUT -p tcp -j REDIRECT --to-ports 15001\n")),
        (
            "new.txt",
            listing(
                "-A OUTPUT -d 10.0.0.0/8 -p tcp -j ACCEPT\n-A OUTPUT -p tcp -j REDIRECT --to-ports 15001\n",
            ),
        ),
    ];
    let text = diff(&files, &["--from-save", "old.txt", "--from-save", "new.txt"], 3);
    let expected = "from the rules of old.txt to the rules of new.txt:\noutbound TCP to 10.0.0.0/8: captured -> not captured\n";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(
        diff(&files, &["--from-save", "old.txt", "--from-save", "old.txt"], 0),
        "from the rules of old.txt to the rules of old.txt:\nNo verdict changes.\n"
    );
    let refused = called(&files, &["--from-save", "old.txt", "--from-save", "new.txt", "-o", "80"]);
    let refused = refused.with(2, "flags describe a third configuration").stderr;
    assert!(refused.contains("--from-save: is compared with one other"), "{refused}");
}

#[test]
fn what_is_not_two_configurations_is_refused() {
    let check = |arguments: &[&str], expected: &str| {
        let files = [("pod.yaml", pod("web", "")), ("bad.yaml", pod("web", "x"))];
        let refused = called(&files, arguments).with(2, "it is refused");
        assert!(refused.stderr.contains(expected), "{arguments:?}: {}", refused.stderr);
    };
    check(&["-f", "-", "-f", "-"], "--filename: is - twice");
    check(&["-f", "pod.yaml", "-f", "pod.yaml", "-f", "pod.yaml"], "--filename: is given 3 times");
    check(&["-f", "pod.yaml", "-f", "bad.yaml"], "\"x\" is not a port");
    check(&["-f", "pod.yaml", "-f", "none.yaml"], "none.yaml");
}
