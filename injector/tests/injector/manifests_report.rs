//! `manifests`: what is said of its flags, of files that others wrote, and of how an installation is removed.

use super::manifests::MANIFESTS;
use serde_json::Value;
use std::{fs, process::Command};
use testkit::{cluster::Cluster, word};

#[test]
fn what_others_wrote_stays_unless_it_is_forced() {
    let cluster = Cluster::start();
    let folder = cluster.file("shop");
    fs::create_dir(&folder).expect("a folder");
    let foreign = folder.join("kustomization.yaml");
    fs::write(&foreign, "resources: [web.yaml]\n").expect("a file");
    let run = |more: &[&str]| {
        let words = [&MANIFESTS[..], &["-o", "kustomize", word(&folder)], more].concat();
        let out =
            Command::new(env!("CARGO_BIN_EXE_sidecar-injector")).args(words).output().expect("it starts");
        (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (done, text) = run(&[]);
    assert!(!done && text.contains("kustomization.yaml is there already"), "{text}");
    assert_eq!(fs::read_to_string(&foreign).expect("it is there"), "resources: [web.yaml]\n");
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
    let (done, text) = run(&["--force"]);
    assert!(done && text.contains(&format!("wrote {}", foreign.display())), "{text}");
    assert!(run(&[]).0, "its own files are written anew");
}

/// What docs/injector.md deletes by a label has it; what others may use is not deleted.
#[test]
fn what_is_removed_by_its_label_has_it() {
    let list = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
        .args([
            "manifests",
            "--image",
            "example/injector:1",
            "-o",
            "json",
            "--revision",
            "r1",
            "--tag",
            "prod",
        ])
        .args(["--operator", "--environment-tag"])
        .output()
        .expect("it starts");
    let list: Value = serde_json::from_slice(&list.stdout).expect("JSON");
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/injector.md"));
    let document = document.expect("the document");
    let (_, removal) = document.split_once("## Remove it").expect("the section");
    for object in list["items"].as_array().expect("a list") {
        let kind = object["kind"].as_str().expect("a kind").to_lowercase();
        if ["customresourcedefinition", "namespace"].contains(&&*kind) {
            continue;
        }
        assert!(removal.contains(&kind), "{kind} is not removed");
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/instance"], "sidecar-injector-r1", "{object:#}");
    }
}

#[test]
fn flags_that_do_not_fit_are_told() {
    let run = |arguments: &[&str]| {
        let out =
            Command::new(env!("CARGO_BIN_EXE_sidecar-injector")).args(MANIFESTS).args(arguments).output();
        let out = out.expect("the program starts");
        assert!(!out.status.success() && out.stdout.is_empty());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(run(&["--output", "xml"]).contains("expected yaml, json, or kustomize FOLDER"));
    assert!(run(&["--output", "kustomize"]).contains("expected a folder"));
    assert!(run(&["--namespace", "A", "--replicas", "0"]).contains("2 problems"));
    assert!(run(&["--env-label", "a"]).contains("--environment-tag"));
    assert!(run(&["--replicas", "-1"]).contains("expected a whole number from 1 to 65535"));
    assert!(run(&["--replicas", "many"]).contains("expected a whole number from 1 to 65535"));
    assert!(run(&["--force"]).contains("expected --output kustomize FOLDER"));
}

#[test]
fn the_namespace_is_an_object_unless_it_is_somebody_elses() {
    let run = |arguments: &[&str]| {
        let out =
            Command::new(env!("CARGO_BIN_EXE_sidecar-injector")).arg("manifests").args(arguments).output();
        let out = out.expect("the program starts");
        assert!(out.status.success());
        let [printed, text] =
            [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (printed.contains("kind: Namespace\n"), text)
    };
    let (is_there, text) = run(&[]);
    assert!(is_there && text.contains("no --image"), "{text}");
    let image = ["--image", "example/injector:1"];
    assert_eq!(run(&image), (true, String::new()));
    for other in [&["--no-namespace"][..], &["--namespace", "default"], &["--namespace", "kube-system"]] {
        assert_eq!(run(&[&image[..], other].concat()), (false, String::new()), "{other:?}");
    }
}
