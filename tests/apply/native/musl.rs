//! The static binary, which needs no other file: built for musl from the sources under test, as it
//! is shipped: without optimisation it is several times as large.

use crate::support::program::Run;
use std::{env, fs, path::PathBuf, process::Command, sync::OnceLock};

/// Cargo has nothing to do when it is there already.
pub(crate) fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let triple = format!("{}-unknown-linux-musl", env::consts::ARCH);
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let target = target.parent().expect("the folder that cargo builds in");
        // Nothing is reached over the network from the namespace that tests run in, and nothing has to be.
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

/// A node copies it, and a container starts it: what is beyond this is likely to be linked by mistake.
#[test]
#[ignore = "builds the static binary"]
fn it_stays_small() {
    let bytes = fs::metadata(binary()).expect("the binary").len();
    assert!(bytes < 5_500_000, "{bytes} bytes");
}

/// The C library is another one, and some of its calls differ.
#[test]
#[ignore = "builds the static binary"]
fn its_sandbox_is_that_of_every_build() {
    let tour = Command::new(binary()).arg("sandbox").outcome().with(0, "sandbox");
    assert!(tour.stdout.contains("connections matched the rules"), "{tour:?}");
}
