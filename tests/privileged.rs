//! The tests that need root: they make network namespaces, and set rules in them.
//!
//! One program, because each one more links the whole project again.

mod support;

mod ambient;
mod cli;
mod cni;
mod cni_install;
mod contract;
mod differential;
mod envoy;
mod gvisor;
mod kernel;
mod kuma;
mod life_cycle;
mod linkerd;
mod live;
mod meshes;
mod native;
mod oracle;
mod ownerless;
mod probe;
mod readme;
mod recording;
mod runtimes;
mod sandbox;
mod settled;
mod side_by_side;
mod status;
mod terminal;
mod trace;
mod two_meshes;
mod validation;
mod without_flags;
