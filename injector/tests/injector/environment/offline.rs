//! `environment routes` and `environment crd`: manifests in, objects out.

use serde_json::Value;
use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

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

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
        .arg("environment")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// What it prints, and what it tells.
fn told(arguments: &[&str], input: &str) -> (String, String) {
    let out = run(arguments, input);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (stdout, stderr) = (text(out.stdout), text(out.stderr));
    assert!(out.status.success(), "{arguments:?}: {stderr}");
    (stdout, stderr)
}

fn objects(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("YAML")
}

#[test]
fn manifests_become_routes() {
    let (yaml, stderr) = told(&["routes", "-f", "-", "--namespace", "shop"], MANIFEST);
    assert_eq!(stderr, "");
    let found = objects(&yaml);
    let titles: Vec<String> = found
        .iter()
        .map(|object| format!("{} {}", object["kind"], object["metadata"]["namespace"]))
        .collect();
    assert_eq!(titles, ["\"DestinationRule\" \"shop\"", "\"VirtualService\" \"shop\""]);
    let (json, _) = told(&["routes", "-f", "-", "--namespace", "shop", "--format", "json"], MANIFEST);
    let list: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(list["items"], Value::Array(found));
    // What it has printed may lie beside what it reads.
    assert_eq!(
        told(&["routes", "-f", "-", "--namespace", "shop"], &format!("{MANIFEST}---\n{yaml}")).0,
        yaml
    );
    let (table, _) = told(&["routes", "-f", "-", "--table"], MANIFEST);
    let expected = "X-Virtual-Env  cart\n(none)         base\nbase           base\nbase.red       base-red\n(another)      base\n";
    assert_eq!(table, expected);
}

#[test]
fn the_users_own_objects_are_told_and_left() {
    let own =
        "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: cart}\nspec: {}\n";
    let (yaml, stderr) = told(&["routes", "-f", "-"], &format!("{MANIFEST}{own}"));
    assert_eq!(yaml, "");
    assert!(stderr.contains("warning: Service default/cart: it has a VirtualService of its own"), "{stderr}");
    let second = MANIFEST.split("---").next().expect("it").replace("demo", "later");
    let (_, stderr) = told(&["routes", "-f", "-"], &format!("{MANIFEST}---\n{second}"));
    assert!(stderr.contains("VirtualEnvironment default/later: a namespace has one; demo acts"), "{stderr}");
}

#[test]
fn all_that_is_wrong_is_told_and_nothing_is_printed() {
    let bad = MANIFEST.replace("defaultSubset: base", "defaultSubset: '-', splitter: ab");
    for (input, expected) in [
        (bad.as_str(), &["spec.envLabel.defaultSubset: \"-\"", "spec.envLabel.splitter: \"ab\""][..]),
        ("a: [", &["-: is no YAML or JSON"]),
        ("apiVersion: v1\nkind: Pod\n", &["-: hold no VirtualEnvironment of env.alibaba.com/v1alpha2"]),
    ] {
        let out = run(&["routes", "-f", "-"], input);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), &*out.stdout), (Some(1), &b""[..]), "{stderr}");
        for part in expected {
            assert!(stderr.contains(part), "no {part} in {stderr}");
        }
    }
    let out = run(&["routes", "-f", "nowhere.yaml", "neither.yaml"], "");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains("nowhere.yaml: can't be read") && stderr.contains("neither.yaml"), "{stderr}");
}

#[test]
fn the_definition_is_printed_in_both_forms() {
    let yaml = objects(&told(&["crd"], "").0);
    let json: Value = serde_json::from_str(&told(&["crd", "--format", "json"], "").0).expect("JSON");
    assert_eq!(yaml, [json]);
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let definition: CustomResourceDefinition = serde_json::from_value(yaml[0].clone()).expect("a definition");
    assert_eq!(definition.spec.names.plural, "virtualenvironments");
}
