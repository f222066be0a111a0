//! A certificate authority and its certificates.

use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub struct Authority {
    pub pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&[], name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let signed = params.self_signed(&key).expect("a certificate");
        Self {
            pem: pem("CERTIFICATE", signed.der()),
            der: signed.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    pub fn certificate(&self) -> CertificateDer<'static> {
        self.der.clone()
    }

    pub fn server(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().expect("a key");
        let signed = params(&["127.0.0.1"], "server").signed_by(&key, &self.issuer).expect("a certificate");
        let der = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        (signed.der().clone(), der)
    }

    pub fn client(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let signed = params(&[], name).signed_by(&key, &self.issuer).expect("a certificate");
        (pem("CERTIFICATE", signed.der()), pem("PRIVATE KEY", &key.serialize_der()))
    }
}

fn params(names: &[&str], name: &str) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Formats PEM (RFC 7468).
pub fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n");
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", lines.collect::<String>())
}
