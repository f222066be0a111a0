//! TLS from end to end: a client that trusts one certificate, and the server that has it. Both write down the bytes.

use crate::meshes::envoy::recorded::Recorded;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::Arc,
};

pub(crate) const NAME: &str = "app.example";

/// What went over the wire, seen from one end.
pub(crate) struct Wire {
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
    /// What the other end said, in the clear.
    pub(crate) message: Vec<u8>,
}

/// A server's certificate, and the two ends made for it.
pub(crate) struct Ends {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Ends {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
        let certificate = CertificateDer::from(made.cert.der().to_vec());
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("its key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("a certificate");
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate and its key");
        Self { client: Arc::new(client), server: Arc::new(server) }
    }

    /// Says this to a server, and hears its answer to the end.
    pub(crate) fn call(&self, stream: TcpStream, message: &[u8]) -> io::Result<Wire> {
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(&self.client), name).map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(connection, Recorded::new(stream));
        tls.write_all(message)?;
        tls.conn.send_close_notify();
        tls.flush()?;
        tls.sock.stream().shutdown(Shutdown::Write)?;
        let mut answer = Vec::new();
        tls.read_to_end(&mut answer)?;
        Ok(Wire { sent: tls.sock.written, received: tls.sock.read, message: answer })
    }

    /// Hears a client to the end, and says the same to it.
    pub(crate) fn echo(&self, stream: TcpStream) -> io::Result<Wire> {
        let connection = ServerConnection::new(Arc::clone(&self.server)).map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(connection, Recorded::new(stream));
        let mut message = Vec::new();
        tls.read_to_end(&mut message)?;
        tls.write_all(&message)?;
        tls.conn.send_close_notify();
        tls.flush()?;
        tls.sock.stream().shutdown(Shutdown::Write)?;
        Ok(Wire { sent: tls.sock.written, received: tls.sock.read, message })
    }
}
