//! Several meshes in one network namespace: nothing is set beside another one's capture, one takes the place of another
//! without a moment in which neither captures, and each is removed without the others.
//!
//! The meshes here are ownerships and rules of the tests' own, but for Istio's sidecar: one with names of its own, and one
//! whose chains are called like the sidecar's. Their proxies listen at the same ports, so that a connection is captured
//! by whichever takes it.
//!
//! What is played with packets needs what the kernel tests need. Where something is missing, a test fails.

#[path = "../kernel/support/mod.rs"]
#[expect(dead_code, unused_imports, unused_macros, reason = "the kernel tests use all of it")]
mod support;

mod meshes;

mod faults;
mod packets;
mod replaced;
