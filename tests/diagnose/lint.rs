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
            let option = match &finding["option"] {
                Value::String(option) => format!("{option}: "),
                _ => String::new(),
            };
            (text(finding, "code"), format!("{option}{}", text(finding, "text")))
        })
        .collect()
}

#[test]
fn a_misspelt_annotation_is_named_with_what_was_meant() {
    let check = |name: &str, intended: &str| {
        let text = format!("the annotation {name} is not known and has no effect; did you mean {intended}?");
        let found = findings(&format!("{name}: \"5432\""), "{containers: [{name: web}]}");
        assert_eq!(found, [("SI027".to_owned(), text)]);
    };
    check("traffic.sidecar.istio.io/excludeOutboundPort", "traffic.sidecar.istio.io/excludeOutboundPorts");
    check("sidecar.istio.io/excludeInboundPorts", "traffic.sidecar.istio.io/excludeInboundPorts");
    check("config.linkerd.io/skip-outbound-port", "config.linkerd.io/skip-outbound-ports");
    check("traffic.kuma.io/exclude-outbound-port", "traffic.kuma.io/exclude-outbound-ports");
    // Whoever asks about a packet is warned too.
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

/// The rules can't tell its packets from the proxy's.
#[test]
fn a_container_that_runs_as_the_proxy_is_a_finding() {
    let check = |annotations: &str, spec: &str, expected: &[&str]| {
        let found = findings(annotations, spec);
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|text| {
                (
                    "SI028".to_owned(),
                    format!("{text}, which is the proxy's: what it sends bypasses the proxy"),
                )
            })
            .collect();
        assert_eq!(found, expected, "{spec}");
    };
    let proxy = "{name: istio-proxy, securityContext: {runAsUser: 1337, runAsGroup: 1337}}";
    let istio = |pod: &str, container: &str| {
        format!(
            "{{{pod}containers: [{proxy}, {{name: web, {container}}}], initContainers: [{{name: istio-init, args: [istio-iptables, -i, '*', -b, '*']}}]}}"
        )
    };
    let user = "runAsUser: container web runs as user 1337";
    let group = "runAsGroup: container web runs as group 1337";
    check("", &istio("", "securityContext: {runAsUser: 1000}"), &[]);
    check("", &istio("", "securityContext: {runAsUser: 1337}"), &[user]);
    check("", &istio("", "securityContext: {runAsUser: 1337, runAsGroup: 1337}"), &[user, group]);
    check("", &istio("", "securityContext: {runAsUser: 1000, runAsGroup: 1337}"), &[group]);
    let of_pod = "securityContext: {runAsUser: 1337, fsGroup: 1337}, ";
    check("", &istio(of_pod, "image: web"), &[&format!("{user}, by the pod's securityContext")]);
    check("", &istio(of_pod, "securityContext: {runAsUser: 1000}"), &[]);
    // A sidecar of the application's own runs all along; other init containers end before there is a proxy.
    let init = |more: &str| {
        format!(
            "{{containers: [{proxy}], initContainers: [{{name: web, securityContext: {{runAsUser: 1337}}{more}}}]}}"
        )
    };
    let injected = "sidecar.istio.io/status: '{}'";
    check(injected, &init(""), &[]);
    check(injected, &init(", restartPolicy: Always"), &[user]);
    // Nothing is captured that could pass by.
    let nothing = "traffic.sidecar.istio.io/includeOutboundIPRanges: '', sidecar.istio.io/status: '{}'";
    check(
        nothing,
        &format!("{{containers: [{proxy}, {{name: web, securityContext: {{runAsUser: 1337}}}}]}}"),
        &[],
    );
    // Another mesh has another user, and no group.
    let linkerd =
        |container: &str| format!("{{containers: [{{name: linkerd-proxy}}, {{name: web, {container}}}]}}");
    let user = "runAsUser: container web runs as user 2102";
    check(
        "linkerd.io/inject: enabled",
        &linkerd("securityContext: {runAsUser: 2102, runAsGroup: 2102}"),
        &[user],
    );
    check("linkerd.io/inject: enabled", &linkerd("securityContext: {runAsUser: 1337}"), &[]);
}

/// Both forms name the file and the line of the annotation, of the right document.
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
    let message = "Pod second: the annotation traffic.sidecar.istio.io/excludeOutboundPort is not known and has no effect; \
                   did you mean traffic.sidecar.istio.io/excludeOutboundPorts?";
    assert_eq!(printed("github"), format!("::warning file=two pods.yaml,line=16,title=SI027::{message}\n"));
    let log: Value = serde_json::from_str(&printed("sarif")).expect("JSON");
    assert_eq!(
        (&log["version"], &log["runs"][0]["tool"]["driver"]["name"]),
        (&"2.1.0".into(), &"sidecar-init".into())
    );
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().expect("a list");
    assert_eq!(rules.iter().map(|rule| &rule["id"]).collect::<Vec<_>>(), ["SI027"]);
    let help = rules[0]["help"]["text"].as_str().expect("a text");
    assert!(help.starts_with("An annotation of a mesh's domain is unknown"), "{help}");
    assert_eq!(
        log["runs"][0]["results"],
        serde_json::json!([{
            "ruleId": "SI027",
            "level": "warning",
            "message": { "text": message },
            "locations": [{ "physicalLocation": {
                "artifactLocation": { "uri": "two%20pods.yaml" },
                "region": { "startLine": 16 },
            } }],
        }])
    );
    let clean = stdout_of(&["lint", "--format", "sarif", "-f", "tests/support/pods/stock.yaml"]);
    let clean: Value = serde_json::from_str(&clean).expect("JSON");
    assert_eq!(clean["runs"][0]["results"], serde_json::json!([]));
    assert_eq!(stdout_of(&["lint", "--format", "github", "-f", "tests/support/pods/stock.yaml"]), "");
}
