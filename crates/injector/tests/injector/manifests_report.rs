//! `manifests`: what is said of its flags, of files that others wrote, and of images.

use super::manifests::MANIFESTS;
use std::{fs, process::Command};
use testkit::folder::Folder;
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

#[test]
fn a_file_that_could_not_be_replaced_left_another_beside_it() {
    let folder = Folder::new("manifests-replaced");
    fs::create_dir_all(folder.join("kustomization.yaml")).expect("a folder in its place");
    let words = [&MANIFESTS[..], &["--force", "-o", "kustomize", word(&folder)]].concat();
    let out = Command::new(env!("CARGO_BIN_EXE_sidecar-injector")).args(words).output().expect("it starts");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && text.contains("kustomization.yaml can't be written"), "{text}");
    let left: Vec<_> = fs::read_dir(&*folder).expect("a folder").flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name().to_string_lossy().ends_with(".yaml")), "{left:?}");
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
    let image = ["--image", "example/injector:1", "--proxy-image", "example/proxy:1"];
    assert_eq!(run(&image), (true, String::new()));
    for other in [&["--no-namespace"][..], &["--namespace", "default"], &["--namespace", "kube-system"]] {
        assert_eq!(run(&[&image[..], other].concat()), (false, String::new()), "{other:?}");
    }
}

#[test]
fn images_that_are_not_pinned_are_refused() {
    let run = |arguments: &[&str]| {
        let out =
            Command::new(env!("CARGO_BIN_EXE_sidecar-injector")).arg("manifests").args(arguments).output();
        let out = out.expect("the program starts");
        assert!(out.status.code() == Some(1) && out.stdout.is_empty());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let missing = run(&[]);
    for text in [
        "2 problems",
        "--image: is missing; expected an image",
        "--proxy-image: is missing; expected an image",
    ] {
        assert!(missing.contains(text), "{text}: {missing}");
    }
    let moving = run(&["--image", "a/b:latest", "--proxy-image", "istio/proxyv2"]);
    for text in [
        "--image: \"a/b:latest\" has the tag latest",
        "--proxy-image: \"istio/proxyv2\" has neither tag nor digest",
        "such as istio/proxyv2:",
    ] {
        assert!(moving.contains(text), "{text}: {moving}");
    }
}
