//! Ambient mode with real packets: a pod with a minimal ztunnel, a host outside, and the binary's rules, in each backend and both
//! families. Also the host's part, and Istio's own rules for comparison. `AMBIENT_LISTINGS` is the number of random
//! configurations set by real programs of each variant (50). Needs the programs of the kernel tests; never skips. Traffic stays
//! in the test's namespaces.

mod agent;
mod capture;
mod host;
mod scene;
mod states;
mod upstream;
mod ztunnel;
