//! What delivers the project beside its scripts: workflows run scripts that exist, with flags that these have, the manifest for
//! krew has the fields that krew requires, and seccomp profiles have the form that container runtimes read.

use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn yaml(name: &str, text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn workflow(name: &str) -> Value {
    let file = format!(".github/workflows/{name}.yml");
    yaml(&file, &read(&file))
}

fn jobs(workflow: &Value) -> impl Iterator<Item = &Value> {
    workflow["jobs"].as_object().expect("jobs").values()
}

fn commands(workflow: &Value) -> Vec<String> {
    let steps = jobs(workflow).flat_map(|job| job["steps"].as_array().expect("steps"));
    steps.filter_map(|step| step["run"].as_str()).map(str::to_owned).collect()
}

#[test]
fn workflows_run_scripts_that_exist_and_nothing_else() {
    let mut run = Vec::new();
    for command in ["ci", "release"].into_iter().flat_map(|name| commands(&workflow(name))) {
        let words: Vec<&str> = command.split_whitespace().collect();
        if command.starts_with("git config ") || command.starts_with("gh release create ") {
            continue;
        }
        let script = root().join(words[0]);
        let mode =
            fs::metadata(&script).unwrap_or_else(|error| panic!("{command}: {error}")).permissions().mode();
        assert!(script.is_file() && mode & 0o111 != 0, "{command}: {} is not executable", words[0]);
        let text = read(words[0]);
        for flag in words.iter().filter(|word| word.starts_with("--")) {
            assert!(text.contains(&format!("\n  {flag} ")), "{command}: {} has no {flag}", words[0]);
        }
        run.push(words[0].to_owned());
    }
    assert_eq!(run, [".ci/run", "scripts/release", "scripts/image"]);
}

/// The bytes of a release depend on the version of Rust.
#[test]
fn workflows_use_one_rust_that_is_new_enough() {
    let workflows = ["ci", "release"].map(workflow);
    let images: Vec<&str> =
        workflows.iter().flat_map(jobs).filter_map(|job| job["container"]["image"].as_str()).collect();
    let version =
        |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().expect("a number")).collect() };
    let used = images[0]
        .strip_prefix("rust:")
        .and_then(|rest| rest.strip_suffix("-bookworm"))
        .expect("Rust on Debian");
    assert_eq!(images, [images[0]; 2]);
    let manifest = read("Cargo.toml");
    let (_, oldest) = manifest.split_once("rust-version = \"").expect("the oldest Rust");
    let (oldest, _) = oldest.split_once('"').expect("its end");
    assert!(version(used) >= version(oldest), "{used} is older than {oldest}");
}

/// Calls by which a container with CAP_SYS_ADMIN or CAP_SYS_PTRACE changes its node or other processes.
const NEVER: [&str; 14] = [
    "bpf",
    "delete_module",
    "finit_module",
    "init_module",
    "kexec_load",
    "mount",
    "move_mount",
    "open_by_handle_at",
    "pidfd_getfd",
    "pivot_root",
    "process_vm_writev",
    "ptrace",
    "umount2",
    "unshare",
];

#[test]
fn seccomp_profiles_have_the_form_that_runtimes_read_and_allow_little() {
    for name in ["sidecar-cni", "sidecar-node"] {
        let file = format!("docker/cni/seccomp/{name}.json");
        let profile: Value =
            serde_json::from_str(&read(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO", "{file}");
        assert_eq!(profile["architectures"], json!(["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]), "{file}");
        let mut allowed = BTreeSet::new();
        for group in profile["syscalls"].as_array().expect("groups") {
            assert_eq!(group["action"], "SCMP_ACT_ALLOW", "{file}: {group}");
            assert!(group["comment"].as_str().is_some_and(|reason| !reason.is_empty()), "{file}: {group}");
            let names = group["names"].as_array().expect("names").iter();
            let names: Vec<&str> = names.map(|name| name.as_str().expect("a name")).collect();
            assert!(names.is_sorted(), "{file}: {names:?}");
            for call in names {
                assert!(allowed.insert(call), "{file}: {call} is there twice");
            }
        }
        let never: Vec<&str> = NEVER.into_iter().filter(|call| allowed.contains(call)).collect();
        assert!(never.is_empty(), "{file} allows {never:?}");
        assert_eq!(allowed.contains("setns"), name == "sidecar-node", "{file}");
    }
}

#[test]
fn the_manifest_for_krew_has_what_krew_requires() {
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
    let about = spec["shortDescription"].as_str().expect("a description");
    // What `kubectl krew search` shows without shortening it.
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
