//! `manifests`: what it says of files that others wrote, and of namespaces.

use super::manifests::MANIFESTS;
use crate::PROGRAM;
use std::fs;
use testkit::{command_line::Ended, folder::Folder, word};

fn manifests(flags: &[&str]) -> Ended {
    PROGRAM.run(&[&MANIFESTS[..], flags].concat())
}

#[test]
fn what_others_wrote_stays_unless_it_is_forced() {
    let folder = Folder::new("manifests");
    let foreign = folder.write("kustomization.yaml", "resources: [web.yaml]\n");
    let run = |more: &[&str]| manifests(&[&["-o", "kustomize", word(&folder)], more].concat());
    let refused = run(&[]).with(1).stderr;
    assert!(refused.contains("kustomization.yaml is there already"), "{refused}");
    assert_eq!(fs::read_to_string(&foreign).expect("it is there"), "resources: [web.yaml]\n");
    assert_eq!(fs::read_dir(&*folder).expect("a folder").count(), 1);
    let written = run(&["--force"]).with(0).stderr;
    assert!(written.contains(&format!("wrote {foreign}")), "{written}");
    // Its own files are written anew.
    run(&[]).with(0);
}

#[test]
fn a_file_that_could_not_be_replaced_left_another_beside_it() {
    let folder = Folder::new("manifests-replaced");
    fs::create_dir_all(folder.join("kustomization.yaml")).expect("a folder in its place");
    let text = manifests(&["--force", "-o", "kustomize", word(&folder)]).with(1).stderr;
    assert!(text.contains("kustomization.yaml can't be written"), "{text}");
    let left: Vec<_> = fs::read_dir(&*folder).expect("a folder").flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name().to_string_lossy().ends_with(".yaml")), "{left:?}");
}

#[test]
fn the_namespace_is_an_object_unless_it_is_somebody_elses() {
    for (flags, is_printed) in [
        (&[][..], true),
        (&["--no-namespace"], false),
        (&["--namespace", "default"], false),
        (&["--namespace", "kube-system"], false),
    ] {
        let ended = manifests(flags).with(0);
        let found = ended.stdout.contains("kind: Namespace\n");
        assert_eq!((found, &*ended.stderr), (is_printed, ""), "{flags:?}");
    }
}
