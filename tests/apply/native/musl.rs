//! The static binary, which needs no other file, built for musl from the sources under test with the release profile: without
//! optimisation it is several times as large.

use crate::support::program::Run;
use std::{env, fs, path::PathBuf, process::Command, sync::OnceLock};

/// Cargo does nothing if the binary is up to date.
pub(crate) fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let triple = format!("{}-unknown-linux-musl", env::consts::ARCH);
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let target = target.parent().expect("the folder that cargo builds in");
        // The tests' namespace has no network, and the build needs none.
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--release",
                "--offline",
                "--locked",
                "--bin",
                "sidecar-init",
                "--target",
                &triple,
            ])
            .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
            .arg("--target-dir")
            .arg(target)
            .outcome();
        built.with(0, &format!("a build for {triple}, which scripts/setup makes possible"));
        target.join(triple).join("release/sidecar-init")
    })
}

/// A node copies the binary, and a container starts it: a larger binary probably links code by mistake.
#[test]
#[ignore = "builds the static binary"]
fn static_binary_stays_small() {
    let bytes = fs::metadata(binary()).expect("the binary").len();
    assert!(bytes < 5_500_000, "{bytes} bytes");
}

/// musl makes some system calls that glibc does not.
#[test]
#[ignore = "builds the static binary"]
fn sandbox_works_in_the_static_binary() {
    let tour = Command::new(binary()).arg("sandbox").outcome().with(0, "sandbox");
    assert!(tour.stdout.contains("connections matched the rules"), "{tour:?}");
}
