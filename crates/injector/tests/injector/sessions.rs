//! Commands and their output: one file of `sessions` per command.

use crate::PROGRAM;

pub(super) fn check(name: &str, variables: &[(&str, &str)]) {
    let file = format!("{}/tests/injector/sessions/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    PROGRAM.sessions(file, &[variables, &[("VERSION", env!("CARGO_PKG_VERSION"))]].concat());
}

#[test]
fn refused_calls() {
    check("refusals", &[]);
}

#[test]
fn inject() {
    check("inject", &[]);
}

#[test]
fn explain() {
    check("explain", &[]);
}

#[test]
fn lint() {
    check("lint", &[]);
}

#[test]
fn check_templates() {
    check("check-templates", &[]);
}

#[test]
fn manifests() {
    check("manifests", &[]);
}

#[test]
fn environment_routes() {
    check("environment-routes", &[]);
}
