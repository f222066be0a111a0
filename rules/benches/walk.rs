//! Packets per second on one core, for the rules of Istio's init container and packets that meet most of them. Floor: a million.

use divan::{Bencher, counter::ItemsCount};
use rules::simulate::{Direction, Packet, Routing, View, trace, walk};
use rules::{ConnState, Family, Gid, Protocol, Uid, parse};

const RULES: &str = include_str!("../scenarios/istio-init-container/v4.rules");

fn main() {
    divan::main();
}

fn view() -> View {
    View::of_rules(&parse::restore(RULES, Family::V4).expect("a golden is ours"))
}

/// From the application to a service: meets every rule of the longest chain.
fn outbound() -> Packet {
    Packet {
        direction: Direction::Outbound {
            interface: "eth0".to_owned(),
            uid: Uid::new(1000).expect("a user"),
            gid: Gid::new(1000).expect("a group"),
        },
        protocol: Protocol::Tcp,
        source: "10.44.0.7:40000".parse().expect("an address"),
        destination: "10.96.0.20:443".parse().expect("an address"),
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    }
}

fn inbound() -> Packet {
    Packet {
        direction: Direction::Inbound { interface: "eth0".to_owned(), local: true },
        source: "10.44.0.1:40000".parse().expect("an address"),
        destination: "10.44.0.7:8080".parse().expect("an address"),
        ..outbound()
    }
}

fn run(bencher: Bencher<'_, '_>, packet: &Packet) {
    let (view, routing) = (view(), Routing::default());
    bencher
        .counter(ItemsCount::new(1_u32))
        .bench_local(|| walk(divan::black_box(&view), &routing, divan::black_box(packet)));
}

#[divan::bench]
fn verdict_outbound(bencher: Bencher<'_, '_>) {
    run(bencher, &outbound());
}

#[divan::bench]
fn verdict_inbound(bencher: Bencher<'_, '_>) {
    run(bencher, &inbound());
}

#[divan::bench]
fn trace_outbound(bencher: Bencher<'_, '_>) {
    let (view, routing, packet) = (view(), Routing::default(), outbound());
    bencher
        .counter(ItemsCount::new(1_u32))
        .bench_local(|| trace(divan::black_box(&view), &routing, divan::black_box(&packet)));
}
