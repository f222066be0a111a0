//! Ambient mode with real packets: a pod with a small ztunnel in it, somebody outside, and the rules as the binary sets
//! them, by each backend and in both families. Beside it the host's part, and Istio's own rules to compare ours with.
//!
//! `AMBIENT_PAIRS` sets through how many random configurations packets walk (default 300), `AMBIENT_LISTINGS` how many are
//! set by real programs of each variant (default 50), `AMBIENT_SEED` where the random numbers start. Needs what the kernel
//! tests need; never skips. Traffic stays in namespaces of the test's own.

mod agent;
mod capture;
mod host;
mod refused;
mod same;
mod scene;
mod states;
mod upstream;
mod ztunnel;
