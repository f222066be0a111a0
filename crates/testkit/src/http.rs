//! As much of HTTP/1.1 as an API server needs, over TLS.

use rustls::{ServerConnection, StreamOwned};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

pub type Connection = StreamOwned<ServerConnection, TcpStream>;

/// What a client asks.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Decoded.
    pub query: Vec<(String, String)>,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The next one of a connection; `None` at its end.
    pub fn read(connection: &mut Connection) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if connection.read(&mut byte)? == 0 {
                return Ok(None);
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect(),
            headers: lines.filter_map(header).collect(),
            body: Vec::new(),
        };
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        request.body.resize(length, 0);
        connection.read_exact(&mut request.body)?;
        Ok(Some(request))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All of this name.
    pub fn parameters(&self, name: &str) -> impl Iterator<Item = &str> {
        self.query.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters(name).next()
    }
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

/// The head of an answer, with a body of this length or of none that is known.
pub fn head(status: u16, length: Option<usize>) -> String {
    let framing = match length {
        Some(length) => format!("Content-Length: {length}"),
        None => "Transfer-Encoding: chunked".to_owned(),
    };
    format!("HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\n{framing}\r\n\r\n")
}

/// A whole answer.
pub fn answer(connection: &mut Connection, status: u16, body: &str) -> io::Result<()> {
    connection.write_all(head(status, Some(body.len())).as_bytes())?;
    connection.write_all(body.as_bytes())?;
    connection.flush()
}

/// A part of an answer of unknown length; the empty one ends it.
pub fn chunk(connection: &mut Connection, text: &str) -> io::Result<()> {
    connection.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())?;
    connection.flush()
}
