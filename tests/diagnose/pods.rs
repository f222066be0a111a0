//! Pods as a source of configuration: whatever a manifest says, flags that say the same make the same rules, and commands
//! speak of its annotations. What is read from manifests is tested where that is done (`crates/mesh/tests/pods.rs`).

use crate::support::program::{Outcome, Run, bare};
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
    assert!(found.len() >= 20, "manifests have got lost");
    found
}

fn program(arguments: &[&str], input: &str) -> Outcome {
    bare(arguments).write_stdin(input).outcome()
}

/// Flags that say what was read from an object, where a flag can.
fn flags_of(raw: &Raw) -> (Vec<String>, BTreeMap<&'static str, String>) {
    let (mut flags, mut variables) = (Vec::new(), BTreeMap::new());
    let all_dns = raw.iter().any(|(setting, _)| setting.row().long == "redirect-all-dns-traffic");
    for (setting, given) in raw.iter() {
        match setting.row().long {
            // A file says both, and of the flags one stands for both.
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
fn a_manifest_makes_the_rules_of_the_flags_that_say_the_same() {
    let mut compared = 0;
    for path in manifests() {
        let input = fs::read_to_string(&path).expect("UTF-8");
        let Ok(objects) = objects("input", &input) else { continue };
        let mut expected = String::new();
        for object in &objects {
            let (mut flags, variables) = flags_of(&read(object, EXCLUDED_NAMESPACES).settings.raw);
            flags.extend(["--pod-ips=10.1.2.3,fd00::3", "--dns-servers=10.96.0.10"].map(str::to_owned));
            let output = bare(&[]).envs(variables).arg("render").args(flags).outcome();
            let heading = if objects.len() > 1 { format!("# {}\n", object.title) } else { String::new() };
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

const CONTAINERS: &str = "{containers: [{name: istio-proxy, args: [proxy, sidecar]}]}";

fn pod_text(annotations: &str) -> String {
    format!(
        "kind: Pod\nmetadata:\n  name: web\n  annotations:\n    sidecar.istio.io/status: '{{}}'\n{annotations}spec: \
         {CONTAINERS}\n"
    )
}

#[test]
fn explain_speaks_of_the_annotation_and_expects() {
    let input = pod_text("    traffic.sidecar.istio.io/includeInboundPorts: \"8080\"\n");
    let ask = |more: &[&str]| program(&[&["explain", "-f", "-"], more].concat(), &input);
    let output = ask(&["8080", "--expect", "captured"]);
    let output = output.success();
    let expected = "by Pod web:\ncaptured: goes to the proxy's inbound port 15006, because \
                    traffic.sidecar.istio.io/includeInboundPorts lists port 8080\n";
    assert!(output.stdout.starts_with(expected), "{}", output.stdout);
    assert_eq!(ask(&["9090", "--expect", "captured"]).code, Some(3));
    assert_eq!(ask(&["9090", "--expect=not-captured"]).code, Some(0));
    assert_eq!(ask(&["9090", "--expect", "perhaps"]).code, Some(2));
    // A flag wins over what the pod says, and is called by its own name.
    let output = ask(&["9090", "-b", "9090"]);
    assert!(output.stdout.contains("because -b lists port 9090"), "{}", output.stdout);
}

#[test]
fn one_network_namespace_is_one_pods() {
    let input = format!("{0}---\n{0}", pod_text(""));
    for command in ["apply", "diff"] {
        let output = program(&[command, "-f", "-"], &input);
        assert_eq!(output.code, Some(2), "{command}");
        assert!(output.stderr.contains("describes 2 pods (Pod web, Pod web)"), "{}", output.stderr);
    }
    let output = program(&["apply", "--dry-run", "-f", "-"], &input);
    assert_eq!(output.stdout.matches("# Pod web\n").count(), 2, "{}", output.stderr);
    let output = program(&["istio-iptables", "--dry-run", "--filename", "-"], &input);
    assert_eq!(output.stdout.matches("# Pod web\n# iptables-restore\n").count(), 2);
    let output = program(&["lint", "--format", "json", "-f", "-"], &input);
    let lists: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(lists["answers"].as_array().map(Vec::len), Some(2));
}

#[test]
fn every_manifest_is_read() {
    let of_two = |command: &'static str| {
        let files = ["-f", "tests/support/pods/stock.yaml", "-f", "-"];
        program(&[&[command][..], &files].concat(), &pod_text(""))
    };
    for command in ["lint", "explain", "render"] {
        let output = of_two(command);
        for title in [" of tests/support/pods/stock.yaml\n", "Pod web of standard input\n"] {
            assert!(output.stdout.contains(title), "{command} {title}: {output:?}");
        }
    }
    for command in ["apply", "verify"] {
        let output = of_two(command);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{command}");
        assert!(output.stderr.contains("describes 4 pods ("), "{command}: {}", output.stderr);
    }
    let twice = program(&["explain", "-f", "-", "-f", "-"], &pod_text(""));
    assert!(twice.stderr.contains("--filename: is - twice; standard input is one manifest"), "{twice:?}");
}

#[test]
fn our_own_environment_is_no_part_of_another_pod() {
    let mut command = bare(&[]);
    command.env("ISTIO_LOCAL_EXCLUDE_PORTS", "8080").env("ISTIO_META_DNS_CAPTURE", "true");
    let output = command.args(["render", "-f", "-"]).write_stdin(pod_text("")).outcome();
    assert_eq!(output.stdout, program(&["render", "-f", "-"], &pod_text("")).stdout);
}

#[test]
fn a_manifest_is_an_argument_where_it_is_a_document_of_json() {
    let pod = r#"{"kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"istio-proxy","args":["proxy","sidecar"]}]}}"#;
    let output = program(&["render", "-f", pod], "").success();
    assert_eq!(output.stdout, program(&["render", "-f", "-"], pod).stdout);
    let output = program(&["render", "-f", "{broken"], "");
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("input"), "{}", output.stderr);
}
