//! Kuma's rules in the kernel are equal to upstream's. `KUMA_CASES` is the number of random configurations (300), `KUMA_SEED` the
//! seed. Needs root and both variants of `iptables` and `ip6tables`; never skips.

mod again;
mod case;
mod drop_in;
mod same_rules;
mod uncommented;
mod upstream;
