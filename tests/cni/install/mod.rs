//! `cni install`, `cni uninstall` and `cni repair` on a node made of two folders.

mod hostile;
pub(crate) mod http;
mod kills;
mod manifests;
mod neighbours;
mod node;
mod once;
mod programs;
mod repair;
mod rewriters;
mod seccomp;
mod watching;
