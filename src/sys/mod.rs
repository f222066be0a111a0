//! The operating system: programs, namespaces, netlink. No policy, no rules.
//!
//! The only place where `unsafe` is allowed: socket options need it, two system calls, what comes before `main`, and the
//! heap.

pub mod address;
pub mod allocator;
pub mod conntrack;
pub mod exchange;
pub mod exec;
pub(crate) mod grace;
pub(crate) mod header;
pub mod listener;
pub mod lock;
pub mod lookup;
pub mod message;
pub mod namespace;
pub mod netfilter;
pub mod netlink;
pub mod nflog;
pub(crate) mod nfnetlink;
mod option;
pub mod process;
pub mod route;
mod streams;
pub mod wait;
pub mod xtables;
