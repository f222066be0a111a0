//! The agent beside the proxy that answers DNS queries: it forwards them to the server outside.

use super::super::serve;
use super::{ConnectionDirection, SandboxProxy};
use rules::Protocol;
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    thread,
    time::Duration,
};
use sys::{dial, listener::user_of};

/// The usual limit of a DNS message over UDP with EDNS.
const DATAGRAM: usize = 4096;
/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Answers DNS queries at this socket, on threads.
pub(super) fn serve(proxy: &Arc<SandboxProxy>, socket: UdpSocket) -> io::Result<()> {
    let (proxy, socket) = (Arc::clone(proxy), Arc::new(socket));
    thread::Builder::new().spawn(move || {
        let mut buffer = [0; DATAGRAM];
        loop {
            let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
            let (proxy, socket) = (Arc::clone(&proxy), Arc::clone(&socket));
            let query = buffer[..length].to_vec();
            serve::on_thread(move || answer(&proxy, &socket, &query, client));
        }
    })?;
    Ok(())
}

fn answer(proxy: &SandboxProxy, socket: &UdpSocket, query: &[u8], client: SocketAddr) {
    let of = name(query).map(|name| format!(" for {name}")).unwrap_or_default();
    let from = user_of(Protocol::Udp, client).map_or(String::new(), |uid| format!(", from uid {uid}"));
    let log = |note: &str| {
        proxy.log_line(&format!("dns query{of} -> {}{from}{note}", proxy.facts.agent().unwrap_or(0)));
    };
    match ask(proxy, query, client) {
        Ok(answer) => {
            log("");
            let _ = socket.send_to(&answer, client);
        }
        Err(error) => log(&format!(": {error}")),
    }
}

fn ask(proxy: &SandboxProxy, query: &[u8], client: SocketAddr) -> io::Result<Vec<u8>> {
    proxy.leave(ConnectionDirection::Outbound)?;
    let server = proxy.facts.name_server(client);
    let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    if let Some(mark) = proxy.facts.known.mark {
        dial::mark(&socket, mark.value)?;
    }
    socket.connect(server)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.send(query)?;
    let mut answer = vec![0; DATAGRAM];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// The name in a DNS query (RFC 1035, 4.1.2).
pub(crate) fn name(query: &[u8]) -> Option<String> {
    const HEADER: usize = 12;
    let (mut rest, mut labels) = (query.get(HEADER..)?, Vec::new());
    loop {
        let (&length, after) = rest.split_first()?;
        if length == 0 {
            return Some(labels.join("."));
        }
        let (label, after) = after.split_at_checked(usize::from(length))?;
        // It is printed on a terminal, so control characters are escaped.
        labels.push(String::from_utf8_lossy(label).escape_default().to_string());
        rest = after;
    }
}
