//! The simulator against the kernel: random configurations, random packets, one answer.
//!
//! Each configuration is set by the binary in a namespace of its own. Then real sockets of real users and groups
//! call, and where a call lands must be what `explain` says: over the rules that the policy made, and over the same
//! rules as iptables lists them. A disagreement is made as small as it gets and printed.
//!
//! `DIFFERENTIAL_PAIRS` sets how many pairs of a configuration and a packet there are in all (default 1,200),
//! `DIFFERENTIAL_SEED` where the random numbers start; each day a sample of the configurations is tried. Needs what the
//! kernel tests need; never skips.

use crate::support;
use crate::support::rows::rows;
use crate::support::scope;

mod calls;
mod oracle;

use crate::support::configurations::Configuration;
use crate::support::random::{Random, number};
use calls::Packet;
use oracle::{Disagreement, Scene};
use support::setting::{Family, Mode, Setting, Variant};

/// Packets tried in each configuration; a namespace costs more than a packet.
const PACKETS: usize = 25;

/// Tries its share of all pairs, in both modes.
fn check(variant: Variant, family: Family) {
    let seed: u64 = number("DIFFERENTIAL_SEED", 1);
    let pairs: u64 = number("DIFFERENTIAL_PAIRS", 1_200) / 6;
    let configurations = pairs.div_ceil(PACKETS as u64);
    for turn in scope::of((0..configurations).collect(), 2) {
        let mut random = Random::new(seed ^ (variant as u64) << 32 ^ (family as u64) << 33 ^ turn << 40);
        let mode = if turn % 2 == 0 { Mode::Redirect } else { Mode::Tproxy };
        let setting = Setting { variant, family, mode };
        let configuration = Configuration::random(&mut random);
        let packets: Vec<Packet> =
            (0..PACKETS).map(|_| Packet::random(&mut random, &configuration)).collect();
        let scene = Scene::new(setting, &configuration);
        for packet in packets {
            if let Err(disagreement) = scene.try_packet(&packet) {
                panic!("seed {seed}: {}", smallest(setting, configuration, &packet, disagreement));
            }
        }
    }
}

/// Takes parts of the configuration away as long as the disagreement stays.
fn smallest(setting: Setting, start: Configuration, packet: &Packet, found: Disagreement) -> Disagreement {
    let (mut configuration, mut disagreement) = (start, found);
    let mut part = 0;
    while part < configuration.parts.len() {
        let smaller = configuration.without(part);
        let can_send = packet.from != calls::Sender::Vm || smaller.has_vm();
        match can_send.then(|| Scene::new(setting, &smaller).try_packet(packet)) {
            Some(Err(same)) => (configuration, disagreement) = (smaller, same),
            Some(Ok(())) | None => part += 1,
        }
    }
    disagreement
}

rows! {
    legacy_v4: check(Variant::Legacy, Family::V4);
    legacy_v6: check(Variant::Legacy, Family::V6);
    nft_v4: check(Variant::Nft, Family::V4);
    nft_v6: check(Variant::Nft, Family::V6);
    native_v4: check(Variant::Native, Family::V4);
    native_v6: check(Variant::Native, Family::V6);
}
