//! `lint` as it is called: findings of flags and of manifests, what is a note, and that there is nothing to report.

use crate::support::folder::Folder;
use crate::support::program::{Run, bare, stdout_of};
use serde_json::Value;

#[test]
fn lint_names_option_and_remedy_and_can_deny() {
    let odd =
        ["lint", "--pod-ips", "10.44.0.7", "-i", "10.0.0.0/8", "-x", "10.0.0.0/8", "-b", "80", "-d", "90"];
    let text = stdout_of(&odd);
    for part in ["--istio-local-exclude-ports: has no effect", "is never reached", "-> "] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    bare(&[&odd[..], &["--deny"]].concat()).outcome().with(1, "it must fail");
}

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

/// The findings of a pod with these annotations and this spec, as code and text.
fn findings(annotations: &str, spec: &str) -> Vec<(String, String)> {
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop, annotations: {{{annotations}}}}}\nspec: {spec}\n"
    );
    let call = ["lint", "--format", "json", "-f", "-"];
    let output = bare(&call).write_stdin(pod).outcome().success();
    let findings: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let findings = findings["findings"].as_array().expect("a list").clone();
    findings
        .iter()
        .map(|finding| {
            let option = match &finding["subject"] {
                Value::String(option) => format!("{option}: "),
                _ => String::new(),
            };
            (text(finding, "code"), format!("{option}{}", text(finding, "text")))
        })
        .collect()
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

/// The rules can't tell its packets from the proxy's. Other containers are in the answers of `crates/diagnose`.
#[test]
fn a_container_that_runs_as_the_proxy_is_a_finding() {
    let check = |annotations: &str, proxy: &str, container: &str, expected: &[&str]| {
        let spec =
            format!("{{containers: [{{name: {proxy}}}, {{name: web, securityContext: {{{container}}}}}]}}");
        let texts = expected
            .iter()
            .map(|text| format!("{text}, which is the proxy's: what it sends bypasses the proxy"));
        let expected: Vec<_> = texts.map(|text| ("SI028".to_owned(), text)).collect();
        assert_eq!(findings(annotations, &spec), expected, "{spec}");
    };
    let istio = "sidecar.istio.io/status: '{}'";
    let both = "runAsUser: 1337, runAsGroup: 1337";
    let [user, group] = ["user", "group"].map(|noun| format!("container web runs as {noun} 1337"));
    let expected = [format!("runAsUser: {user}"), format!("runAsGroup: {group}")];
    check(istio, "istio-proxy", both, &expected.each_ref().map(String::as_str));
    check(istio, "istio-proxy", "runAsUser: 1000", &[]);
    // Nothing is captured that could pass by.
    let nothing = "traffic.sidecar.istio.io/includeOutboundIPRanges: '', sidecar.istio.io/status: '{}'";
    check(nothing, "istio-proxy", "runAsUser: 1337", &[]);
    // Another mesh has another user, and no group.
    let linkerd = "linkerd.io/inject: enabled";
    let user = "runAsUser: container web runs as user 2102";
    check(linkerd, "linkerd-proxy", "runAsUser: 2102, runAsGroup: 2102", &[user]);
    check(linkerd, "linkerd-proxy", "runAsUser: 1337", &[]);
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
