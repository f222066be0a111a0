//! Bytes through the proxy: complete, in order, both ways, many at once. The relay's own tests cover the end of connections.

use crate::cli::sandbox::calls::{WORLD, accept, call, inbound, inside, listen};
use crate::cli::sandbox::support::{EVERYBODY, RunAs};
use crate::support::rows::rows;
use crate::support::scope;
use fastrand::Rng;
use nix::sys::socket::{SockaddrIn, getsockopt, sockopt};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

const BOTH_MODES: &[&[&str]] = &[&[], &["-m", "TPROXY"]];
const MEBIBYTE: usize = 1 << 20;

/// Pseudo-random block with this number; no two are alike, and none resembles part of another.
fn block(number: u64) -> Vec<u8> {
    let mut block = vec![0; MEBIBYTE];
    Rng::with_seed(number).fill(&mut block);
    block
}

fn send(mut to: &TcpStream, mebibytes: u64) {
    (0..mebibytes).for_each(|number| to.write_all(&block(number)).expect("written"));
    to.shutdown(Shutdown::Write).expect("open until now");
}

fn receive(mut from: &TcpStream, mebibytes: u64) {
    let mut came = vec![0; MEBIBYTE];
    for number in 0..mebibytes {
        from.read_exact(&mut came).unwrap_or_else(|error| panic!("block {number}: {error}"));
        assert!(came == block(number), "block {number} differs");
    }
    assert_eq!(from.read(&mut came).expect("an end"), 0, "more bytes than were sent");
}

fn echoed(mebibytes: u64, family: usize) {
    let stream = call((WORLD[family], 7));
    thread::scope(|scope| {
        scope.spawn(|| send(&stream, mebibytes));
        receive(&stream, mebibytes);
    });
}

/// Sends both ways at once, twice through the proxy: to the world, which calls the application.
fn delivered(mebibytes: u64, family: usize) {
    let listener = listen(WORLD[family], 9000);
    let (near, far) = inbound(family, &listener);
    thread::scope(|scope| {
        scope.spawn(|| send(&near, mebibytes));
        scope.spawn(|| send(&far, mebibytes / 4));
        scope.spawn(|| receive(&near, mebibytes / 4));
        receive(&far, mebibytes);
    });
}

rows! {
    a_gibibyte_goes_out_and_comes_back: inside(&[RunAs::Root], &[&[]], || echoed(scope::runs(1024, 128), 0));
    a_gibibyte_arrives: inside(&[RunAs::Root], &[&[]], || delivered(scope::runs(1024, 128), 0));
}

#[test]
fn bytes_arrive_in_every_mode_and_family() {
    inside(&EVERYBODY, BOTH_MODES, || {
        for family in [0, 1] {
            echoed(16, family);
            delivered(16, family);
        }
    });
}

#[test]
fn hundreds_of_connections_at_once() {
    let out = scope::runs(200, 50);
    let printed = inside(&[RunAs::Root, RunAs::One], BOTH_MODES, || {
        let listener = listen(WORLD[0], 9000);
        let outbound: Vec<TcpStream> = (0..out).map(|_| call((WORLD[0], 7))).collect();
        let inbound: Vec<_> = (0..out / 2).map(|_| inbound(0, &listener)).collect();
        let pairs = outbound.iter().map(|stream| (stream, stream));
        let pairs: Vec<_> = pairs.chain(inbound.iter().map(|(near, far)| (near, far))).collect();
        // All connections are open with bytes in flight before any is read.
        for (number, &(mut near, _)) in (0..).zip(&pairs) {
            near.write_all(&block(number)[..4096]).expect("written");
        }
        for (number, &(near, mut far)) in (0..).zip(&pairs) {
            near.shutdown(Shutdown::Write).expect("open");
            let mut came = Vec::new();
            far.read_to_end(&mut came).expect("all of it");
            assert!(came == block(number)[..4096], "connection {number}");
        }
    });
    for printed in printed {
        assert_eq!(printed.matches("outbound 10.9.0.2:7 -> 15001, from uid ").count(), out, "{printed}");
        assert_eq!(
            printed.matches("inbound 10.9.0.1:9000 -> 15006, from 10.9.0.2:").count(),
            out / 2,
            "{printed}"
        );
    }
}

/// The test acts as the proxy.
#[test]
fn proxy_none_leaves_the_ports_free() {
    let printed = inside(&EVERYBODY, &[&["--proxy", "none"]], || {
        let proxy = TcpListener::bind("0.0.0.0:15001").expect("a free port");
        let client = thread::spawn(|| {
            let mut stream = call((WORLD[0], 80));
            stream.write_all(b"to the world").expect("written");
            stream.shutdown(Shutdown::Write).expect("open");
        });
        let mut taken = accept(&proxy);
        let mut output = String::new();
        taken.read_to_string(&mut output).expect("all of it");
        client.join().expect("the client ends");
        let original = getsockopt(&taken, sockopt::OriginalDst).expect("an original destination");
        let original = SocketAddr::V4(SockaddrIn::from(original).into());
        assert_eq!((output.as_str(), original), ("to the world", SocketAddr::new(WORLD[0], 80)));
    });
    for printed in printed {
        assert!(!printed.contains("proxy: "), "{printed}");
    }
}
