//! The backends against each other: the same packets meet the same fate, whoever holds the rules.
//!
//! No simulator is asked: where a real call lands with one backend is compared with where it lands with the others.

use super::calls::Packet;
use super::oracle::Scene;
use super::{PACKETS, number};
use crate::support::configurations::Configuration;
use crate::support::random::Random;
use crate::support::rows::rows;
use crate::support::setting::{Family, Mode, Setting, Variant};

const VARIANTS: [Variant; 3] = [Variant::Native, Variant::Nft, Variant::Legacy];

fn check(family: Family, mode: Mode) {
    let seed = number("DIFFERENTIAL_SEED", 1);
    let pairs: u64 = number("DIFFERENTIAL_FATES", 300) / 4;
    let mut random = Random::new(seed ^ (family as u64) << 34 ^ (mode as u64) << 35);
    for _ in 0..pairs.div_ceil(PACKETS as u64) {
        let configuration = Configuration::random(&mut random);
        let scenes = VARIANTS.map(|variant| Scene::new(Setting { variant, family, mode }, &configuration));
        for _ in 0..PACKETS {
            let packet = Packet::random(&mut random, &configuration);
            let fates = scenes.each_ref().map(|scene| scene.verdict(&packet));
            assert!(
                fates.iter().all(|outcome| *outcome == fates[0]),
                "seed {seed}: {packet:?}\n{fates:#?}\n{}",
                scenes.each_ref().map(Scene::printed).join("\n"),
            );
        }
    }
}

rows! {
    same_fate_v4_redirect: check(Family::V4, Mode::Redirect);
    same_fate_v4_tproxy: check(Family::V4, Mode::Tproxy);
    same_fate_v6_redirect: check(Family::V6, Mode::Redirect);
    same_fate_v6_tproxy: check(Family::V6, Mode::Tproxy);
}
