//! DNS: the application's queries go through Envoy unchanged, and the server's answers come back; over UDP and TCP, in both
//! families.

use crate::{
    meshes::envoy::{
        on_every_stage,
        stage::{RESOLVER, RESOLVER_V6, Stage, TIMEOUT},
    },
    support::{
        pod::APP,
        traffic::{assume, receive},
    },
};
use nix::sys::socket::{Shutdown, shutdown};
use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    thread,
};

on_every_stage! {
    queries_reach_the_server,
}

const PORT: u16 = 53;
/// An address that occurs nowhere else in the tests.
const ANSWER: [u8; 4] = [192, 0, 2, 53];

fn queries_reach_the_server(stage: &Stage) {
    let server = Server::start(stage);
    let servers = [IpAddr::from(RESOLVER), RESOLVER_V6.into()].map(|ip| SocketAddr::new(ip, PORT));
    for (number, to) in (1_u16..).zip(servers) {
        // Record types that Envoy would have to parse if it did more than pass queries on: A, TXT.
        for (kind, name) in [(1, "app.example"), (16, "text.example")] {
            let query = query(number, kind, name);
            for ask in [over_udp, over_tcp] {
                let answer = ask(stage, to, &query);
                let answer = answer.unwrap_or_else(|error| {
                    panic!("{to} {name}: {error}\n{}\n{}", stage.envoy.log().join("\n"), stage.rules())
                });
                assert_eq!(answer, answer_to(&query), "{to} {name}");
            }
        }
    }
    drop(server);
}

fn over_udp(stage: &Stage, to: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let any = crate::support::address::any(
        if to.is_ipv4() { crate::support::setting::Family::V4 } else { crate::support::setting::Family::V6 },
        0,
    );
    let socket = stage.inside.run(|| {
        assume(APP);
        let socket = UdpSocket::bind(any)?;
        // A connected socket accepts only this server's answers and reports closed ports.
        socket.connect(to)?;
        Ok::<_, io::Error>(socket)
    })?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.send(query)?;
    let mut answer = [0; 512];
    let length = receive(&socket, &mut answer)?;
    Ok(answer[..length].to_vec())
}

fn over_tcp(stage: &Stage, to: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = stage.dial(APP, to)?;
    write_message(&mut stream, query)?;
    read_message(&mut stream)
}

/// A server outside that answers every query with the query itself and one address record.
struct Server {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Server {
    /// The server has only the address in the configuration: unforwarded queries reach no server.
    fn start(stage: &Stage) -> Self {
        let (udp, tcp) = stage.outside.run(|| {
            let udp = UdpSocket::bind((RESOLVER, PORT)).expect("a free port");
            (udp, TcpListener::bind((RESOLVER, PORT)).expect("a free port"))
        });
        let (datagrams, streams) =
            (udp.try_clone().expect("a descriptor is free"), tcp.try_clone().expect("a descriptor is free"));
        thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length @ 1.., peer)) = datagrams.recv_from(&mut query) {
                let _ = datagrams.send_to(&answer_to(&query[..length]), peer);
            }
        });
        thread::spawn(move || {
            while let Ok((mut stream, _)) = streams.accept() {
                let _ = read_message(&mut stream)
                    .and_then(|query| write_message(&mut stream, &answer_to(&query)));
            }
        });
        Self { udp, tcp }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = shutdown(self.udp.as_raw_fd(), Shutdown::Both);
        let _ = shutdown(self.tcp.as_raw_fd(), Shutdown::Both);
    }
}

/// A DNS query for one name (RFC 1035, 4.1).
fn query(id: u16, kind: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).expect("a short label"));
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    message
}

fn answer_to(query: &[u8]) -> Vec<u8> {
    let mut message = query.to_vec();
    message[2] |= 0x80;
    message[7] = 1;
    message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    message.extend(ANSWER);
    message
}

fn write_message(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], message].concat())
}

fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message)?;
    Ok(message)
}
