//! Lints each case of `tests/cluster_lint.txt`, which has a section for each code: a heading, comments with the findings and the
//! unknown verdicts, and the objects. A comment `says: ` has a finding's option, text and remedy. `UPDATE_GOLDENS=1` writes the
//! reports in `cluster_lint_reports.txt`.

use diagnose::finding::FindingReport;
use diagnose::plain;
use injection::Namespaces;
use injection::cluster_lint::{
    ClusterItem, ClusterLintReport, ClusterQuestion, RESOURCES, config_maps, lint_cluster, objects_of_file,
    sarif, text,
};
use mesh::pod::KubernetesObject;
use rules::finding::{Code, Level};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const FIRST: Code = Code::NotInjected;

struct LintCase {
    section: String,
    title: String,
    expected: BTreeSet<String>,
    not_judged: Vec<String>,
    says: Vec<String>,
    objects: String,
}

fn sections() -> Vec<(String, String)> {
    testkit::sections::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster_lint.txt"))
}

/// The objects of all cases that are not `alone`.
fn base() -> String {
    sections().into_iter().find(|(name, _)| name == "base").expect("the section").1
}

fn cases() -> Vec<LintCase> {
    let base = base();
    let mut found = Vec::new();
    for (section, text) in sections().into_iter().filter(|(name, _)| name != "base") {
        for case in text.split("#### ").skip(1) {
            let (title, rest) = case.split_once('\n').expect("objects after the heading");
            let comments: Vec<&str> = rest.lines().filter_map(|line| line.strip_prefix("# ")).collect();
            let is_finding = |line: &str| !["not ", "says: "].iter().any(|other| line.starts_with(other));
            let of = |prefix: &str| -> Vec<String> {
                comments.iter().filter_map(|line| line.strip_prefix(prefix).map(str::to_owned)).collect()
            };
            found.push(LintCase {
                section: section.clone(),
                title: title.to_owned(),
                expected: comments.iter().filter(|line| is_finding(line)).map(ToString::to_string).collect(),
                not_judged: of("not judged: "),
                says: of("says: "),
                objects: match title.starts_with("alone") {
                    true => rest.to_owned(),
                    false => format!("{base}---\n{rest}"),
                },
            });
        }
    }
    found
}

fn objects(text: &str) -> Vec<KubernetesObject> {
    objects_of_file("input.yaml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn lint(objects: &[KubernetesObject]) -> ClusterLintReport {
    let namespaces = Namespaces::new("default", None, BTreeMap::new());
    lint_cluster(&ClusterQuestion { objects, namespaces, is_whole: false })
}

fn shown(found: &ClusterItem) -> String {
    let level = found.finding.level.name();
    let objects: Vec<String> =
        found.objects.iter().map(|object| format!("{} ({})", object.object, object.pod_count)).collect();
    format!("{level} {} {}", found.finding.code, objects.join(", "))
}

fn told(found: &ClusterItem) -> String {
    let FindingReport { code, subject, text, remedy, .. } = &found.finding;
    let [subject, remedy] = [subject, remedy].map(|text| text.as_deref().unwrap_or_default());
    [format!("{code} {subject}"), text.clone(), format!("-> {remedy}")].join(" | ")
}

/// Notes about the limits of every mesh's rules have their own tests.
fn counts(found: &&ClusterItem) -> bool {
    found.finding.level <= Level::Warning || *found.finding.code >= *FIRST.name()
}

#[test]
fn cases_have_their_findings() {
    let mut failures = Vec::new();
    for case in cases() {
        let found = lint(&objects(&case.objects));
        let all: BTreeSet<String> = found.findings.iter().filter(counts).map(shown).collect();
        let is_told = |part: &String| found.not_judged.iter().any(|sentence| sentence.contains(part));
        let is_judged =
            found.not_judged.len() == case.not_judged.len() && case.not_judged.iter().all(is_told);
        assert_eq!(found.has_warning(), all.iter().any(|line| !line.starts_with("note")), "{}", case.objects);
        let told: Vec<String> = found.findings.iter().map(told).collect();
        if all != case.expected || !is_judged || !case.says.iter().all(|line| told.contains(line)) {
            failures.push(format!(
                "{}: {}\nexpected {:#?} {:#?}\nfound {told:#?}\n{}",
                case.section,
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
    for code in Code::ALL.iter().filter(|code| (FIRST..=Code::SecondInterface).contains(*code)) {
        let section = code.name().to_lowercase();
        let of_code: Vec<bool> = (cases.iter().filter(|case| case.section == section))
            .map(|case| case.expected.iter().any(|line| line.contains(code.name())))
            .collect();
        assert!(of_code.contains(&true) && of_code.contains(&false), "{code}: {of_code:?}");
    }
}

/// Objects from `kubectl get -o json` are checked like manifests, and have no files.
#[test]
fn lists_of_a_cluster_are_unpacked() {
    let pod =
        json!({"metadata": {"name": "a", "namespace": "shop"}, "spec": {"containers": [{"name": "web"}]}});
    let list = json!({"apiVersion": "v1", "kind": "PodList", "items": [pod]});
    let unpacked = KubernetesObject::of(list);
    let mut all = objects(&base());
    all.iter_mut().for_each(|object| object.place = None);
    all.extend(unpacked);
    let found = lint(&all);
    assert_eq!(
        found.findings.iter().filter(counts).map(shown).collect::<Vec<_>>(),
        ["warning SI030 Pod shop/a (1)"]
    );
    assert_eq!(found.findings[0].objects[0].file, None);
    assert!(RESOURCES.iter().any(|needed| needed.name == "pods" && needed.is_namespaced));
    let maps = config_maps(&all).into_iter().map(|(namespace, name)| format!("{namespace}/{name}"));
    let expected = ["istio-system/istio-sidecar-injector", "istio-system/istiod"];
    assert_eq!(maps.collect::<Vec<_>>(), expected);
}

/// In a whole cluster, a missing object does not exist.
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

/// All findings of base and case, in short; then the warnings as text and as data.
fn reported(case: &str) -> String {
    let mut found = lint(&objects(&format!("{}{case}", base())));
    let all: String = found.findings.iter().map(|finding| format!("{}\n", shown(finding))).collect();
    assert_eq!(found.has_warning(), all.contains("warning "), "{all}");
    let mut unselected = found.clone();
    unselected.select(true, &[]);
    assert_eq!(unselected, found);
    found.select(false, &[]);
    let data = serde_json::to_string_pretty(&found).expect("JSON");
    format!("{all}--\n{}--\n{data}\n", plain(&text(&found, 80)))
}

#[test]
fn reports_are_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster_lint_reports.txt");
    testkit::sections::answers(file, ", reported", reported);
}

#[test]
fn findings_of_allowed_codes_are_left_out() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop, annotations: \
               {traffic.sidecar.istio.io/excludeOutboundPort: '80'}}\nspec: {containers: [{name: web}]}\n";
    let mut found = lint(&objects(&format!("{}{pod}", base())));
    found.select(false, &[FIRST]);
    let codes: Vec<&str> = found.findings.iter().map(|one| &*one.finding.code).collect();
    assert_eq!(codes, ["SI027"]);
}

#[test]
fn names_move_no_cursor_and_begin_no_line() {
    let pod = "---\n{apiVersion: v1, kind: Pod, metadata: {name: \"a\\e[2J\\n::error::b\", namespace: shop}, \
               spec: {containers: [{name: web}]}}\n";
    let shown = text(&lint(&objects(&format!("{}{pod}", base()))), 200);
    assert!(shown.contains("Pod shop/a\\u{1b}[2J\\n::error::b"), "{shown}");
    assert!(!shown.contains("\u{1b}[2J"), "{shown}");
}

/// GitHub's requirements for a log (its documentation, "SARIF support for code scanning").
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
    let base = base();
    let log = |between: &str| {
        let found = lint(&objects(&format!("{base}---\n{between}{pod}")));
        let findings = found.findings.iter().filter(counts).cloned().collect();
        results(&sarif(&ClusterLintReport { findings, ..found }, "1.2.3"))
    };
    let (first, moved) = (log(""), log("# one\n# two\n"));
    let begins = base.lines().count() as u64 + 2;
    let places: Vec<(&str, u64)> = first.iter().map(|(code, line, _)| (&**code, *line)).collect();
    assert_eq!(places, [("SI027", begins + 6), ("SI030", begins)]);
    for ((code, line, print), (_, after, same)) in first.iter().zip(&moved) {
        assert_eq!((line + 2, print), (*after, same), "{code}");
    }
}
