//! The playground in a real browser: Chromium, driven by WebDriver. `scripts/playground` builds the page. Browsers run in the
//! test's network namespace, where only loopback is reachable, and in separate PID namespaces, so a browser's processes end
//! with its test, even a killed one.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

mod accessibility;
mod answers;
mod browser;
#[path = "../../../../crates/testkit/src/scenarios.rs"]
#[expect(dead_code, reason = "only part of the module is used")]
mod catalogue;
mod hosting;
mod keyboard;
mod looks;
mod page;
mod same;
mod server;
mod using;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(ROOT);
        let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
        let target = root.join("target");
        let arguments = ["build", "--quiet", "--locked", "--bin", "sidecar-init", "--target-dir"];
        let status =
            Command::new(cargo).args(arguments).arg(&target).current_dir(root).status().expect("cargo");
        assert!(status.success(), "the program builds");
        target.join("debug/sidecar-init")
    })
}
