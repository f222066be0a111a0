//! Objects printed by Helm and by `sidecar-injector manifests`.

use crate::PROGRAM;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};
use testkit::command_line::{Ended, ended_with};

pub(super) const NAMESPACE: &str = "mesh";

pub(super) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Tool {
    Helm,
    Promtool,
}

/// Call of a program in the repository's root. The program is compiled or fetched on first use.
pub(super) fn call(tool: Tool) -> Command {
    static PLACES: [OnceLock<String>; 2] = [const { OnceLock::new() }; 2];
    let script: &[&str] = match tool {
        Tool::Helm => &["scripts/tool", "helm"],
        Tool::Promtool => &["scripts/promtool"],
    };
    let place = PLACES[tool as usize].get_or_init(|| {
        let out = Command::new(root().join(script[0])).args(&script[1..]).stderr(Stdio::inherit()).output();
        let out = out.expect("the script starts");
        assert!(out.status.success(), "{script:?} fails");
        String::from_utf8(out.stdout).expect("UTF-8").trim().to_owned()
    });
    let mut command = Command::new(place);
    command.current_dir(root());
    command
}

fn objects(yaml: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).expect("YAML");
    all.into_iter().filter(|object| !object.is_null()).collect()
}

pub(super) fn helm(namespace: &str, values: &Value) -> Ended {
    let words = ["template", "release", "docker/chart", "--kube-version", "1.33.0", "--values", "-"];
    ended_with(call(Tool::Helm).args(words).args(["--namespace", namespace]), &values.to_string())
}

pub(super) fn chart(namespace: &str, values: &Value) -> Vec<Value> {
    objects(&helm(namespace, values).with(0).stdout)
}

pub(super) fn injector(mut values: Value) -> Value {
    for (key, image) in IMAGES {
        values[key] = image.into();
    }
    json!({ "injector": values })
}

const IMAGES: [(&str, &str); 3] = [
    ("image", "registry.example:5000/sidecar-injector:1"),
    ("proxyImage", "registry.example/proxyv2:1"),
    (
        "initImage",
        "registry.example/sidecar-init@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
];

pub(super) fn manifests(flags: &[&str]) -> Vec<Value> {
    let images = ["--image", "--proxy-image", "--init-image"];
    let images = images.iter().zip(IMAGES).flat_map(|(flag, (_, image))| [*flag, image]);
    let words: Vec<&str> =
        ["manifests", "--no-namespace", "--namespace", NAMESPACE].into_iter().chain(images).collect();
    objects(&PROGRAM.printed(&[&words[..], flags].concat()))
}
