//! Reports the listener that a TCP connection reaches and its original destination. `landing listen ADDR:PORT...` acts as the
//! proxy. It answers each connection with one line and prints the same line: `15006 from 192.0.2.2:40000 to 192.0.2.1:8080`.
//! `landing dial ADDR:PORT` acts as a client and prints the answer. Redirects are invisible to a client, so the listener reports
//! them; it forwards no data and runs until killed.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{SockaddrIn, SockaddrIn6, getsockopt, sockopt};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: landing listen ADDR:PORT... | landing dial ADDR:PORT";

/// Long enough for a busy machine, short enough to report a lost packet as a failure.
const TIMEOUT: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "landing: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let verb = args.next().ok_or(USAGE)?;
    let addresses = args.map(|text| address(&text)).collect::<Outcome<Vec<_>>>()?;
    match (verb.as_str(), addresses.as_slice()) {
        ("listen", [_, ..]) => listen(&addresses),
        ("dial", [address]) => dial(*address),
        _ => Err(USAGE.into()),
    }
}

fn address(text: &str) -> Outcome<SocketAddr> {
    text.parse().map_err(|_| format!("{text:?} is not ADDR:PORT").into())
}

/// Binds every address first, so that the line `ready` means that all of them accept.
fn listen(addresses: &[SocketAddr]) -> Outcome<()> {
    let listeners = addresses
        .iter()
        .map(|address| TcpListener::bind(address).map_err(|error| format!("{address}: {error}").into()))
        .collect::<Outcome<Vec<_>>>()?;
    writeln!(io::stdout(), "ready")?;
    let threads: Vec<_> =
        listeners.into_iter().map(|listener| thread::spawn(move || answer_all(&listener))).collect();
    threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a listener panicked")?)
}

fn answer_all(listener: &TcpListener) -> Outcome<()> {
    loop {
        let (stream, client) = listener.accept()?;
        // A client's early hangup does not affect the next client.
        if let Err(error) = answer(&stream, client) {
            writeln!(io::stderr(), "landing: {client}: {error}")?;
        }
    }
}

fn answer(mut stream: &TcpStream, client: SocketAddr) -> Outcome<()> {
    let port = stream.local_addr()?.port();
    let line = format!("{port} from {client} to {}", original_destination(stream)?);
    writeln!(io::stdout(), "{line}")?;
    writeln!(stream, "{line}")?;
    Ok(())
}

/// Destination that the client dialled; without a redirect, the connection's local address.
fn original_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    let local = stream.local_addr()?;
    let original = match local {
        SocketAddr::V4(_) => getsockopt(stream, sockopt::OriginalDst)
            .map(|address| SocketAddr::V4(SocketAddrV4::from(SockaddrIn::from(address)))),
        SocketAddr::V6(_) => getsockopt(stream, sockopt::Ip6tOriginalDst)
            .map(|address| SocketAddr::V6(SocketAddrV6::from(SockaddrIn6::from(address)))),
    };
    Ok(original.unwrap_or(local))
}

fn dial(address: SocketAddr) -> Outcome<()> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)
        .map_err(|error| format!("cannot connect to {address}: {error}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = String::new();
    BufReader::new(&stream)
        .read_line(&mut answer)
        .map_err(|error| format!("no answer from {address}: {error}"))?;
    write!(io::stdout(), "{answer}")?;
    Ok(())
}
