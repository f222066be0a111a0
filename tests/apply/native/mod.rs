//! The native nf_tables table, written and read without another program, with `nft` as the reference. Tests work in separate
//! network namespaces and fail if they cannot create one, or without `nft`, iptables or `strace`. Verdicts for packets are
//! covered by the kernel tests.

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
