//! `lint` as it is called: findings of flags and of manifests, what is a note, and that there is nothing to report.

use crate::support::folder::Folder;
use crate::support::program::{Run, bare, stdout_of};
use serde_json::Value;

/// What every pod of a mesh has is shown to those who ask for it.
#[test]
fn notes_are_left_out_of_text_and_data_unless_asked_for() {
    let clean = ["lint", "--deny", "--pod-ips", "10.44.0.7", "-i", "*", "-b", "*", "--drop-invalid"];
    let levels = |more: &[&str]| -> Vec<String> {
        let call = [&clean[..], &["--format=json"], more].concat();
        let findings: Value = serde_json::from_str(&stdout_of(&call)).expect("JSON");
        let findings = findings["findings"].as_array().expect("a list").clone();
        findings.iter().map(|finding| finding["level"].as_str().expect("a text").to_owned()).collect()
    };
    assert_eq!(stdout_of(&clean), "by the flags given:\nNo findings\n");
    assert_eq!(levels(&[]), Vec::<String>::new());
    assert_eq!(levels(&["--notes"]), ["note"]);
    let text = stdout_of(&[&clean[..], &["--notes"]].concat());
    assert!(text.starts_with("by the flags given:\nnote     SI015 --inbound-capture-port: "), "{text}");
}

/// Pods as Istio injects them by default: a sidecar, a native sidecar, and one whose rules a plugin sets.
#[test]
fn stock_pods_have_no_findings() {
    let text = stdout_of(&["lint", "--deny", "-f", "tests/support/pods/stock.yaml"]);
    let (titles, rest): (Vec<&str>, Vec<&str>) =
        text.lines().filter(|line| !line.is_empty()).partition(|line| line.starts_with("== "));
    assert_eq!((titles.len(), &rest[..]), (3, &["No findings"; 3][..]), "{text}");
}

/// Whoever asks about a packet is warned as well.
#[test]
fn a_misspelt_annotation_is_named_with_what_was_meant() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: \
               {traffic.sidecar.istio.io/excludeOutboundPort: '5432'}}\nspec: {containers: [{name: web}]}\n";
    let output = bare(&["explain", "-f", "-", "10.9.9.9:5432"]).write_stdin(pod).outcome();
    let text = &output.stderr;
    assert!(text.contains("did you mean traffic.sidecar.istio.io/excludeOutboundPorts?"), "{text}");
}

/// In a namespace of the same manifest.
#[test]
fn an_init_container_that_the_namespace_refuses_is_a_finding() {
    let check = |label: &str, container: &str, expected: bool| {
        let manifest = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, labels: {{{label}}}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop}}\n\
             spec: {{initContainers: [{container}], containers: [{{name: istio-proxy}}]}}\n"
        );
        let output = bare(&["lint", "-f", "-"]).write_stdin(manifest).outcome();
        let printed = output.stdout.replace("\n", " ");
        assert_eq!(printed.contains("SI029"), expected, "{label}: {printed}");
        if expected {
            assert!(printed.contains("refuses its init container istio-init"), "{printed}");
        }
    };
    let init =
        "{name: istio-init, args: [istio-iptables, -p, '15001', -z, '15006', -u, '1337', -i, '*', -b, '*']}";
    for standard in ["baseline", "restricted"] {
        check(&format!("pod-security.kubernetes.io/enforce: {standard}"), init, true);
        check(&format!("pod-security.kubernetes.io/warn: {standard}"), init, false);
        // One that validates needs no capability.
        let validation = init
            .replace("istio-init,", "istio-validation,")
            .replace("-p,", "--run-validation, --skip-rule-apply, -p,");
        check(&format!("pod-security.kubernetes.io/enforce: {standard}"), &validation, false);
    }
    check("pod-security.kubernetes.io/enforce: privileged", init, false);
}

/// Both forms name the file and the line of the annotation, of the right document. Their texts are in `crates/diagnose`.
#[test]
fn pull_requests_get_findings_beside_their_lines() {
    let pod = |name: &str, ports: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  annotations:\n    \
             traffic.sidecar.istio.io/{ports}: \"5432\"\nspec:\n  containers:\n  - name: app\n"
        )
    };
    let text =
        format!("{}---\n{}", pod("first", "excludeOutboundPorts"), pod("second", "excludeOutboundPort"));
    let folder = Folder::new("lint");
    folder.write("two pods.yaml", &text);
    let printed = |format: &str| {
        let mut call = bare(&["lint", "--format", format, "--deny", "-f", "two pods.yaml"]);
        call.current_dir(&*folder);
        call.outcome().with(1, "a warning is denied").stdout
    };
    let annotated = printed("github");
    let start = "::warning file=two pods.yaml,line=16,title=SI027::Pod second: the annotation ";
    assert!(annotated.starts_with(start) && annotated.lines().count() == 1, "{annotated}");
    let log: Value = serde_json::from_str(&printed("sarif")).expect("JSON");
    let location = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    let expected = serde_json::json!({
        "artifactLocation": { "uri": "two%20pods.yaml" },
        "region": { "startLine": 16 },
    });
    assert_eq!(*location, expected);
    assert_eq!(stdout_of(&["lint", "--format", "github", "-f", "tests/support/pods/stock.yaml"]), "");
}
