//! Kuma against what upstream does: the same rules in the kernel, the same fate of every packet, the same words on the
//! command line.
//!
//! `KUMA_CASES` sets how many random configurations are tried (default 300), `KUMA_SEED` where the random numbers start.
//! Needs root, `iptables` of both variants, and `ip6tables`; never skips.

#[path = "../support/catalogue.rs"]
#[expect(dead_code, reason = "a part of it is enough here")]
mod catalogue;
#[path = "../support/flags.rs"]
mod flags;
#[path = "../kernel/support/namespace.rs"]
#[expect(dead_code, reason = "a part of it is enough here")]
mod namespace;
#[path = "../differential/random.rs"]
mod random;

mod again;
mod case;
mod drop_in;
mod refused;
mod same_rules;
mod scenarios;
mod uncommented;
mod upstream;
