//! Pods as a source of configuration: a manifest and equivalent flags give the same rules. `crates/mesh/tests/pods.rs` covers
//! parsing.

use crate::support::program::{Outcome, Run, binary, fed};
use mesh::pod::{EXCLUDED_NAMESPACES, objects, read};
use mesh::sources::Raw;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

fn manifests() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/pods");
    let entries = fs::read_dir(folder).expect("the manifests").map(|entry| entry.expect("an entry").path());
    let is_manifest = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "json");
    let mut found: Vec<PathBuf> = entries.filter(is_manifest).collect();
    found.sort();
    assert!(found.len() >= 20, "manifests are missing");
    found
}

fn program(arguments: &[&str], input: &str) -> Outcome {
    fed(binary(arguments), input)
}

/// Flags equivalent to an object's settings, where flags exist.
fn flags_of(raw: &Raw) -> (Vec<String>, BTreeMap<&'static str, String>) {
    let (mut flags, mut variables) = (Vec::new(), BTreeMap::new());
    let all_dns = raw.iter().any(|(setting, _)| setting.row().long == "redirect-all-dns-traffic");
    for (setting, given) in raw.iter() {
        match setting.row().long {
            // One flag covers both of the manifest's settings.
            "redirect-dns" if all_dns => {}
            "" => {
                variables.insert(setting.row().variables[0], given.value.clone());
            }
            long => flags.push(format!("--{long}={}", given.value)),
        }
    }
    (flags, variables)
}

#[test]
fn manifest_and_equivalent_flags_have_the_same_rules() {
    let mut compared = 0;
    for path in manifests() {
        let input = fs::read_to_string(&path).expect("UTF-8");
        let Ok(objects) = objects("input", &input) else { continue };
        let mut expected = String::new();
        for object in &objects {
            let (mut flags, variables) = flags_of(&read(object, EXCLUDED_NAMESPACES).settings.raw);
            flags.extend(["--pod-ips=10.1.2.3,fd00::3", "--dns-servers=10.96.0.10"].map(str::to_owned));
            let output = binary(&[]).envs(variables).arg("render").args(flags).outcome();
            let heading =
                if objects.len() > 1 { format!("# {}\n", object.origin.title) } else { String::new() };
            let gap = if expected.is_empty() { "" } else { "\n" };
            expected.push_str(&format!("{gap}{heading}{}", output.stdout));
        }
        let facts = ["--pod-ips", "10.1.2.3,fd00::3", "--dns-servers", "10.96.0.10"];
        let output = program(&[&["render", "-f", "-"], &facts[..]].concat(), &input);
        if output.succeeded() {
            assert_eq!(output.stdout, expected, "{}", path.display());
            compared += 1;
        } else {
            assert_eq!(output.code, Some(2), "{}", path.display());
            assert_eq!(output.stdout, "", "{}: half an answer", path.display());
        }
    }
    assert!(compared >= 15, "only {compared} manifests were compared");
}
