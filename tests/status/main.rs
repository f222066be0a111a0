//! `status`: what it tells of real namespaces, on all backends, and that it reads rules as the policy meant them.
//!
//! Every test works in network namespaces that it makes; it fails where it may not make one, or where `nft`, iptables or
//! `ip` is missing.

#[path = "../differential/configurations.rs"]
#[expect(dead_code, reason = "shared with the differential tests, which use all of it")]
mod configurations;
#[path = "../differential/random.rs"]
mod random;
#[path = "../life_cycle/stage.rs"]
#[expect(dead_code, reason = "the life cycle's tests use all of it")]
mod stage;
#[path = "../kernel/support/mod.rs"]
#[expect(dead_code, unused_imports, unused_macros, reason = "the kernel tests use all of it")]
mod support;
#[path = "../life_cycle/upstream.rs"]
#[expect(dead_code, reason = "the life cycle's tests use all of it")]
mod upstream;

mod law;
mod record;
mod told;
mod watch;
