//! Helpers for traffic tests, which start a sandbox and make calls inside.

use crate::cli::sandbox::support::{Programs, RunAs};
use crate::support::program::Run;
use crate::support::scope;
use crate::support::wait::TIMEOUT;
use std::{
    any::type_name,
    env,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
};

const INSIDE: &str = "SIDECAR_INIT_TEST_INSIDE";

pub(crate) const WORLD: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2))];
pub(crate) const POD: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1))];

/// Runs `work`, a closure of the test, in sandboxes with a sample of these flags and callers. The test binary runs itself inside.
/// Returns the standard error of each call.
pub(crate) fn inside<W: Fn()>(callers: &[RunAs], flags: &[&[&str]], work: W) -> Vec<String> {
    if env::var_os(INSIDE).is_some() {
        work();
        return Vec::new();
    }
    let (_, path) = type_name::<W>().split_once("::").expect("a crate");
    let test = path.trim_end_matches("::{{closure}}");
    let programs = Programs::get();
    let each = callers.iter().flat_map(|who| flags.iter().map(move |flags| (who, flags)));
    let run = |(who, flags): (&RunAs, &&[&str])| {
        let mut call = programs.call(*who);
        call.args(*flags).arg("--").arg(programs.folder.join("inside"));
        let ended = call.args(["--exact", test, "--nocapture"]).env(INSIDE, "1").outcome();
        // An unknown test name would run no test and succeed.
        let ran = ended.stdout.contains("test result: ok. 1 passed");
        assert!(ended.code == Some(0) && ran, "{who:?} {flags:?} {test}: {ended:#?}");
        ended.stderr
    };
    scope::of(each.collect(), 3).into_iter().map(run).collect()
}

pub(crate) fn call(to: impl Into<SocketAddr>) -> TcpStream {
    let to = to.into();
    let stream = TcpStream::connect_timeout(&to, TIMEOUT).unwrap_or_else(|error| panic!("{to}: {error}"));
    patient(&stream);
    stream
}

fn patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a time");
}

/// A listener in the pod, at all addresses of a family.
pub(crate) fn listen(like: IpAddr, port: u16) -> TcpListener {
    let any: IpAddr =
        if like.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    TcpListener::bind((any, port)).unwrap_or_else(|error| panic!("{port}: {error}"))
}

pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("a client connects");
    patient(&stream);
    stream
}

/// A connection to the pod through the world's HTTP proxy: the client's and application's ends.
pub(crate) fn inbound(family: usize, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let to = SocketAddr::new(POD[family], listener.local_addr().expect("bound").port());
    let mut near = call((WORLD[family], 3128));
    near.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).expect("written");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        near.read_exact(&mut byte).expect("an answer");
        head.extend(byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
    (near, accept(listener))
}
