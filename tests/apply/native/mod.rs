//! Our own table of nf_tables, written and read without any other program, against `nft` as the judge.
//!
//! Every test works in network namespaces that it makes; it fails where it may not make one, or where `nft`, iptables
//! or `strace` is missing. Where which packets land is the concern of the kernel tests, not of these.

#[path = "../../../rules/tests/laws/arbitrary.rs"]
#[expect(dead_code, reason = "the laws of the model use all of it")]
mod arbitrary;
mod chroot;
mod differential;
mod life;
mod limits;
mod musl;
mod read_back;
mod rights;
#[path = "../../../rules/tests/laws/small.rs"]
#[expect(dead_code, reason = "the laws of the model use all of it")]
mod small;
mod support;
mod vocabulary;
mod whole;
