//! The operating system: programs, namespaces, netlink; no policy and no rules. The only crate with `unsafe`: socket options, a
//! few system calls, forks, signal dispositions and code before `main` need it.

pub mod address;
pub mod conntrack;
pub mod dial;
pub mod exchange;
pub mod exec;
pub mod fork;
pub mod header;
pub mod inventory;
pub mod link;
pub mod listener;
pub mod lock;
pub mod lookup;
pub mod message;
pub mod mount;
pub mod namespace;
pub mod netfilter;
pub mod netlink;
pub mod nflog;
pub mod process;
pub mod route;
pub mod route_lookup;
pub mod signals;
pub mod streams;
pub mod user;
pub mod wait;
pub mod xtables;
