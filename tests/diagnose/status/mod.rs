//! `status`: what it tells of real namespaces, on all backends.
//!
//! Every test works in network namespaces that it makes; it fails where it may not make one, or where `nft`, iptables or
//! `ip` is missing.

mod all;
mod facts;
mod record;
mod report;
mod watch;
