//! The server's certificate and key, which can be replaced while it runs.
//!
//! A connection keeps its handshake's certificate; the next one gets the new certificate. This module reads no files.

use parking_lot::RwLock;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, pki_types::pem::PemObject, sign::CertifiedKey};
use std::{ops::Range, sync::Arc};
use x509_cert::{Certificate, der::Decode, time::Time};

/// The server's certificate, looked up at each handshake.
#[derive(Debug)]
pub(crate) struct ServerIdentity {
    state: RwLock<IdentityState>,
    provider: Arc<CryptoProvider>,
}

/// The server's own certificate, the intermediates, and the key.
pub(crate) type CertificateChain = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Certificate with its key, and its end in seconds since 1970.
type IdentityState = (Arc<CertifiedKey>, i64);

#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    #[error(
        "the certificate is not PEM; expected one or more BEGIN CERTIFICATE blocks, the server's own first"
    )]
    Certificate(#[source] pem::Error),
    #[error("no certificate; expected one or more BEGIN CERTIFICATE blocks, the server's own first")]
    NoCertificate,
    #[error("the key is not PEM; expected an unencrypted BEGIN PRIVATE KEY block")]
    Key(#[source] pem::Error),
    #[error("the key does not match the certificate")]
    Mismatch(#[source] rustls::Error),
    #[error("the certificate has no expiry date; expected X.509")]
    Validity,
}

impl ServerIdentity {
    pub(crate) fn new(chain: CertificateChain) -> Result<Arc<Self>, IdentityError> {
        let provider = Arc::new(ring::default_provider());
        let state = RwLock::new(state(&provider, chain)?);
        Ok(Arc::new(Self { state, provider }))
    }

    /// Replaces the certificate. Open connections keep the old one; on error, nothing changes.
    pub(crate) fn set(&self, chain: CertificateChain) -> Result<(), IdentityError> {
        let state = state(&self.provider, chain)?;
        *self.state.write() = state;
        Ok(())
    }

    pub(crate) fn expires(&self) -> i64 {
        self.state.read().1
    }
}

impl ResolvesServerCert for ServerIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.state.read().0))
    }
}

fn state(provider: &CryptoProvider, (chain, key): CertificateChain) -> Result<IdentityState, IdentityError> {
    let own = chain.first().ok_or(IdentityError::NoCertificate)?;
    let expires = validity(own).ok_or(IdentityError::Validity)?.end;
    let key = CertifiedKey::from_der(chain, key, provider).map_err(IdentityError::Mismatch)?;
    Ok((Arc::new(key), expires))
}

/// Parses a Secret's texts (`tls.crt`, `tls.key`).
pub(crate) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<CertificateChain, IdentityError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(IdentityError::Certificate)?;
    if chain.is_empty() {
        return Err(IdentityError::NoCertificate);
    }
    Ok((chain, PrivateKeyDer::from_pem_slice(key).map_err(IdentityError::Key)?))
}

/// ALPN name of HTTP/2 (RFC 9113, 3.1).
pub(crate) const HTTP_2: &[u8] = b"h2";

/// TLS 1.2 and 1.3, HTTP/2 or HTTP/1.1 as the client chooses, without client certificates: by default, the API server has none.
pub(crate) fn server(identity: Arc<ServerIdentity>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(&identity.provider));
    let builder = builder.with_protocol_versions(&[&TLS13, &TLS12])?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(identity);
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Validity of a certificate (RFC 5280, 4.1), in seconds since 1970.
pub(crate) fn validity(certificate: &[u8]) -> Option<Range<i64>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    let seconds = |time: &Time| i64::try_from(time.to_unix_duration().as_secs()).ok();
    Some(seconds(&validity.not_before)?..seconds(&validity.not_after)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn made(year: i32) -> CertificateChain {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["injector.example".to_owned()]).expect("a name");
        params.not_after = date_time_ymd(year, 2, 28);
        let certificate = params.self_signed(&key).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        (vec![certificate.der().clone()], key)
    }

    #[test]
    fn the_end_of_a_certificate_is_read() {
        // Expected values from `date -u -d YEAR-02-28 +%s`.
        for (year, expected) in [(2027, 1_803_772_800), (2049, 2_498_083_200), (2050, 2_529_619_200)] {
            assert_eq!(ServerIdentity::new(made(year)).expect("an identity").expires(), expected, "{year}");
        }
    }

    #[test]
    fn a_certificate_cut_anywhere_is_refused() {
        let (chain, _) = made(2027);
        for length in 0..chain[0].len() {
            assert_eq!(validity(&chain[0][..length]), None, "{length}");
        }
    }
}
