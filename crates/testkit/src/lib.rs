//! Helpers for the tests of several crates: goldens, scenarios, folders, waiting, an API server, and certificates. A dependency
//! of tests only, so errors panic with the expected value.

#[cfg(feature = "cluster")]
pub mod certificates;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod command_line;
pub mod folder;
#[cfg(feature = "cluster")]
pub mod http;
#[cfg(feature = "cluster")]
pub mod monitoring;
pub mod pod_namespace;
pub mod running;
pub mod scenarios;
pub mod scope;
#[cfg(feature = "cluster")]
pub mod seccomp;
pub mod sections;
pub mod session;
pub mod wait;

pub use wait::until;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Compares a string with a file's content, which `UPDATE_GOLDENS=1` writes first.
#[track_caller]
pub fn golden(file: impl AsRef<Path>, text: &str) {
    let file = file.as_ref();
    if env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
    let written = fs::read_to_string(file)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_GOLDENS=1 writes it", file.display()));
    let same = text.split('\n').zip(written.split('\n')).take_while(|(now, then)| now == then).count();
    let [now, then] = [text, written.as_str()].map(|text| text.split('\n').nth(same));
    let section = written.lines().take(same + 1).filter_map(sections::name).last();
    let section = section.map(|name| format!(" ({name})")).unwrap_or_default();
    assert_eq!(now, then, "{}, line {}{section}; UPDATE_GOLDENS=1 writes the file", file.display(), same + 1);
}

/// Path of another package's program, beside the program `one`. `cargo test --workspace` has built it. Cargo runs here only if
/// the program is missing: it would wait for any other Cargo in the target folder.
pub fn program_beside(one: &str, package: &str) -> PathBuf {
    let folder = Path::new(one).parent().expect("a folder");
    let program = folder.join(package);
    if !program.exists() {
        let profile = folder.file_name().and_then(|name| name.to_str()).expect("a profile");
        let profile = if profile == "debug" { "dev" } else { profile };
        let target = word(folder.parent().expect("a target folder"));
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", package, "--bin", package, "--profile", profile])
            .args(["--target-dir", target])
            .current_dir(root)
            .status();
        assert!(built.expect("cargo starts").success(), "{package} can't be built");
    }
    program
}

pub fn word(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program is installed");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
