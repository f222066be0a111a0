//! Serving processes of the sandbox (the world, the proxy, the demo's application), with one thread per connection.

use super::options::{FAILED, SandboxFailure};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::{io, sync::Arc, thread, time::Duration};
use sys::dial;
use sys::fork::{Beginning, Child, fork_until_ready, leave_streams};
use sys::namespace::OpenNamespace;

/// Enough for a thread that forwards bytes: the buffers are elsewhere.
const STACK: usize = 128 * 1024;
/// Pause after a failure to accept, usually for lack of descriptors.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

pub(super) fn unspecified(ipv6: bool) -> impl Iterator<Item = IpAddr> {
    [Ipv4Addr::UNSPECIFIED.into()].into_iter().chain(ipv6.then_some(Ipv6Addr::UNSPECIFIED.into()))
}

pub(super) fn listen(address: SocketAddr, transparent: bool) -> io::Result<TcpListener> {
    listening(address, dial::listen(address, transparent))
}

pub(super) fn listening<T>(address: SocketAddr, socket: io::Result<T>) -> io::Result<T> {
    socket.map_err(|error| io::Error::new(error.kind(), format!("can't listen on {address}: {error}")))
}

/// Starts threads that accept connections and call `each` on a separate thread per connection, with its listener's name.
pub(super) fn accept<Name: Copy + Send + 'static>(
    listeners: Vec<(Name, TcpListener)>,
    each: impl Fn(Name, &TcpStream) + Clone + Send + 'static,
) -> io::Result<()> {
    for (name, listener) in listeners {
        listener.set_nonblocking(false)?;
        let each = each.clone();
        let work = move || {
            loop {
                let each = each.clone();
                match listener.accept() {
                    Ok((client, _)) => on_thread(move || each(name, &client)),
                    Err(_) => thread::sleep(RETRY_INTERVAL),
                }
            }
        };
        thread::Builder::new().stack_size(STACK).spawn(work)?;
    }
    Ok(())
}

/// Common size limit of DNS messages over UDP with EDNS.
pub(super) const DATAGRAM: usize = 4096;

/// Starts a thread that receives datagrams, and calls `each` on a separate thread per datagram.
pub(super) fn receive(
    socket: UdpSocket,
    each: impl Fn(&UdpSocket, &[u8], SocketAddr) + Clone + Send + 'static,
) -> io::Result<()> {
    let socket = Arc::new(socket);
    thread::Builder::new().spawn(move || {
        let mut buffer = [0; DATAGRAM];
        loop {
            let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
            let (each, socket, datagram) = (each.clone(), Arc::clone(&socket), buffer[..length].to_vec());
            on_thread(move || each(&socket, &datagram, client));
        }
    })?;
    Ok(())
}

pub(super) fn on_thread(work: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().stack_size(STACK).spawn(work);
}

/// Starts a process that serves in a network namespace, on threads, until the sandbox ends.
pub(super) fn start(
    name: &'static str,
    place: &OpenNamespace,
    serve: impl FnOnce() -> io::Result<()>,
) -> Result<Child, SandboxFailure> {
    let work = |beginning: Beginning| {
        let begun = leave_streams().and_then(|()| place.enter()).and_then(|()| serve());
        beginning.say(&begun);
        while begun.is_ok() {
            thread::park();
        }
        FAILED
    };
    fork_until_ready(work).map_err(|error| SandboxFailure::Start(name, error))
}
