//! As much of a client of HTTP/1.1 as tests need, over TLS: what it sends may be cut anywhere.

use rustls::{ClientConfig, ClientConnection, ProtocolVersion, StreamOwned, pki_types::ServerName};
use serde_json::{Value, json};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

/// A connection.
pub(crate) struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in small letters.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Reads one from a stream.
    pub(crate) fn read(stream: &mut impl Read) -> io::Result<Self> {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok());
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let mut response = Self {
            status: status.ok_or(io::ErrorKind::InvalidData)?,
            headers: lines.filter_map(header).collect(),
            body: Vec::new(),
        };
        let length = response.header("content-length").and_then(|length| length.parse().ok());
        response.body.resize(length.unwrap_or(0), 0);
        stream.read_exact(&mut response.body)?;
        Ok(response)
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::from(address.ip());
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(super::webhook::TIMEOUT))?;
        let mut stream = StreamOwned::new(connection, socket);
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(Self { stream })
    }

    /// Sends these bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// The next answer.
    pub(crate) fn read(&mut self) -> io::Result<Response> {
        Response::read(&mut self.stream)
    }

    /// Asks, and reads the answer. The body's length is told unless a header does.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let mut request = head(method, path, headers, body.len()).into_bytes();
        request.extend_from_slice(body);
        self.write(&request)?;
        self.read()
    }

    /// Asks about a pod.
    pub(crate) fn review(&mut self, path: &str, uid: &str, pod: &Value) -> io::Result<Response> {
        let body = review("admission.k8s.io/v1", uid, pod).to_string();
        self.send("POST", path, &[JSON], body.as_bytes())
    }

    /// Whether the server has ended the connection without another answer.
    pub(crate) fn is_ended(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }

    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.stream.conn.protocol_version()
    }

    /// The server's own certificate.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.stream.conn.peer_certificates().expect("a certificate")[0].to_vec()
    }
}

pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");

/// The head of a request.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
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

/// A review of a pod that is being created in the namespace `shop`.
pub(crate) fn review(version: &str, uid: &str, pod: &Value) -> Value {
    json!({ "apiVersion": version, "kind": "AdmissionReview", "request": {
        "uid": uid, "kind": { "group": "", "version": "v1", "kind": "Pod" },
        "resource": { "group": "", "version": "v1", "resource": "pods" },
        "namespace": "shop", "operation": "CREATE", "object": pod, "dryRun": false } })
}

/// A pod as a Deployment makes it.
pub(crate) fn pod() -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "generateName": "web-5d4f8c7b9-", "labels": { "app": "web", "pod-template-hash": "5d4f8c7b9" } },
        "spec": { "containers": [{ "name": "web", "image": "web:1", "ports": [{ "containerPort": 8080 }] }] } })
}
