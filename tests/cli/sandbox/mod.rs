//! `sidecar-init sandbox` as people call it: as root, as a user with users of his own and as one without, with its tour and
//! with commands; real bytes through its proxy; and nothing left of it, however it ends.
//!
//! Tests of traffic run twice: outside they start a sandbox with themselves as the command, and inside they make the
//! connections. Nothing else could see both ends.

mod calls;
mod commands;
mod kills;
mod support;
mod traffic;
