//! Files that deliver the project: workflows run existing scripts with existing flags, the krew manifest has the required fields,
//! and seccomp profiles have the format of container runtimes.

use crate::repository::{ROOT, none, read};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path};

fn yaml(name: &str, text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn jobs() -> Vec<Value> {
    let workflows = ["ci", "release"].map(|name| format!(".github/workflows/{name}.yml"));
    let jobs = workflows.iter().map(|file| yaml(file, read(file))["jobs"].as_object().expect("jobs").clone());
    jobs.flat_map(|jobs| jobs.into_iter().map(|(_, job)| job)).collect()
}

#[test]
fn workflows_run_only_existing_scripts() {
    let mut run = Vec::new();
    let jobs = jobs();
    let steps = jobs.iter().flat_map(|job| job["steps"].as_array().expect("steps"));
    for command in steps.filter_map(|step| step["run"].as_str()) {
        let words: Vec<&str> = command.split_whitespace().collect();
        if command.starts_with("git config ") || command.starts_with("gh release create ") {
            continue;
        }
        let script = fs::metadata(Path::new(ROOT).join(words[0]));
        let mode = script.unwrap_or_else(|error| panic!("{command}: {error}")).permissions().mode();
        assert!(mode & 0o111 != 0, "{command}: {} is not executable", words[0]);
        let text = read(words[0]);
        for flag in words.iter().filter(|word| word.starts_with("--")) {
            assert!(text.contains(&format!("\n  {flag} ")), "{command}: {} has no {flag}", words[0]);
        }
        run.push(words[0]);
    }
    assert_eq!(run, [".ci/run", "scripts/release", "scripts/image"]);
}

/// The bytes of a release depend on the version of Rust.
#[test]
fn workflows_use_one_rust_that_is_new_enough() {
    let version =
        |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().expect("a number")).collect() };
    let jobs = jobs();
    let images: Vec<&str> = jobs.iter().filter_map(|job| job["container"]["image"].as_str()).collect();
    assert_eq!(images, [images[0]; 2]);
    let used = images[0].strip_prefix("rust:").and_then(|rest| rest.strip_suffix("-bookworm"));
    let (_, oldest) = read("Cargo.toml").split_once("rust-version = \"").expect("the oldest Rust");
    let (oldest, _) = oldest.split_once('"').expect("its end");
    assert!(version(used.expect("Rust on Debian")) >= version(oldest), "{images:?} are older than {oldest}");
}

/// System calls that let a container with CAP_SYS_ADMIN or CAP_SYS_PTRACE change its node or other processes.
const NEVER: &str = "bpf delete_module finit_module init_module kexec_load mount move_mount open_by_handle_at pidfd_getfd \
                     pivot_root process_vm_writev ptrace umount2 unshare";

#[test]
fn seccomp_profiles_have_the_form_that_runtimes_read_and_allow_little() {
    for name in ["sidecar-cni", "sidecar-node"] {
        let file = format!("docker/cni/seccomp/{name}.json");
        let profile: Value =
            serde_json::from_str(read(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO", "{file}");
        assert_eq!(profile["architectures"], json!(["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]), "{file}");
        let mut allowed = BTreeSet::new();
        for group in profile["syscalls"].as_array().expect("groups") {
            assert_eq!(group["action"], "SCMP_ACT_ALLOW", "{file}: {group}");
            assert!(group["comment"].as_str().is_some_and(|reason| !reason.is_empty()), "{file}: {group}");
            let names = group["names"].as_array().expect("names").iter();
            let names: Vec<&str> = names.map(|name| name.as_str().expect("a name")).collect();
            assert!(names.is_sorted(), "{file}: {names:?}");
            let twice = names.into_iter().filter(|call| !allowed.insert(*call)).map(str::to_owned);
            none(twice, &format!("{file} allows calls twice"));
        }
        let never = NEVER.split_whitespace().filter(|call| allowed.contains(call));
        none(never.map(str::to_owned), &format!("{file} allows calls that change the node"));
        assert_eq!(allowed.contains("setns"), name == "sidecar-node", "{file}");
    }
}

#[test]
fn krew_manifest_has_all_required_fields() {
    let filled = read("docker/krew/capture.yaml")
        .replace("@VERSION@", "1.2.3")
        .replace("@URL@", "URL")
        .replace("@SHA256_AMD64@", &"a".repeat(64))
        .replace("@SHA256_ARM64@", &"b".repeat(64));
    assert!(!filled.lines().any(|line| line.contains('@') && !line.starts_with('#')), "{filled}");
    let manifest = yaml("capture.yaml", &filled);
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(manifest["kind"], "Plugin");
    assert_eq!(manifest["metadata"]["name"], "capture");
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], "v1.2.3");
    // `kubectl krew search` truncates longer descriptions.
    let about = spec["shortDescription"].as_str().expect("a description");
    assert!((1..=50).contains(&about.len()), "{about}");
    let platform = |architecture: &str, sum: &str| {
        json!({
            "selector": { "matchLabels": { "os": "linux", "arch": architecture } },
            "uri": format!("URL/kubectl-capture-1.2.3-linux-{architecture}.tar.gz"),
            "sha256": sum.repeat(64),
            "bin": "kubectl-capture",
        })
    };
    assert_eq!(spec["platforms"], json!([platform("amd64", "a"), platform("arm64", "b")]));
}
