//! What goes over a connection through Envoy: bytes as they were sent, and as long as both ends want.

use crate::{
    meshes::envoy::{
        application::{Application, Caller},
        on_every_stage,
        stage::{Stage, TIMEOUT, pod, service, until},
        tls::Ends,
    },
    support::{pod::APP, setting::Family},
};
use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

on_every_stage! {
    tls_passes_untouched,
    a_thousand_requests_on_one_connection,
}

const PORT: u16 = 8443;
const REQUESTS: usize = 1000;
/// What a record of TLS opens with that belongs to a handshake.
const HANDSHAKE: u8 = 22;

fn tls_passes_untouched(stage: &Stage) {
    let ends = Ends::new();
    // Several records of TLS, and more than one segment of TCP.
    let message: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    for family in Family::BOTH {
        for (listener, host, to) in
            [("inbound", &stage.inside, pod(family)), ("outbound", &stage.outside, service(family))]
        {
            let to = SocketAddr::new(to, PORT);
            let server = host.run(|| TcpListener::bind(to)).expect("a port of our own namespace");
            let (client, server) = thread::scope(|scope| {
                let served = scope.spawn(|| ends.echo(accept(&server)?));
                let stream = match listener {
                    "inbound" => stage.dial_from_outside(to),
                    _ => stage.dial(APP, to),
                };
                let called = stream.and_then(|stream| ends.call(stream, &message));
                (called, served.join().expect("no panic there"))
            });
            let case = || format!("{listener} {family:?}\n{}", stage.envoy.log().join("\n"));
            let client = client.unwrap_or_else(|error| panic!("the client: {error}: {}", case()));
            let server = server.unwrap_or_else(|error| panic!("the server: {error}: {}", case()));
            assert!(client.message == message && server.message == message, "{}", case());
            assert!(client.sent == server.received && server.sent == client.received, "{}", case());
            assert_eq!((client.sent[0], client.received[0]), (HANDSHAKE, HANDSHAKE), "{}", case());
            let (there, back) = (client.sent.len(), server.sent.len());
            let passed = format!("to {to}, {there} bytes there, {back} back, ");
            let line = until(|| {
                let log = stage.envoy.log();
                log.into_iter().find(|line| line.starts_with(listener) && line.contains(&passed))
            });
            assert!(line.is_some(), "no line with {passed:?}: {}", case());
        }
    }
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

fn a_thousand_requests_on_one_connection(stage: &Stage) {
    for family in Family::BOTH {
        let (inside, outside) = (pod(family), service(family));
        for (host, to) in [(&stage.inside, inside), (&stage.outside, outside)] {
            let to = SocketAddr::new(to, PORT);
            let application = Application::start(host, to);
            let stream = if to.ip() == inside { stage.dial_from_outside(to) } else { stage.dial(APP, to) };
            let mut caller = stream.and_then(Caller::new).expect("Envoy takes it");
            let peer = caller.ask().expect("the first answer");
            for number in 2..=REQUESTS {
                let answer = caller.ask();
                assert_eq!(answer.ok(), Some(peer), "request {number} to {to}");
            }
            assert_ne!(peer, caller.local);
            assert_eq!((application.connections(), application.arrivals().len()), (1, REQUESTS));
        }
    }
}
