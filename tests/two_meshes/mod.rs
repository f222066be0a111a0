//! Several meshes in one network namespace: nothing is set beside another one's capture, one takes the place of another
//! without a moment in which neither captures, and each is removed without the others.
//!
//! The meshes are those of the list, each with a configuration that uses all that its rules may use. No fifth one needs a
//! word here but its row in `meshes.rs`.
//!
//! What is played with packets needs what the kernel tests need. Where something is missing, a test fails.

mod meshes;
mod scene;
mod watched;

mod faults;
mod killed;
mod moves;
mod packets;
mod replaced;
