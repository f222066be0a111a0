//! Ambient mode with real packets: a pod with a small ztunnel in it, somebody outside, and the rules as the binary sets
//! them, by each backend and in both families. Beside it the host's part, and Istio's own rules to compare ours with.
//!
//! Needs what the kernel tests need; never skips. Traffic stays in namespaces of the test's own.

#[path = "../kernel/support/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "shared with the kernel tests, which use all of it"
)]
mod support;

#[path = "../differential/random.rs"]
mod random;

mod capture;
mod host;
mod scene;
mod upstream;
mod ztunnel;
