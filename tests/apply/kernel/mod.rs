//! Kernel tests: the binary sets its rules in a network namespace, then real TCP and UDP show the verdicts. Tests hold their
//! namespaces by file descriptor only, so none remains even if the test process is killed. The namespace that the tests start in
//! is never changed. They need root (or the capabilities SYS_ADMIN, NET_ADMIN, NET_RAW, SETUID and SETGID), `ip`, both iptables
//! variants and `nft`, and fail without them; they never skip. Golden tests cover the printed rules.

mod dns;
mod landings;
mod tproxy;
