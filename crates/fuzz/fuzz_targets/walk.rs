//! Fuzzes a packet's walk through arbitrary rules: no panic, and termination.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::simulate::{Direction, Packet, Routing, View, walk};
use rules::{ConnState, Family, Gid, Protocol, Uid, parse};

fuzz_target!(|text: &str| {
    let Ok(listing) = parse::listing(text, Family::V4) else { return };
    let view = View::of_listing(listing);
    let out = Direction::Outbound {
        interface: "eth0".to_owned(),
        uid: Uid::new(1000).expect("a user"),
        gid: Gid::new(1000).expect("a group"),
    };
    let back = Direction::Outbound {
        interface: "lo".to_owned(),
        uid: Uid::new(1000).expect("a user"),
        gid: Gid::new(1000).expect("a group"),
    };
    let arriving = Direction::Inbound { interface: "eth0".to_owned(), local: true };
    for direction in [out, back, arriving] {
        let packet = Packet {
            direction,
            protocol: Protocol::Tcp,
            source: "10.0.0.2:40000".parse().expect("an address"),
            destination: "10.0.0.5:443".parse().expect("an address"),
            mark: 0,
            connmark: 0,
            state: ConnState::New,
        };
        walk(&view, &Routing::default(), &packet);
    }
});
