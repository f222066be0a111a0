//! Readiness and metrics over HTTP: one request a connection, limited in size and time.
//!
//! One thread serves all connections of an address at once, so a client that says nothing holds up no other. There is room
//! for some; where one more comes, the oldest that still waits for its request is closed.

use super::metrics::{self, Installer};
use crate::cni::counters;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long a connection may take, from its start to the last byte of the answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long the head of a request may be.
const MAX_BYTES: usize = 8 * 1024;
/// How many connections may be open: a node has a kubelet and a scraper or two.
const MAX_CONNECTIONS: usize = 64;
/// How long to wait where no connection can be taken, as without descriptors.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// What the installer shows.
#[derive(Debug)]
pub(super) struct SharedStatus {
    pub(super) state: PathBuf,
    pub(super) installer: Mutex<Installer>,
}

impl SharedStatus {
    pub(super) fn change(&self, change: impl FnOnce(&mut Installer)) {
        change(&mut self.installer.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn installer(&self) -> Installer {
        *self.installer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer: status, type, text.
type Answer = (&'static str, &'static str, String);

/// Serves at an address from now on, on a new thread. Returns the address, whose port the kernel may have chosen.
pub(super) fn serve(address: SocketAddr, status: Arc<SharedStatus>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let mut server = Server { listener, status, open: Vec::new() };
    let work = move || {
        loop {
            if server.turn().is_err() {
                thread::sleep(RETRY_INTERVAL);
            }
        }
    };
    thread::Builder::new().name("http".to_owned()).spawn(work)?;
    Ok(address)
}

struct Server {
    listener: TcpListener,
    status: Arc<SharedStatus>,
    /// In the order in which they came.
    open: Vec<Connection>,
}

impl Server {
    /// Waits for something to do, and does it.
    fn turn(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.open.retain(|connection| connection.end > now);
        let timeout = self.open.first().map_or(PollTimeout::NONE, |first| {
            // Rounded up: who wakes early would spin.
            PollTimeout::try_from((first.end - now).as_millis() + 1).unwrap_or(PollTimeout::MAX)
        });
        let connections =
            self.open.iter().map(|connection| (connection.stream.as_fd(), connection.interest()));
        let sources = std::iter::once((self.listener.as_fd(), PollFlags::POLLIN)).chain(connections);
        let mut sources: Vec<PollFd<'_>> = sources.map(|(fd, flags)| PollFd::new(fd, flags)).collect();
        match poll(&mut sources, timeout) {
            Err(Errno::EINTR) => return Ok(()),
            other => drop(other?),
        }
        let mut ready =
            sources.iter().map(|source| source.any().unwrap_or(true)).collect::<Vec<_>>().into_iter();
        let has_callers = ready.next().unwrap_or_default();
        let status = &self.status;
        self.open.retain_mut(|connection| {
            !ready.next().unwrap_or_default() || connection.go_on(status).is_ok_and(|goes_on| goes_on)
        });
        if has_callers { self.accept() } else { Ok(()) }
    }

    /// Takes one connection.
    fn accept(&mut self) -> io::Result<()> {
        if self.open.len() >= MAX_CONNECTIONS {
            self.close_one();
        }
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {
                return Ok(());
            }
            Err(error) => {
                // Most likely for want of descriptors.
                self.close_one();
                return Err(error);
            }
        };
        stream.set_nonblocking(true)?;
        let mut connection =
            Connection { stream, end: Instant::now() + TIMEOUT, head: Vec::new(), answer: None };
        // The request is here by now, most likely.
        if connection.go_on(&self.status).is_ok_and(|goes_on| goes_on) {
            self.open.push(connection);
        }
        Ok(())
    }

    /// Closes the oldest connection that waits for its request; the oldest of all where none does.
    fn close_one(&mut self) {
        let waiting = self.open.iter().position(|connection| connection.answer.is_none());
        if !self.open.is_empty() {
            drop(self.open.remove(waiting.unwrap_or_default()));
        }
    }
}

struct Connection {
    stream: TcpStream,
    end: Instant,
    head: Vec<u8>,
    /// What of the answer is still to be written, once there is one.
    answer: Option<Vec<u8>>,
}

impl Connection {
    fn interest(&self) -> PollFlags {
        if self.answer.is_some() { PollFlags::POLLOUT } else { PollFlags::POLLIN }
    }

    /// Reads and writes as much as there is. Says whether there will be more.
    fn go_on(&mut self, status: &SharedStatus) -> io::Result<bool> {
        let mut buffer = [0; 1024];
        while self.answer.is_none() {
            let count = match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            self.head.extend_from_slice(&buffer[..count]);
            if count == 0 || self.head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                self.answer = Some(answer(&String::from_utf8_lossy(&self.head), status).into_bytes());
            } else if self.head.len() > MAX_BYTES {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        let rest = self.answer.get_or_insert_default();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => drop(rest.drain(..other?)),
            }
        }
        Ok(false)
    }
}

/// The whole answer to a request.
fn answer(head: &str, status: &SharedStatus) -> String {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let plain = |status: &'static str, text: &str| (status, "text/plain; charset=utf-8", format!("{text}\n"));
    let (status, kind, body): Answer = match (method, target.split('?').next().unwrap_or_default()) {
        _ if !is_http => plain("400 Bad Request", "expected a request of HTTP/1.1"),
        ("GET" | "HEAD", "/metrics") => (
            "200 OK",
            metrics::CONTENT_TYPE,
            metrics::text(&counters::read(&status.state), &status.installer()),
        ),
        ("GET" | "HEAD", "/readyz") if status.installer().is_installed => plain("200 OK", "ready"),
        ("GET" | "HEAD", "/readyz") => plain("503 Service Unavailable", "not installed"),
        ("GET" | "HEAD", _) => plain("404 Not Found", "there are /metrics and /readyz"),
        _ => plain("405 Method Not Allowed", "expected GET"),
    };
    let length = body.len();
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if method != "HEAD" {
        text.push_str(&body);
    }
    text
}
