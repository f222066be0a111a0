//! An application with minimal HTTP/1.1 that answers each request with its peer's address.

use crate::support::{namespace::Namespace, pod::APP, traffic::assume};
use nix::sys::socket::{Shutdown, shutdown};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

/// A caller's address as seen by the application, and as sent by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) peer: SocketAddr,
    pub(crate) caller: SocketAddr,
}

type Seen = Mutex<Vec<Arrival>>;

pub(crate) struct Application {
    socket: TcpListener,
    worker: Option<JoinHandle<()>>,
    seen: Arc<Seen>,
}

impl Application {
    pub(crate) fn start(host: &Namespace, address: SocketAddr) -> Self {
        let socket = host.run(|| {
            assume(APP);
            TcpListener::bind(address)
        });
        let socket = socket.unwrap_or_else(|error| panic!("listening at {address} failed: {error}"));
        let (served, seen) = (socket.try_clone().expect("a descriptor is free"), Arc::new(Seen::default()));
        let noted = Arc::clone(&seen);
        let worker = thread::spawn(move || {
            while let Ok((stream, peer)) = served.accept() {
                let seen = Arc::clone(&noted);
                thread::spawn(move || serve(&stream, peer, &seen));
            }
        });
        Self { socket, worker: Some(worker), seen }
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.seen.lock().expect("no panic while locked").clone()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn serve(stream: &TcpStream, peer: SocketAddr, seen: &Seen) -> io::Result<()> {
    let mut requests = BufReader::new(stream);
    stream.set_nodelay(true)?;
    while let Some((line, _)) = head(&mut requests)? {
        let caller = line.split(' ').nth(1).and_then(|path| path.strip_prefix('/')?.parse().ok());
        let caller = caller.ok_or_else(|| io::Error::other(format!("{line:?} names no caller")))?;
        seen.lock().expect("no panic while locked").push(Arrival { peer, caller });
        let body = peer.to_string();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        (&mut &*stream).write_all(answer.as_bytes())?;
    }
    Ok(())
}

pub(crate) struct Caller {
    pub(crate) local: SocketAddr,
    stream: BufReader<TcpStream>,
}

impl Caller {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        Ok(Self { local: stream.local_addr()?, stream: BufReader::new(stream) })
    }

    /// Requests the caller's address as seen by the application. The connection can be reused.
    pub(crate) fn query_peer(&mut self) -> io::Result<SocketAddr> {
        let request = format!("GET /{} HTTP/1.1\r\nHost: application\r\n\r\n", self.local);
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (status, length) = head(&mut self.stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        assert_eq!(status, "HTTP/1.1 200 OK");
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        String::from_utf8_lossy(&body).parse().map_err(io::Error::other)
    }
}

/// Reads the first line of a message and the length of its body; `None` at the connection's end.
fn head(stream: &mut impl BufRead) -> io::Result<Option<(String, usize)>> {
    let (mut first, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return if first.is_none() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Ok(first.map(|first| (first, length)));
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.parse().map_err(io::Error::other)?;
        }
        first.get_or_insert_with(|| line.to_owned());
    }
}
