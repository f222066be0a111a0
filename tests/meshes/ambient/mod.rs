//! Ambient mode with real packets: a pod with a small ztunnel in it, somebody outside, and the rules as the binary sets
//! them, by each backend and in both families. Beside it the host's part, and Istio's own rules to compare ours with.
//!
//! `AMBIENT_LISTINGS` sets how many random configurations are set by real programs of each variant (default 50). Needs what
//! the kernel tests need; never skips. Traffic stays in namespaces of the test's own.

mod agent;
mod capture;
mod host;
mod scene;
mod states;
mod upstream;
mod ztunnel;
