//! Lint of a cluster, by the cases of `tests/cluster_lint`: a heading, the findings and what is not judged as comments, and the
//! objects. A comment `says: ` has the option, the text and the remedy of a finding.

use diagnose::plain;
use injection::Namespaces;
use injection::cluster_lint::{
    ClusterFinding, ClusterFindings, ClusterObject, ClusterQuestion, RESOURCES, config_maps, lint_cluster,
    report, sarif, text,
};
use mesh::finding::{Code, Finding, Level};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster_lint");

/// The first code of lint of a cluster.
const FIRST: Code = Code::NotInjected;

struct LintCase {
    file: String,
    title: String,
    expected: BTreeSet<String>,
    not_judged: Vec<String>,
    says: Vec<String>,
    objects: String,
}

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(CASES).join(file)).expect("a file of cases")
}

fn cases() -> Vec<LintCase> {
    let entries = fs::read_dir(CASES).expect("the folder of cases");
    let mut files: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files.into_iter().filter(|file| file != "base.yaml") {
        for case in read(&file).split("#### ").skip(1) {
            let (title, rest) = case.split_once('\n').expect("objects behind the heading");
            let comments: Vec<&str> = rest.lines().filter_map(|line| line.strip_prefix("# ")).collect();
            let of = |prefix: &str| -> Vec<String> {
                comments.iter().filter_map(|line| line.strip_prefix(prefix).map(str::to_owned)).collect()
            };
            found.push(LintCase {
                file: file.clone(),
                title: title.to_owned(),
                expected: comments
                    .iter()
                    .filter(|line| !["not ", "says: "].iter().any(|other| line.starts_with(other)))
                    .map(ToString::to_string)
                    .collect(),
                not_judged: of("not judged: "),
                says: of("says: "),
                objects: match title.starts_with("alone") {
                    true => rest.to_owned(),
                    false => format!("{}---\n{rest}", read("base.yaml")),
                },
            });
        }
    }
    found
}

fn objects(text: &str) -> Vec<ClusterObject> {
    ClusterObject::in_file("input.yaml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn lint(objects: &[ClusterObject]) -> ClusterFindings {
    let namespaces = Namespaces::new("default", None, BTreeMap::new());
    lint_cluster(&ClusterQuestion { objects, namespaces, is_whole: false })
}

fn shown(found: &ClusterFinding) -> String {
    let level = match found.finding.level {
        Level::Warning => "warning",
        Level::Note => "note",
    };
    let objects: Vec<String> =
        found.objects.iter().map(|object| format!("{} ({})", object.name, object.pods)).collect();
    format!("{level} {} {}", found.finding.code, objects.join(", "))
}

/// What a finding says, in one line.
fn told(found: &ClusterFinding) -> String {
    let Finding { code, option, text, remedy, .. } = &found.finding;
    [format!("{code} {option}"), text.clone(), format!("-> {remedy}")].join(" | ")
}

/// Notes about the limits of every mesh's rules are tested where they are made.
fn counts(found: &&ClusterFinding) -> bool {
    found.finding.level == Level::Warning || found.finding.code >= FIRST
}

#[test]
fn cases_have_their_findings() {
    let mut failures = Vec::new();
    for case in cases() {
        let found = lint(&objects(&case.objects));
        let all: BTreeSet<String> = found.findings.iter().filter(counts).map(shown).collect();
        let is_judged = found.not_judged.len() == case.not_judged.len()
            && case
                .not_judged
                .iter()
                .all(|part| found.not_judged.iter().any(|sentence| sentence.contains(part)));
        assert_eq!(
            found.has_warning(),
            all.iter().any(|line| line.starts_with("warning")),
            "{}",
            case.objects
        );
        let told: Vec<String> = found.findings.iter().map(told).collect();
        if all != case.expected || !is_judged || !case.says.iter().all(|line| told.contains(line)) {
            failures.push(format!(
                "{}: {}\nexpected {:#?} {:#?}\nfound {told:#?}\n{}",
                case.file,
                case.title,
                case.expected,
                case.says,
                plain(&text(&found, 120))
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_code_has_a_case_with_it_and_one_without() {
    let cases = cases();
    for code in Code::ALL.iter().filter(|code| **code >= FIRST) {
        let file = format!("{}.yaml", code.name().to_lowercase());
        let of_code: Vec<bool> = (cases.iter().filter(|case| case.file == file))
            .map(|case| case.expected.iter().any(|line| line.contains(code.name())))
            .collect();
        assert!(of_code.contains(&true) && of_code.contains(&false), "{code}: {of_code:?}");
    }
}

/// What `kubectl get -o json` prints is judged as manifests are, and has no files.
#[test]
fn lists_of_a_cluster_are_unpacked() {
    let pod =
        json!({"metadata": {"name": "a", "namespace": "shop"}, "spec": {"containers": [{"name": "web"}]}});
    let list = json!({"apiVersion": "v1", "kind": "PodList", "items": [pod]});
    let unpacked = ClusterObject::unpacked(list);
    assert_eq!((&unpacked[0].value["kind"], &unpacked[0].value["apiVersion"]), (&json!("Pod"), &json!("v1")));
    assert_eq!(ClusterObject::unpacked(json!([])), []);
    let base = objects(&read("base.yaml")).into_iter().map(|object| ClusterObject { place: None, ..object });
    let all: Vec<ClusterObject> = base.chain(unpacked).collect();
    let found = lint(&all);
    assert_eq!(
        found.findings.iter().filter(counts).map(shown).collect::<Vec<_>>(),
        ["warning SI030 Pod shop/a (1)"]
    );
    assert_eq!(report(&found).findings[0].objects[0].file, None);
    assert!(RESOURCES.iter().any(|needed| needed.name == "pods" && needed.is_namespaced));
    let maps = config_maps(&all).into_iter().map(|(namespace, name)| format!("{namespace}/{name}"));
    let expected = ["istio-system/istio-sidecar-injector", "istio-system/istiod"];
    assert_eq!(maps.collect::<Vec<_>>(), expected);
}

/// Where all of a cluster is there, what is absent does not exist.
#[test]
fn a_whole_cluster_without_an_injector_is_judged() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio-injection: enabled}}\n---\n\
                {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}, spec: {containers: [{name: web}]}}\n";
    let objects = objects(text);
    let namespaces = Namespaces::new("default", None, BTreeMap::new());
    let found = lint_cluster(&ClusterQuestion { objects: &objects, namespaces, is_whole: true });
    assert_eq!(found.findings.iter().map(shown).collect::<Vec<_>>(), ["warning SI031 Pod shop/a (1)"]);
    assert_eq!(found.not_judged, Vec::<String>::new());
}

#[test]
fn texts_are_grouped_worst_first_in_lines_that_fit() {
    let pod = |number: usize| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: web-{number:02}, namespace: shop}}\nspec: {{containers: [{{name: web}}]}}\n"
        )
    };
    let pods: String = (0..12).map(pod).collect();
    let annotated = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: zzz, namespace: shop, annotations: {traffic.sidecar.istio.io/excludeOutboundPort: '80'}}\n\
                     spec: {containers: [{name: web}]}\n";
    let found = lint(&objects(&format!("{}{pods}{annotated}", read("base.yaml"))));
    let selected = |notes: bool, allowed: &[Code]| {
        let mut selected = found.clone();
        selected.select(notes, allowed);
        selected
    };
    let all = selected(true, &[]);
    assert!(all == found && all.findings.iter().any(|one| one.finding.level == Level::Note));
    let codes =
        |of: ClusterFindings| of.findings.iter().map(|one| one.finding.code.name()).collect::<Vec<_>>();
    assert_eq!(codes(selected(false, &[FIRST])), ["SI027"]);
    let warnings = selected(false, &[]);
    let expected = "\
warning  SI030 runs without a sidecar, though webhook namespace of
               istio-sidecar-injector would inject it now: it was created before
               the labels or the webhook, or while the injector did not answer
               -> restart the workload (kubectl rollout restart), or create the
                  pod again
               Pod shop/web-00 and 12 more (13 pods)
warning  SI027 the annotation traffic.sidecar.istio.io/excludeOutboundPort is
               not known and has no effect; did you mean
               traffic.sidecar.istio.io/excludeOutboundPorts?
               Pod shop/zzz
2 findings in 13 pods and 0 workloads
";
    assert_eq!(plain(&text(&warnings, 80)), expected);
}

#[test]
fn names_move_no_cursor_and_begin_no_line() {
    let pod = "---\n{apiVersion: v1, kind: Pod, metadata: {name: \"a\\e[2J\\n::error::b\", namespace: shop}, \
               spec: {containers: [{name: web}]}}\n";
    let shown = text(&lint(&objects(&format!("{}{pod}", read("base.yaml")))), 200);
    assert!(shown.contains("Pod shop/a\\u{1b}[2J\\n::error::b"), "{shown}");
    assert!(!shown.contains("\u{1b}[2J"), "{shown}");
}

/// What GitHub requires of a log (its documentation, "SARIF support for code scanning").
fn check_sarif(log: &Value) {
    let text = |value: &Value, what: &str| {
        assert!(value.as_str().is_some_and(|text| !text.is_empty()), "{what}: {log:#}");
    };
    assert_eq!((&log["version"], &log["runs"].as_array().map(Vec::len)), (&json!("2.1.0"), &Some(1)));
    text(&log["$schema"], "$schema");
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    text(&driver["name"], "driver.name");
    let rules = driver["rules"].as_array().expect("rules");
    for rule in rules {
        text(&rule["id"], "rule.id");
        for field in ["shortDescription", "fullDescription", "help"] {
            text(&rule[field]["text"], field);
        }
    }
    let results = run["results"].as_array().expect("results");
    assert!(!results.is_empty());
    let mut fingerprints = BTreeSet::new();
    for result in results {
        text(&result["message"]["text"], "message");
        assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]), "{result}");
        assert!(["note", "warning"].iter().any(|level| result["level"] == *level), "{result}");
        let location = &result["locations"][0]["physicalLocation"];
        text(&location["artifactLocation"]["uri"], "uri");
        assert!(location["region"]["startLine"].as_u64().is_some_and(|line| line > 0), "{result}");
        let prints = result["partialFingerprints"].as_object().expect("fingerprints");
        assert!(
            prints.values().all(|print| fingerprints.insert(print.to_string())),
            "one for each result: {result}"
        );
    }
}

/// The results of a log: code, line and fingerprint of each.
fn results(log: &str) -> Vec<(String, u64, String)> {
    let log: Value = serde_json::from_str(log).expect("JSON");
    check_sarif(&log);
    let own = |result: &Value| {
        let line = result["locations"][0]["physicalLocation"]["region"]["startLine"].as_u64();
        let print =
            result["partialFingerprints"].as_object().and_then(|prints| prints.values().next().cloned());
        let print = print.and_then(|print| print.as_str().map(str::to_owned));
        (
            result["ruleId"].as_str().unwrap_or_default().to_owned(),
            line.unwrap_or(0),
            print.unwrap_or_default(),
        )
    };
    log["runs"][0]["results"].as_array().expect("results").iter().map(own).collect()
}

#[test]
fn sarif_has_lines_and_fingerprints_that_stay_while_lines_move() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\n  annotations:\n    \
               traffic.sidecar.istio.io/excludeOutboundPort: '80'\nspec: {containers: [{name: web}]}\n";
    let base = read("base.yaml");
    let log = |between: &str| {
        let found = lint(&objects(&format!("{base}---\n{between}{pod}")));
        let findings = found.findings.iter().filter(counts).cloned().collect();
        results(&sarif(&ClusterFindings { findings, ..found }, "1.2.3"))
    };
    let (first, moved) = (log(""), log("# one\n# two\n"));
    let begins = base.lines().count() as u64 + 2;
    let places: Vec<(&str, u64)> = first.iter().map(|(code, line, _)| (&**code, *line)).collect();
    assert_eq!(places, [("SI027", begins + 6), ("SI030", begins)]);
    for ((code, line, print), (_, after, same)) in first.iter().zip(&moved) {
        assert_eq!((line + 2, print), (*after, same), "{code}");
    }
}

#[test]
fn a_file_that_holds_no_objects_is_refused() {
    let expected = "expected manifests, or what kubectl get -o yaml prints";
    for (text, problem) in [
        ("", format!("input.yaml: holds no object; {expected}")),
        ("---\n# nothing\n", format!("input.yaml: holds no object; {expected}")),
        (
            "kind: Pod\n---\n- a\n",
            format!("input.yaml: has something at line 3 that is not an object: it has no kind; {expected}"),
        ),
        (
            "a: 1\n",
            format!("input.yaml: has something at line 1 that is not an object: it has no kind; {expected}"),
        ),
    ] {
        let refused = ClusterObject::in_file("input.yaml", text).expect_err(text);
        assert_eq!(refused.0.iter().map(ToString::to_string).collect::<Vec<_>>(), [problem], "{text:?}");
    }
}

#[test]
fn an_object_has_the_lines_up_to_the_next_one() {
    let text = "# first\nkind: Pod\n---\n\nkind: List\nitems:\n- kind: A\n  a: 1\n- kind: B\n---\n# nothing\n---\nkind: C\n";
    let found = objects(text);
    let places = found.iter().map(|object| {
        let place = object.place.as_ref().expect("a file");
        (object.value["kind"].as_str().expect("a kind"), place.line, &*place.text)
    });
    let places: Vec<(&str, usize, &str)> = places.collect();
    let expected = [
        ("Pod", 2, "kind: Pod\n---\n\nkind: List\nitems:\n"),
        ("A", 7, "- kind: A\n  a: 1\n"),
        ("B", 9, "- kind: B\n"),
        ("C", 13, "kind: C\n"),
    ];
    assert_eq!(places, expected);
}

#[test]
fn what_kubectl_prints_is_unpacked_by_its_kind() {
    for (printed, expected) in [
        (json!({"kind": "Pod", "a": 1}), vec![json!({"kind": "Pod", "a": 1})]),
        (
            json!({"kind": "List", "apiVersion": "v1", "items": [{"kind": "A"}, {}]}),
            vec![json!({"kind": "A"}), json!({})],
        ),
        (
            json!({"kind": "PodList", "apiVersion": "v1", "items": [{"kind": "A", "apiVersion": "v2"}, {}]}),
            vec![json!({"kind": "A", "apiVersion": "v2"}), json!({"kind": "Pod", "apiVersion": "v1"})],
        ),
        (json!({"kind": "PodList", "items": [{}]}), vec![json!({"kind": "Pod"})]),
        (json!({"kind": "PodList"}), vec![]),
        (json!("Pod"), vec![]),
    ] {
        let found = ClusterObject::unpacked(printed.clone()).into_iter();
        assert_eq!(found.map(|object| object.value).collect::<Vec<_>>(), expected, "{printed}");
    }
}

#[test]
fn a_sentence_about_findings_counts_them_and_their_objects() {
    let two = "---\n{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: shop}, spec: {containers: [{name: web}]}}\n";
    let deployment = "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: plain}, spec: {template: {spec: {containers: [{name: web}]}}}}\n";
    let owned = "---\n{apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, controller: true}]}, spec: {containers: [{name: db}]}}\n";
    let last_lines = |text_of: &str| {
        let mut found = lint(&objects(&format!("{}{text_of}", read("base.yaml"))));
        assert_eq!(found.has_warning(), !text_of.is_empty() && text_of != deployment, "{text_of}");
        found.select(false, &[]);
        let shown = plain(&text(&found, 200));
        let lines: Vec<String> = shown.lines().rev().take(2).map(|line| line.trim().to_owned()).collect();
        lines
    };
    assert_eq!(last_lines(""), ["No findings in 0 pods and 0 workloads"]);
    assert_eq!(last_lines(deployment), ["No findings in 0 pods and 1 workload"]);
    assert_eq!(last_lines(two), ["1 finding in 1 pod and 0 workloads", "Pod shop/b"]);
    assert_eq!(last_lines(owned), ["1 finding in 1 pod and 0 workloads", "StatefulSet shop/db (1 pod)"]);
    assert_eq!(
        last_lines(&format!("{owned}{two}")),
        ["1 finding in 2 pods and 0 workloads", "Pod shop/b and 1 more (2 pods)"]
    );
}

#[test]
fn the_worst_comes_first() {
    let pod = |name: &str, meta: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop, {meta}}}, spec: {{containers: [{{name: web}}]}}}}\n"
        )
    };
    let webhook = "---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\n\
                   metadata: {name: bare, uid: '2'}\nwebhooks: [{name: a.example, clientConfig: {service: {name: istiod, \
                   namespace: istio-system}}, rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]}]\n";
    let deployment = |name: &str| {
        format!(
            "---\n{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: {name}, namespace: shop}}, spec: {{template: \
             {{metadata: {{annotations: {{sidecar.istio.io/interceptionMode: HALF}}}}, spec: {{containers: [{{name: web}}]}}}}}}}}\n"
        )
    };
    let text = [
        read("base.yaml"),
        webhook.to_owned(),
        pod(
            "c",
            "annotations: {traffic.sidecar.istio.io/excludeOutboundPort: '80', sidecar.istio.io/status: '{}'}",
        ),
        pod("d", ""),
        pod("e", ""),
        deployment("f"),
        deployment("g"),
        deployment("h"),
        deployment("i").replace("HALF", "FULL"),
        deployment("j").replace("HALF", "FULL"),
    ];
    let found = lint(&objects(&text.concat()));
    let shown: Vec<String> = found.findings.iter().map(shown).collect();
    // Webhooks concern every pod; then by pods, and by objects; notes at the end.
    let expected = [
        "warning SI037 MutatingWebhookConfiguration bare (0)",
        "warning SI030 Pod shop/d (1), Pod shop/e (1)",
        "warning SI027 Pod shop/c (1)",
        "warning SI038 Deployment shop/f (0), Deployment shop/g (0), Deployment shop/h (0)",
        "warning SI038 Deployment shop/i (0), Deployment shop/j (0)",
        "note SI013 Pod shop/c (1), Pod shop/d (1), Pod shop/e (1)",
        "note SI015 Pod shop/c (1), Pod shop/d (1), Pod shop/e (1)",
    ];
    assert_eq!(shown, expected);
    let counts = found.findings.iter().map(ClusterFinding::pods).collect::<Vec<_>>();
    assert_eq!(counts, [0, 2, 1, 0, 0, 3, 3]);
}

#[test]
fn a_report_has_the_findings_with_their_places() {
    let text = "---\n{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}, spec: {containers: [{name: web}]}}\n\
                ---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: f, namespace: shop}, spec: {template: {metadata: \
                {annotations: {sidecar.istio.io/interceptionMode: HALF}}, spec: {containers: [{name: web}]}}}}\n";
    let mut found = lint(&objects(&format!("{}{text}", read("base.yaml"))));
    found.select(false, &[]);
    let not_injected = "runs without a sidecar, though webhook namespace of istio-sidecar-injector would inject it now: it was \
                        created before the labels or the webhook, or while the injector did not answer";
    let expected = json!({
        "version": 1, "pod_count": 1, "workload_count": 1, "not_judged": [],
        "findings": [
            {
                "code": "SI030", "level": "warning", "option": null, "text": not_injected,
                "remedy": "restart the workload (kubectl rollout restart), or create the pod again",
                "objects": [{"object": "Pod shop/a", "pod_count": 1, "file": "input.yaml", "line": 43}],
            },
            {
                "code": "SI038", "level": "warning", "option": "sidecar.istio.io/interceptionMode",
                "text": "\"HALF\" is not an interception mode; expected REDIRECT, TPROXY or NONE", "remedy": null,
                "objects": [{"object": "Deployment shop/f", "pod_count": 0, "file": "input.yaml", "line": 45}],
            },
        ],
    });
    assert_eq!(serde_json::to_value(report(&found)).expect("JSON"), expected);
}
