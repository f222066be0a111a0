//! `environment routes` and `environment crd`: manifests in, objects out.

use crate::PROGRAM;
use serde_json::Value;
use testkit::command_line::Ended;

const MANIFEST: &str = "\
apiVersion: env.alibaba.com/v1alpha2
kind: VirtualEnvironment
metadata: {name: demo}
spec: {envLabel: {defaultSubset: base}}
---
apiVersion: v1
kind: Service
metadata: {name: cart}
spec: {selector: {app: cart}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: cart}
  spec: {template: {metadata: {labels: {app: cart, virtual-env: base}}}}
- apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: cart-red}
  spec: {template: {metadata: {labels: {app: cart, virtual-env: base.red}}}}
";

fn run(arguments: &[&str], input: &str) -> Ended {
    PROGRAM.run_with(&[&["environment"], arguments].concat(), input)
}

/// What it prints, and what it tells.
fn succeeds(arguments: &[&str], input: &str) -> (String, String) {
    let ended = run(arguments, input).with(0);
    (ended.stdout, ended.stderr)
}

fn objects(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("YAML")
}

#[test]
fn manifests_become_routes() {
    let (yaml, stderr) = succeeds(&["routes", "-f", "-", "--namespace", "shop"], MANIFEST);
    assert_eq!(stderr, "");
    let found = objects(&yaml);
    let titles: Vec<String> = found
        .iter()
        .map(|object| format!("{} {}", object["kind"], object["metadata"]["namespace"]))
        .collect();
    assert_eq!(titles, ["\"DestinationRule\" \"shop\"", "\"VirtualService\" \"shop\""]);
    let (json, _) = succeeds(&["routes", "-f", "-", "--namespace", "shop", "--format", "json"], MANIFEST);
    let list: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(list["items"], Value::Array(found));
    // What it has printed may lie beside what it reads.
    assert_eq!(
        succeeds(&["routes", "-f", "-", "--namespace", "shop"], &format!("{MANIFEST}---\n{yaml}")).0,
        yaml
    );
    let (table, _) = succeeds(&["routes", "-f", "-", "--table"], MANIFEST);
    let expected = "X-Virtual-Env  cart\n(none)         base\nbase           base\nbase.red       base-red\n(another)      base\n";
    assert_eq!(table, expected);
}

#[test]
fn the_users_own_objects_are_reported_and_kept() {
    let own =
        "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: cart}\nspec: {}\n";
    let (yaml, stderr) = succeeds(&["routes", "-f", "-"], &format!("{MANIFEST}{own}"));
    assert_eq!(yaml, "");
    assert!(stderr.contains("warning: -:6: Service default/cart: it has another VirtualService"), "{stderr}");
    let second = MANIFEST.split("---").next().expect("it").replace("demo", "later");
    let (_, stderr) = succeeds(&["routes", "-f", "-"], &format!("{MANIFEST}---\n{second}"));
    assert!(stderr.contains("VirtualEnvironment default/later: a namespace has one; demo acts"), "{stderr}");
}

#[test]
fn an_empty_namespace_was_one_without_a_name() {
    let empty = |text: &str| text.replace("metadata: {name:", "metadata: {namespace: '', name:");
    let words = ["routes", "-f", "-", "--namespace", "shop"];
    assert_eq!(succeeds(&words, &empty(MANIFEST)), succeeds(&words, MANIFEST));
    let own =
        "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: cart}\nspec: {}\n";
    let (yaml, stderr) = succeeds(&words, &format!("{MANIFEST}{}", empty(own)));
    assert_eq!(yaml, "");
    assert!(stderr.contains("Service shop/cart: it has another VirtualService"), "{stderr}");
}

#[test]
fn all_problems_are_reported_and_nothing_is_printed() {
    let bad = MANIFEST.replace("defaultSubset: base", "defaultSubset: '-', splitter: ab");
    for (input, expected) in [
        (bad.as_str(), &["spec.envLabel.defaultSubset: \"-\"", "spec.envLabel.splitter: \"ab\""][..]),
        ("a: [", &["-: is not YAML or JSON"]),
        ("apiVersion: v1\nkind: Pod\n", &["-: no VirtualEnvironment of env.alibaba.com/v1alpha2 is there"]),
    ] {
        let stderr = refused(input);
        for part in expected {
            assert!(stderr.contains(part), "no {part} in {stderr}");
        }
    }
    let stderr = run(&["routes", "-f", "nowhere.yaml", "neither.yaml"], "").with(1).stderr;
    assert!(stderr.contains("nowhere.yaml: can't be read") && stderr.contains("neither.yaml"), "{stderr}");
}

/// What is told of a manifest, of which a table is printed all the same.
fn warned(arguments: &[&str], input: &str) -> String {
    let words: Vec<&str> = ["routes", "-f", "-", "--table"].iter().chain(arguments).copied().collect();
    succeeds(&words, input).1
}

/// What is told of a manifest that is refused; nothing is printed.
fn refused(input: &str) -> String {
    let ended = run(&["routes", "-f", "-"], input).with(1);
    assert_eq!(ended.stdout, "");
    ended.stderr
}

#[test]
fn services_without_routes_were_passed_over_in_silence() {
    let expected = "warning: -:6: Service default/cart: it gets no routes: none of its workloads with pods has an environment; \
                    expected pods with the label virtual-env\n";
    assert_eq!(warned(&[], &MANIFEST.replace("virtual-env:", "team:")), expected);
}

#[test]
fn environments_that_are_being_deleted_were_passed_over_in_silence() {
    let deleted = "{name: demo, deletionTimestamp: '2026-01-01T00:00:00Z'}";
    let deleted = MANIFEST.replace("{name: demo}", deleted);
    let expected = "warning: -:1: VirtualEnvironment default/demo: it is being deleted (metadata.deletionTimestamp), so it makes no routes\n";
    assert_eq!(warned(&[], &deleted), expected);
    let bad = deleted.replace("defaultSubset: base", "splitter: ab");
    assert!(refused(&bad).contains("spec.envLabel.splitter: \"ab\""));
}

#[test]
fn services_and_environments_of_different_namespaces_were_passed_over_in_silence() {
    let apart = MANIFEST.replace("metadata: {name: demo}", "metadata: {name: demo, namespace: shop}");
    let expected = "\
warning: -:1: VirtualEnvironment shop/demo: nothing is routed: no Service is in namespace shop
warning: namespace default: its Services (cart) get no routes: its VirtualEnvironment is missing; there is one in shop
";
    assert_eq!(warned(&[], &apart), expected);
    assert_eq!(warned(&["-n", "shop"], &apart), "");
}

#[test]
fn kinds_that_are_misspelt_were_passed_over_in_silence() {
    let stderr = warned(&[], &MANIFEST.replace("kind: Deployment", "kind: Deploymnet"));
    assert!(
        stderr.contains(
            "warning: -:14: the kind Deploymnet is not known and is passed over; did you mean Deployment?"
        ),
        "{stderr}"
    );
    // It is why there seems to be none.
    let stderr = refused(&MANIFEST.replace("VirtualEnvironment", "VirtualEnviroment"));
    assert!(stderr.contains("did you mean VirtualEnvironment?"), "{stderr}");
    assert!(stderr.contains("-: no VirtualEnvironment of"), "{stderr}");
}

#[test]
fn broken_rules_are_reported_for_services_with_routes_only() {
    let rule = "metadata: {name: cart, annotations: {kt-virtual-environment/rule: '{x'}}\nspec: {selector";
    let broken = MANIFEST.replace("metadata: {name: cart}\nspec: {selector", rule);
    let expected = "-:6: Service default/cart, annotation kt-virtual-environment/rule: is not JSON";
    for input in [
        broken.clone(),
        broken.replace("selector: {app: cart}", "selector: {app: kart}"),
        broken.replace("defaultSubset: base", "splitter: ab"),
    ] {
        let stderr = refused(&input);
        assert_eq!(stderr.matches(expected).count(), 1, "{stderr}");
    }
    let both = refused(&broken.replace("defaultSubset: base", "splitter: ab"));
    assert!(both.starts_with("error: 2 problems in the manifests; nothing is printed\n"), "{both}");
    assert!(both.contains("-:1: VirtualEnvironment default/demo: spec.envLabel.splitter: \"ab\""), "{both}");
}

#[test]
fn objects_that_were_given_twice_had_two_columns() {
    let (table, stderr) = succeeds(&["routes", "-f", "-", "--table"], &format!("{MANIFEST}---\n{MANIFEST}"));
    assert_eq!((table.clone(), String::new()), succeeds(&["routes", "-f", "-", "--table"], MANIFEST));
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{stderr}");
    let expected = "warning: -:28: Service default/cart: it is given at -:6, too; the last one counts";
    assert!(lines.contains(&expected), "{stderr}");
    let (again, stderr) = succeeds(&["routes", "-f", "-", "-", "--table"], MANIFEST);
    assert_eq!((again, &*stderr), (table, "warning: -: is named twice; it is read once\n"));
    let stderr = refused(&MANIFEST.replace("metadata: {name: demo}", "metadata: {}"));
    assert!(stderr.contains("-:1: VirtualEnvironment default/, metadata.name: is missing"), "{stderr}");
}

#[test]
fn fields_were_quoted_twice_and_known_to_nobody() {
    let wrong = "{envHeader: {autoInject: \"yes\", nam: x, name: 5, aliases: 1}, envLabel: 7}";
    let stderr = refused(&MANIFEST.replace("{envLabel: {defaultSubset: base}}", wrong));
    for expected in [
        "spec.envHeader.autoInject: \"yes\" is a string; expected true or false, without quotes",
        "spec.envHeader.nam: unknown field; did you mean name?",
        "spec.envHeader.name: \"5\" is a number; expected a string",
        "spec.envHeader.aliases: \"1\" is a number; expected a list",
        "VirtualEnvironment default/demo: spec.envLabel: \"7\" is a number; expected a mapping",
    ] {
        assert!(stderr.contains(expected), "no {expected} in {stderr}");
    }
}
