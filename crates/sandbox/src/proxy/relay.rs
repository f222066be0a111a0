//! Relay of the bytes of two connections in both directions, until both have ended.
//!
//! The end of one direction is forwarded while the other continues, and a reset as a reset.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use sys::dial;

/// Fails if a side resets its connection or becomes unreachable. The other one is reset too, once both are closed.
pub(crate) fn relay(one: &TcpStream, other: &TcpStream) -> io::Result<()> {
    for stream in [one, other] {
        // Small answers are not delayed for more data.
        stream.set_nodelay(true)?;
    }
    let has_failed = AtomicBool::new(false);
    let forward = |mut from: &TcpStream, mut to: &TcpStream| {
        let done = io::copy(&mut from, &mut to).and_then(|_| {
            let ended = if has_failed.load(Ordering::SeqCst) { Ok(()) } else { to.shutdown(Shutdown::Write) };
            // A side that has gone has closed both directions.
            ended.or_else(
                |error| if error.kind() == io::ErrorKind::NotConnected { Ok(()) } else { Err(error) },
            )
        });
        if done.is_err() && !has_failed.swap(true, Ordering::SeqCst) {
            for stream in [one, other] {
                dial::reset_at_end(stream);
                let _ = stream.shutdown(Shutdown::Read);
            }
        }
        done
    };
    thread::scope(|scope| {
        let back = scope.spawn(|| forward(other, one));
        forward(one, other).and(back.join().expect("it does not panic"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use sys::{link::NamespaceLinks, namespace};

    /// Connection in a new network namespace, which ends with it.
    fn pair() -> (TcpStream, TcpStream) {
        let made = namespace::within_new(|| {
            NamespaceLinks::open()
                .and_then(|mut links| links.up("lo"))
                .expect("a link that every namespace has");
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let near =
                TcpStream::connect(listener.local_addr().expect("bound")).expect("the listener accepts");
            (near, listener.accept().expect("a client connects").0)
        });
        made.expect("tests run as root")
    }

    fn with_relay<Kept>(ends: impl FnOnce(TcpStream, TcpStream) -> Kept) -> io::Result<()> {
        let ((client, front), (back, server)) = (pair(), pair());
        let relayed = thread::spawn(move || relay(&front, &back));
        let kept = ends(client, server);
        let done = relayed.join().expect("it does not panic");
        drop(kept);
        done
    }

    #[test]
    fn a_direction_may_end_before_the_other() {
        let done = with_relay(|mut client, mut server| {
            client.write_all(b"question").expect("written");
            client.shutdown(Shutdown::Write).expect("shut down");
            let mut question = String::new();
            server.read_to_string(&mut question).expect("read to its end");
            assert_eq!(question, "question");
            server.write_all(b"answer").expect("the other direction is open");
            drop(server);
            let mut answer = String::new();
            client.read_to_string(&mut answer).expect("read to its end");
            assert_eq!(answer, "answer");
        });
        done.expect("both have ended well");
    }

    #[test]
    fn a_reset_is_passed_on() {
        for client_resets in [true, false] {
            let done = with_relay(|client, server| {
                let (resets, mut other) = if client_resets { (client, server) } else { (server, client) };
                dial::reset_at_end(&resets);
                drop(resets);
                let error = other.read(&mut [0]).expect_err("no orderly end");
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            });
            assert_eq!(done.expect_err("reset").kind(), ErrorKind::ConnectionReset);
        }
    }

    #[test]
    fn a_side_that_does_not_read_blocks_the_writer() {
        let done = with_relay(|client, mut server| {
            client.set_nonblocking(true).expect("a flag");
            let (mut written, chunk) = (0, [7; 64 * 1024]);
            let mut waits = 0;
            while waits < 20 {
                match (&client).write(&chunk) {
                    Ok(count) => (written, waits) = (written + count, 0),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        waits += 1;
                        thread::sleep(std::time::Duration::from_millis(5));
                    }
                }
                assert!(written < 64 << 20, "the peer does not read");
            }
            client.shutdown(Shutdown::Write).expect("shut down");
            let mut read = Vec::new();
            server.read_to_end(&mut read).expect("read");
            assert_eq!(read.len(), written);
        });
        done.expect("both have ended well");
    }
}
