//! Each arrow tells what the simulator says of its packets: for configurations and packets at random.

use super::{Fate, of};
use crate::explain::{Pod, Scene};
use crate::lint::laws::{config, packet, parsed};
use crate::sources::Dialect;
use proptest::{collection::vec, prelude::*};
use rules::simulate::walk;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn an_arrow_tells_what_becomes_of_its_packets(config in config(), packets in vec(packet(), 100)) {
        let pod = Pod::new([parsed("10.1.0.9"), parsed("fd00:1::9")], Some(&config));
        let picture = of(&config, &Dialect::default());
        for family in config.families() {
            let scene = Scene::of_config(&config, family, &pod);
            for packet in packets.iter().filter(|packet| packet.family() == family) {
                let Some(flow) = picture.flow_of(packet) else { continue };
                let verdict = walk(&scene.view, &scene.routing, packet, &mut ()).verdict;
                prop_assert_eq!(flow.fate(), Fate::from(verdict), "{:?}\n{:?}", packet, flow);
            }
        }
    }
}
