//! `status` in real namespaces, on all backends. Tests work in separate network namespaces and fail if they cannot create one, or
//! without `nft`, iptables or `ip`.

mod all;
mod facts;
mod record;
mod report;
mod watch;
