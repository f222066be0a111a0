//! The walk of a packet set agrees with each packet's walk.

use super::arbitrary::{EVERYBODY, lawful};
use super::listing;
use super::small::{mark_statement, packet, routing, statement};
use proptest::{collection::vec, prelude::*, test_runner::TestCaseResult};
use rules::simulate::{Atlas, Packet, PacketSet, Verdict, View, Way, Work, walk};
use rules::{ConnState, Family, State, Statement, parse};
use testkit::scope;

fn all() -> impl Iterator<Item = PacketSet> {
    let ways = [Way::Outbound, Way::Inbound { local: true }, Way::Inbound { local: false }];
    let of_way = |way| ConnState::ALL.map(|state| PacketSet::all(Family::V4, way, state));
    ways.into_iter().flat_map(of_way)
}

fn check(view: &View, packets: &[Packet], most: usize) -> TestCaseResult {
    let atlas = Atlas::of(view, &routing(), all(), &mut Work::new(most));
    let sets: Vec<&PacketSet> =
        atlas.regions.iter().map(|region| &region.packets).chain(&atlas.open).collect();
    for (index, one) in sets.iter().enumerate().take(60) {
        let meeting = sets[index + 1..].iter().find(|other| one.common(other).is_some());
        prop_assert!(meeting.is_none(), "{:?} and {:?}", one, meeting);
    }
    for packet in packets {
        let holding = sets.iter().filter(|set| set.contains(packet)).count();
        prop_assert_eq!(holding, 1, "{:?}", packet);
        let Some(region) = atlas.regions.iter().find(|region| region.packets.contains(packet)) else {
            continue;
        };
        let (alone, among) = (walk(view, &routing(), packet), region.ending.of(packet));
        // A single packet's verdict may be known despite an unknown chain order, or a comparison of packet and connection marks.
        let is_coarser = among.verdict == Verdict::Unknown;
        prop_assert!(among == alone || is_coarser, "{:?}: {:?}, but {:?}", packet, among, alone);
    }
    for region in &atlas.regions {
        let Some(packet) = region.packets.sample(&|_| Vec::new()) else { continue };
        prop_assert!(region.packets.contains(&packet), "{:?}", region.packets);
    }
    Ok(())
}

fn view(of: &[Vec<Statement>]) -> View {
    let mut view = View::empty(Family::V4);
    for (statements, label) in of.iter().zip([None, Some("legacy")]) {
        let rules = lawful(Family::V4, statements.clone(), &EVERYBODY);
        let text = listing(&State::of(rules.rules()));
        view.add_listing(parse::listing(&text, Family::V4).expect("a listing"), label);
    }
    view
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scope::runs(400, 60), ..ProptestConfig::default() })]

    #[test]
    fn packets_end_as_their_regions(
        statements in prop_oneof![
            vec(vec(statement(), 1..12), 1..3),
            vec(vec(mark_statement(), 1..12), 1..3),
        ],
        packets in vec(packet(), 40),
        little in prop::bool::weighted(0.1),
    ) {
        check(&view(&statements), &packets, if little { 300 } else { 100_000 })?;
    }
}

fn services(count: usize) -> View {
    let mut text = String::from("*nat\n-A PREROUTING -j SERVICES\n-A OUTPUT -j SERVICES\n");
    for index in 0..count {
        let address = format!("10.96.{}.{}", index / 250, index % 250 + 1);
        let port = 1000 + index % 5000;
        text += &format!(
            "-A SERVICES -d {address}/32 -p tcp -m tcp --dport {port} -j SVC{index}\n\
             -A SVC{index} ! -s 10.244.0.0/16 -d {address}/32 -p tcp -m tcp --dport {port} -j MASQ\n\
             -A SVC{index} -j SEP{index}\n\
             -A SEP{index} -p tcp -m tcp -j DNAT --to-destination 10.244.{}.{}:8080\n",
            index / 250,
            index % 250 + 1
        );
    }
    text += "-A MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n";
    View::of_listing(parse::listing(&text, Family::V4).expect("a listing"))
}

#[test]
fn the_work_grows_with_services_and_not_with_their_pairs() {
    let work = |count: usize| {
        let mut work = Work::new(100_000_000);
        let set = PacketSet::all(Family::V4, Way::Outbound, ConnState::New);
        let atlas = Atlas::of(&services(count), &routing(), [set], &mut work);
        assert!(atlas.is_complete() && atlas.regions.len() > 3 * count);
        100_000_000 - work.left()
    };
    let (few, many) = (work(200), work(800));
    assert!(many <= 6 * few, "{few} and {many}");
}

/// Six chains of equal priority, each excluding its own ports.
#[test]
fn an_undefined_order_of_chains_is_no_more_work_than_the_chains() {
    let mut view = View::empty(Family::V4);
    for table in 0..6u32 {
        let mut text = String::from("*mangle\n");
        (0..300).for_each(|rule| {
            text += &format!("-A OUTPUT -p tcp -m tcp --dport {} -j ACCEPT\n", 1000 + table * 300 + rule);
        });
        let listing = parse::listing(&(text + "COMMIT\n"), Family::V4).expect("a listing");
        view.add_listing(listing, Some(["a", "b", "c", "d", "e", "f"][table as usize]));
    }
    let mut work = Work::new(1_000_000);
    let set = PacketSet::all(Family::V4, Way::Outbound, ConnState::New);
    let atlas = Atlas::of(&view, &routing(), [set], &mut work);
    assert!(atlas.is_complete());
    assert!(atlas.regions.iter().all(|region| region.ending.verdict == Verdict::Pass));
}
