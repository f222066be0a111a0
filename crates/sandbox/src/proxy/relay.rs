//! Relays the bytes of two connections in both directions, until both have ended.
//!
//! A side is read only while the other one takes its bytes, so a slow side slows down the other. The end of one direction is
//! forwarded while the other continues. A reset is forwarded as a reset.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use sys::dial;

const BUFFER: usize = 128 * 1024;

/// Relays until both directions have ended.
///
/// # Errors
/// When a side resets its connection or can't be reached any more. The other one is reset too, once both are closed.
pub(crate) fn relay(one: &TcpStream, other: &TcpStream) -> io::Result<()> {
    let done = forward(one, other);
    if done.is_err() {
        dial::reset_at_end(one);
        dial::reset_at_end(other);
    }
    done
}

fn forward(one: &TcpStream, other: &TcpStream) -> io::Result<()> {
    for stream in [one, other] {
        stream.set_nonblocking(true)?;
        // Small answers are not kept back for more to come.
        stream.set_nodelay(true)?;
    }
    let (mut there, mut back) = (Half::new(), Half::new());
    while !(there.closed && back.closed) {
        let mut polled = Vec::with_capacity(2);
        for (stream, from, to) in [(one, &there, &back), (other, &back, &there)] {
            let mut events = PollFlags::empty();
            events.set(PollFlags::POLLIN, from.wants_input());
            events.set(PollFlags::POLLOUT, !to.rest().is_empty());
            // A reset is always reported. So is a connection that is closed in both directions, again and again,
            // so that we do not listen once we have closed ours and want nothing more.
            if !events.is_empty() || !to.closed {
                polled.push(PollFd::new(stream.as_fd(), events));
            }
        }
        match poll(&mut polled, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            other => other?,
        };
        let failed =
            polled.iter().any(|polled| polled.revents().is_some_and(|is| is.contains(PollFlags::POLLERR)));
        if failed {
            return Err(ErrorKind::ConnectionReset.into());
        }
        there.go_on(one, other)?;
        back.go_on(other, one)?;
    }
    Ok(())
}

/// One direction: bytes that were read and not yet written.
struct Half {
    buffer: Vec<u8>,
    /// The range of those bytes in the buffer.
    start: usize,
    end: usize,
    /// The end of the stream was read.
    ended: bool,
    /// The end was forwarded.
    closed: bool,
}

impl Half {
    fn new() -> Self {
        Self { buffer: vec![0; BUFFER], start: 0, end: 0, ended: false, closed: false }
    }

    fn wants_input(&self) -> bool {
        !self.ended && self.rest().is_empty()
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads once, if all is written, and writes what there is until that would block.
    fn go_on(&mut self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        if self.wants_input()
            && let Some(count) = now(from.read(&mut self.buffer))?
        {
            (self.start, self.end, self.ended) = (0, count, count == 0);
        }
        while !self.rest().is_empty() {
            match now(to.write(self.rest()))? {
                Some(count) => self.start += count,
                None => return Ok(()),
            }
        }
        if self.ended && !self.closed {
            self.closed = true;
            // A side that is gone has closed both.
            match to.shutdown(Shutdown::Write) {
                Err(error) if error.kind() != ErrorKind::NotConnected => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// `None` where the call would block.
fn now(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};
    use sys::{link::NamespaceLinks, namespace};

    /// A connection in a new network namespace, which ends with it.
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

    /// Client and server at the ends of two connections, with a relay in the middle.
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

    /// Although the relay has nothing to read from the client any more, and nothing to write to it.
    #[test]
    fn a_reset_after_one_direction_has_ended_is_noticed() {
        let done = with_relay(|client, mut server| {
            client.shutdown(Shutdown::Write).expect("shut down");
            assert_eq!(server.read(&mut [0]).expect("the end"), 0);
            dial::reset_at_end(&client);
            drop(client);
            server
        });
        done.expect_err("reset");
    }

    #[test]
    fn whoever_does_not_read_holds_up_the_writer() {
        let done = with_relay(|client, mut server| {
            client.set_nonblocking(true).expect("a flag");
            let (mut written, chunk) = (0, [7; 64 * 1024]);
            let mut waits = 0;
            while waits < 20 {
                match now((&client).write(&chunk)).expect("written") {
                    Some(count) => (written, waits) = (written + count, 0),
                    None => {
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
