//! Kuma against what upstream does: the same rules in the kernel.
//!
//! `KUMA_CASES` sets how many random configurations are tried (default 300), `KUMA_SEED` where the random numbers start.
//! Needs root, `iptables` of both variants, and `ip6tables`; never skips.

mod again;
mod case;
mod drop_in;
mod same_rules;
mod uncommented;
mod upstream;
