//! What goes over a connection through Envoy: bytes as they were sent.

use crate::{
    meshes::envoy::{
        on_every_stage,
        stage::{Stage, TIMEOUT, pod, service, until},
    },
    support::{pod::APP, setting::Family},
};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

on_every_stage! {
    bytes_pass_untouched,
}

const PORT: u16 = 8443;
/// What a record of TLS opens with that belongs to a handshake.
const HANDSHAKE: u8 = 22;

fn bytes_pass_untouched(stage: &Stage) {
    // All bytes, and more than one segment of TCP.
    let message: Vec<u8> = [HANDSHAKE].into_iter().chain((0..=u8::MAX).cycle().take(100_000)).collect();
    for family in Family::BOTH {
        for (listener, host, to) in
            [("inbound", &stage.inside, pod(family)), ("outbound", &stage.outside, service(family))]
        {
            let to = SocketAddr::new(to, PORT);
            let server = host.run(|| TcpListener::bind(to)).expect("a port of our own namespace");
            let (answer, heard) = thread::scope(|scope| {
                let served = scope.spawn(|| echo(&accept(&server)?));
                let stream = match listener {
                    "inbound" => stage.dial_from_outside(to),
                    _ => stage.dial(APP, to),
                };
                let answer = stream.and_then(|stream| say(&stream, &message));
                (answer, served.join().expect("no panic there"))
            });
            let case = || format!("{listener} {family:?}\n{}", stage.envoy.log().join("\n"));
            let answer = answer.unwrap_or_else(|error| panic!("the client: {error}: {}", case()));
            let heard = heard.unwrap_or_else(|error| panic!("the server: {error}: {}", case()));
            assert!(answer == message && heard == message, "{}", case());
            let passed = format!("to {to}, {0} bytes there, {0} back, ", message.len());
            let line = until(|| {
                let log = stage.envoy.log();
                log.into_iter().find(|line| line.starts_with(listener) && line.contains(&passed))
            });
            assert!(line.is_some(), "no line with {passed:?}: {}", case());
        }
    }
}

/// Says this to a server; its answer to the end.
fn say(mut stream: &TcpStream, message: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(message)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Hears a client to the end, and says the same to it.
fn echo(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    stream.read_to_end(&mut message)?;
    stream.write_all(&message)?;
    stream.shutdown(Shutdown::Write)?;
    Ok(message)
}

/// A connection that comes within the time limit.
fn accept(server: &TcpListener) -> io::Result<TcpStream> {
    server.set_nonblocking(true)?;
    let (stream, _) = until(|| server.accept().ok()).ok_or(io::ErrorKind::TimedOut)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}
