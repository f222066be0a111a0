//! Documents that are generated from the tables and types of the commands: the reference, the page of meshes, the schemas of
//! outputs. Tests compare them with the files.

mod contract;
mod meshes;
mod reference;

use std::{env, fs};

/// Compares a generated page with its file in `docs`, which `UPDATE_GOLDENS=1` writes.
fn compare(name: &str, text: &str) {
    let path = format!("{}/docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
    if env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&path, text).expect("the page is written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(text == written, "docs/{name}.md is not up to date: run this test with UPDATE_GOLDENS=1");
}
