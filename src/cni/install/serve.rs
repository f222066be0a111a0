//! Readiness and metrics over HTTP, for whoever is on the node: one request a connection, one connection at a time, each
//! with little to say and little time to say it.

use super::metrics::{self, Installer};
use crate::cni::counters;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long a request may take, from its first byte to the last of the answer.
const TIME: Duration = Duration::from_secs(1);
/// How long its head may be.
const MOST_BYTES: usize = 8 * 1024;
/// How long to wait where no connection can be taken, as without descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What the installer shows.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) state: PathBuf,
    pub(super) installer: Mutex<Installer>,
}

impl Board {
    pub(super) fn change(&self, change: impl FnOnce(&mut Installer)) {
        change(&mut self.installer.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn installer(&self) -> Installer {
        *self.installer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer: status, type, text.
type Answer = (&'static str, &'static str, String);

/// Serves at an address from now on, on a thread of its own. Returns the address, whose port the kernel may have chosen.
///
/// # Errors
/// When the address can't be had.
pub(super) fn serve(address: SocketAddr, board: Arc<Board>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let work = move || {
        loop {
            match listener.accept() {
                // A caller that hangs up or dawdles misses the answer, and nobody else is concerned.
                Ok((stream, _)) => drop(answer(stream, &board)),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    };
    thread::Builder::new().name("http".to_owned()).spawn(work)?;
    Ok(address)
}

fn answer(mut stream: TcpStream, board: &Board) -> io::Result<()> {
    let end = Instant::now() + TIME;
    let head = head(&mut stream, end)?;
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let plain = |status: &'static str, text: &str| (status, "text/plain; charset=utf-8", format!("{text}\n"));
    let (status, kind, body): Answer = match (method, target.split('?').next().unwrap_or_default()) {
        _ if !is_http => plain("400 Bad Request", "expected a request of HTTP/1.1"),
        ("GET" | "HEAD", "/metrics") => (
            "200 OK",
            metrics::CONTENT_TYPE,
            metrics::text(&counters::read(&board.state), &board.installer()),
        ),
        ("GET" | "HEAD", "/readyz") if board.installer().is_installed => plain("200 OK", "ready"),
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
    stream.set_write_timeout(Some(left(end)?))?;
    stream.write_all(text.as_bytes())
}

/// A request up to the empty line.
fn head(stream: &mut TcpStream, end: Instant) -> io::Result<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut buffer)? {
            0 => break,
            _ if head.len() > MOST_BYTES => return Err(io::ErrorKind::InvalidData.into()),
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
