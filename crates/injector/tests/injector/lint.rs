//! `lint`: what it prints, and how it exits.

use crate::PROGRAM;
use testkit::{command_line::Ended, folder::Folder};

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata:
      labels: {app: web}
      annotations:
        traffic.sidecar.istio.io/excludeInboundPorts: '8080'
    spec:
      containers:
      - {name: web, readinessProbe: {httpGet: {port: 8080}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 8080}]}
";

fn lint(words: &[&str], input: &str) -> Ended {
    PROGRAM.run_with(&[&["lint"], words].concat(), input)
}

fn check(words: &[&str], code: i32, expected: &[&str], absent: &[&str]) {
    let text = lint(words, WEB).with(code).shown();
    for part in expected {
        assert!(text.contains(part), "{words:?}: {part} in {text}");
    }
    for part in absent {
        assert!(!text.contains(part), "{words:?}: no {part} in {text}");
    }
}

#[test]
fn flags_select_findings_and_the_exit_code() {
    let warning = "warning  SI033 traffic.sidecar.istio.io/excludeInboundPorts: excludes it";
    let both = "Deployment shop/web and 1 more\n";
    let rest = "not judged: which pods are to be injected";
    check(&["-f", "-"], 0, &[warning, both, rest, "1 finding in 0 pods and 1 workload\n"], &["SI032"]);
    check(&["-f", "-", "--deny"], 1, &[warning], &[]);
    check(&["-f", "-", "--deny", "--allow", "si033"], 0, &["No findings in 0 pods"], &["SI033"]);
    check(&["-f", "-", "--notes", "--allow", "SI033", "--deny"], 0, &["note     SI032"], &["SI033"]);
    check(&["-f", "-", "--allow", "SI999"], 2, &["expected a code of docs/lint.md, such as SI033"], &[]);
    check(&["-f", "-", "-o", "xml"], 2, &["is not text, json or sarif"], &[]);
    check(&["-f", "/nonexistent"], 2, &["can't be read"], &[]);
}

#[test]
fn what_is_not_a_set_of_objects_is_refused_with_all_problems() {
    let folder = Folder::new("lint-input");
    let (bad, odd) = (folder.write("bad.yaml", "a: ["), folder.write("odd.yaml", "\na: 1\n"));
    let empty = folder.write("empty.yaml", "# nothing\n");
    let words = ["-f", &bad, "-f", &odd, "-f", &empty, "--namespace-labels", "x"];
    let expected = [
        "4 problems",
        "is not YAML or JSON",
        "line 2 that is not an object: it has no kind",
        "holds no object",
        "is not a label",
    ];
    check(&words, 2, &expected, &[]);
}

/// The labels of flags count as those of Namespaces do.
#[test]
fn namespaces_are_known_by_flags() {
    let other = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\n\
                 metadata: {name: other}\nwebhooks: []\n";
    let input = format!("{WEB}---\n{other}");
    let output = lint(&["-f", "-", "--namespace-labels", "istio-injection=enabled"], &input);
    let text = output.stdout;
    assert!(text.contains("SI031 istio-injection: the namespace asks for injection"), "{text}");
}

#[test]
fn programs_get_objects_with_their_files_and_lines() {
    let folder = Folder::new("lint-formats");
    let file = folder.write("web.yaml", WEB);
    let read = |words: &[&str], input: &str| lint(words, input).json();
    let report = read(&["-f", &file, "-o", "json"], "");
    assert_eq!((&report["version"], &report["workload_count"]), (&1.into(), &1.into()));
    let objects = &report["findings"][0]["objects"];
    assert_eq!((&objects[0]["object"], &objects[1]["line"]), (&"Deployment shop/web".into(), &14.into()));
    assert_eq!(objects[0]["file"], file.as_str());
    let log = read(&["-f", &file, "--output", "sarif"], "");
    let place = &log["runs"][0]["results"][1]["locations"][0]["physicalLocation"];
    assert!(place["artifactLocation"]["uri"].as_str().is_some_and(|uri| uri.ends_with("/web.yaml")));
    assert_eq!(place["region"]["startLine"], 14);
    // Standard input has no lines to show a finding at.
    let log = read(&["-f", "-", "-o", "sarif"], WEB);
    let location = &log["runs"][0]["results"][0]["locations"][0];
    assert_eq!(location["logicalLocations"][0]["fullyQualifiedName"], "Deployment shop/web");
    assert_eq!(location.get("physicalLocation"), None);
}
