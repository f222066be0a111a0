//! Kernel tests: the binary sets its rules in a network namespace, then real TCP and UDP show where traffic
//! lands.
//!
//! Every test makes the namespaces it needs and holds them by file descriptor only, so that nothing is left
//! behind even if the test process is killed. Nothing is ever changed in the namespace that the tests start
//! in.
//!
//! They need root (or the capabilities SYS_ADMIN, NET_ADMIN, NET_RAW, SETUID and SETGID), `ip`, and both
//! variants of iptables and `nft`. Where one of these is missing the tests fail and say so; they never skip. What is
//! printed for which flags is not the concern here: the golden tests compare text, these watch packets.

mod dns;
mod landings;
mod tproxy;
