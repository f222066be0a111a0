//! HTTP/1.1 over TLS, as far as an API server and its clients need it, and a plain GET.

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};
use serde_json::Value;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

pub type Connection = StreamOwned<ServerConnection, TcpStream>;

#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: Headers,
    pub body: Vec<u8>,
}

impl Request {
    /// Returns `None` at the end of the connection.
    pub fn read(connection: &mut Connection) -> io::Result<Option<Self>> {
        let Some((first, headers, body)) = message(connection)? else { return Ok(None) };
        let mut words = first.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
        Ok(Some(Self { method: method.to_owned(), path: path.to_owned(), query, headers, body }))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        of_name(&self.headers, name)
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub type Headers = Vec<(String, String)>;

fn of_name<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Reads the first line, the headers and the body of the next message; `None` at the end.
fn message(stream: &mut impl Read) -> io::Result<Option<(String, Headers, Vec<u8>)>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: Headers = lines.filter_map(header).collect();
    let length = of_name(&headers, "content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body)?;
    Ok(Some((first, headers, body)))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    headers: Headers,
    pub body: Vec<u8>,
}

impl Response {
    pub fn read(stream: &mut impl Read) -> io::Result<Self> {
        let (first, headers, body) = message(stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
        Ok(Self { status: status.ok_or(io::ErrorKind::InvalidData)?, headers, body })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        of_name(&self.headers, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// A client's connection over TLS; requests may be cut anywhere.
pub struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Client {
    pub fn connect(
        address: SocketAddr,
        name: ServerName<'static>,
        config: Arc<ClientConfig>,
        limit: Duration,
    ) -> io::Result<Self> {
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(limit))?;
        let mut stream = StreamOwned::new(connection, socket);
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(Self { stream })
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    pub fn read(&mut self) -> io::Result<Response> {
        Response::read(&mut self.stream)
    }

    /// Sends a request and reads the response. Adds the body's length unless a header has it.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let mut request = request_head(method, path, headers, body.len()).into_bytes();
        request.extend_from_slice(body);
        self.write(&request)?;
        self.read()
    }

    /// True if the server has ended the connection without another response.
    pub fn is_ended(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }

    pub fn version(&self) -> Option<ProtocolVersion> {
        self.stream.conn.protocol_version()
    }

    pub fn certificate(&self) -> Vec<u8> {
        self.stream.conn.peer_certificates().expect("a certificate")[0].to_vec()
    }
}

/// Client configuration with these TLS versions, for servers signed by one of the authorities.
pub fn trusting(
    authorities: impl Iterator<Item = CertificateDer<'static>>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    authorities.for_each(|authority| roots.add(authority).expect("a certificate"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
    Arc::new(builder.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

pub fn request_head(method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: webhook\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let is_framed = headers.iter().any(|(name, _)| matches!(*name, "Content-Length" | "Transfer-Encoding"));
    if !is_framed && length > 0 {
        head += &format!("Content-Length: {length}\r\n");
    }
    head + "\r\n"
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next().unwrap_or(0), bytes.next().unwrap_or(0)];
                u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).expect("two digits")
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).expect("UTF-8")
}

/// Status and body of a plain server's response to a GET.
pub fn get(address: impl ToSocketAddrs, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("a server listens");
    let head = request_head("GET", path, &[("Connection", "close")], 0);
    stream.write_all(head.as_bytes()).expect("the server reads");
    // Envoy sends no length.
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
    (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status"), body.to_owned())
}

/// Head of a response with a body of this length, or of unknown length.
pub fn head(status: u16, length: Option<usize>) -> String {
    let framing = match length {
        Some(length) => format!("Content-Length: {length}"),
        None => "Transfer-Encoding: chunked".to_owned(),
    };
    format!("HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\n{framing}\r\n\r\n")
}

pub fn answer(connection: &mut Connection, status: u16, body: &str) -> io::Result<()> {
    // In one write: the second of two small packets would wait for the first one's acknowledgement.
    connection.write_all((head(status, Some(body.len())) + body).as_bytes())?;
    connection.flush()
}

/// Writes a chunk of a response of unknown length; an empty chunk ends it.
pub fn chunk(connection: &mut Connection, text: &str) -> io::Result<()> {
    connection.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())?;
    connection.flush()
}
