//! The CNI plugin, called as a container runtime calls it, against the specification and real network namespaces.
//!
//! Each test has a state directory, a log and namespaces of its own; `nft` tells what rules there are. A test fails where
//! it may not make a namespace, or where `nft`, iptables, `strace` or `mount` is missing.

mod check;
pub(crate) mod hostile;
pub(crate) mod kills;
mod many;
mod meshes;
mod own;
mod pods;
mod preview;
mod races;
mod removal;
pub(crate) mod runtime;
mod time;
mod torn;
mod traces;
mod unanswered;
