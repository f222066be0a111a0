//! The CNI plugin, called as by a container runtime, tested against the specification and real network namespaces. Each test has
//! a separate state directory, log and namespaces; `nft` lists the rules. Tests fail if they may not create a namespace, or
//! without `nft`, iptables, `strace` or `mount`.

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
