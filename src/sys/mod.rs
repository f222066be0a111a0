//! The operating system: programs, namespaces, netlink. No policy, no rules.
//!
//! The only place where `unsafe` would be allowed; so far nothing needs it.

pub mod conntrack;
pub mod exec;
pub mod message;
pub mod namespace;
pub mod netfilter;
pub mod netlink;
pub mod process;
pub mod route;
