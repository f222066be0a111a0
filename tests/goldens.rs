//! Every scenario of the catalogue: the preview of its call is the text beside it.
//!
//! `UPDATE_GOLDENS=1` writes the texts instead of comparing them.

use assert_cmd::Command;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn catalogue() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("rules/scenarios")
}

fn scenarios() -> Vec<PathBuf> {
    let entries = fs::read_dir(catalogue()).expect("the catalogue");
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    assert!(folders.len() > 30, "the catalogue has shrunk");
    folders
}

fn case(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("case.json")).expect("case.json");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| item.as_str().expect("a string").to_owned()).collect()
}

/// Standard output and standard error of the scenario's preview.
fn preview(case: &Value) -> (String, String) {
    let mut command = Command::cargo_bin("sidecar-init").expect("the binary");
    command.env_clear().args(["istio-iptables", "--dry-run"]).args(strings(&case["args"]));
    command.args(["--pod-ips", &strings(&case["pod_ips"]).join(",")]);
    command.args(["--dns-servers", &strings(&case["dns_servers"]).join(",")]);
    for (name, value) in case["env"].as_object().into_iter().flatten() {
        command.env(name, value.as_str().expect("a string"));
    }
    let output = command.assert().success().get_output().clone();
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

/// Writes or compares the text of one family; no text means no file.
fn check(folder: &Path, file: &str, text: Option<&str>) {
    let path = folder.join(file);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        match text {
            Some(text) => fs::write(&path, text).expect("the golden is written"),
            None => drop(fs::remove_file(&path)),
        }
        return;
    }
    let expected = fs::read_to_string(&path).ok();
    assert_eq!(text, expected.as_deref(), "{} differs", path.display());
}

#[test]
fn previews_are_the_texts_of_the_catalogue() {
    for folder in scenarios() {
        let case = case(&folder);
        let (stdout, stderr) = preview(&case);
        let rest = stdout.strip_prefix("# iptables-restore\n").expect("the header of IPv4");
        let (v4, v6) = match rest.split_once("# ip6tables-restore\n") {
            Some((v4, v6)) => (v4, Some(v6)),
            None => (rest, None),
        };
        check(&folder, "v4.rules", Some(v4));
        check(&folder, "v6.rules", v6);
        let warnings = strings(&case["warnings"]);
        for warning in &warnings {
            assert!(stderr.contains(warning), "{}: no {warning:?} in {stderr}", folder.display());
        }
        assert_eq!(stderr.is_empty(), warnings.is_empty(), "{}: {stderr}", folder.display());
    }
}

#[test]
fn the_catalogue_lists_every_scenario() {
    let readme = fs::read_to_string(catalogue().join("README.md")).expect("README.md");
    let (_, table) = readme.split_once("| scenario |").expect("the table of scenarios");
    let mut rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    rows.sort_unstable();
    let expected = scenarios().into_iter().map(|folder| {
        let about = case(&folder)["about"].as_str().expect("about").to_owned();
        let first = about.split_inclusive(". ").next().unwrap_or_default().trim().to_owned();
        format!("| `{}` | {first} |", folder.file_name().expect("a name").display())
    });
    assert_eq!(rows, expected.collect::<Vec<_>>());
}
