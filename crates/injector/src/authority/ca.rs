//! Certificate authority, and the only certificate that it signs, the server's, with names and renewal time. Each replica makes
//! its own server certificate and never stores it, so the key never leaves the process.

use crate::serve::tls::{CertificateChain, IdentityError, ServerIdentity, validity};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa};
use rcgen::{Issuer, KeyPair, KeyUsagePurpose, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::{sync::Arc, time::Duration};
use x509_cert::der::pem::{LineEnding, encode_string};

/// An authority's certificate, without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trusted {
    pub(super) der: CertificateDer<'static>,
    pub(super) life: Life,
}

#[derive(Debug)]
pub(super) struct Ca {
    pub(super) trusted: Trusted,
    key: KeyPair,
}

/// Period of use, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub(super) born: i64,
    pub(super) ends: i64,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum CaError {
    #[error("no PEM block of the expected kind")]
    Text(#[source] rustls::pki_types::pem::Error),
    #[error("a certificate without an expiry date")]
    Validity,
    #[error("an invalid key, or a key of an unsupported kind")]
    Key(#[source] rcgen::Error),
    #[error("a key that does not match the certificate")]
    Mismatch,
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("the new certificate can't be used")]
    Show(#[from] IdentityError),
}

/// Seconds by which validity precedes creation, for clients whose clocks are slow.
const SKEW: i64 = 3600;

/// Name of the authority. Certificates are checked against this name, so it must not change.
const NAME: &str = "sidecar-injector";

impl Life {
    pub(super) fn is_over(self, now: i64) -> bool {
        now >= self.ends
    }

    pub(super) fn part(self, numerator: i64, denominator: i64) -> i64 {
        self.born + (self.ends - self.born) * numerator / denominator
    }
}

impl Trusted {
    pub(super) fn read(der: CertificateDer<'static>) -> Result<Self, CaError> {
        let valid = validity(&der).ok_or(CaError::Validity)?;
        Ok(Self { der, life: Life { born: valid.start.saturating_add(SKEW), ends: valid.end } })
    }

    pub(super) fn pem(&self) -> String {
        pem("CERTIFICATE", &self.der)
    }
}

/// Parses all certificates; an empty string has none.
pub(super) fn read_all(text: &[u8]) -> Result<Vec<Trusted>, CaError> {
    let blocks = CertificateDer::pem_slice_iter(text);
    blocks.map(|der| Trusted::read(der.map_err(CaError::Text)?)).collect()
}

impl Ca {
    pub(super) fn make(now: i64, lifetime: Duration) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let life = life(now, lifetime);
        let signed = params(life).self_signed(&key)?;
        Ok(Self { trusted: Trusted { der: signed.der().clone(), life }, key })
    }

    pub(super) fn read(certificate: &[u8], key: &[u8]) -> Result<Self, CaError> {
        let trusted = Trusted::read(CertificateDer::from_pem_slice(certificate).map_err(CaError::Text)?)?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(key).map_err(CaError::Text)?;
        let key = KeyPair::try_from(&key).map_err(CaError::Key)?;
        // A certificate contains the public key unchanged.
        let public = key.public_key_raw();
        if !trusted.der.windows(public.len()).any(|part| part == public) {
            return Err(CaError::Mismatch);
        }
        Ok(Self { trusted, key })
    }

    pub(super) fn pem(&self) -> (String, String) {
        (self.trusted.pem(), pem("PRIVATE KEY", self.key.serialized_der()))
    }

    /// Signs a certificate that does not outlive the authority; returns it with its key.
    fn sign(
        &self,
        names: &[String],
        now: i64,
        lifetime: Duration,
    ) -> Result<(CertificateChain, Life), rcgen::Error> {
        let mut life = life(now, lifetime);
        life.ends = life.ends.min(self.trusted.life.ends);
        let key = KeyPair::generate()?;
        let mut leaf = CertificateParams::new(names)?;
        leaf.distinguished_name = DistinguishedName::new();
        leaf.distinguished_name.push(DnType::CommonName, names.first().map_or(NAME, String::as_str));
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        set_validity(&mut leaf, life);
        let own = params(self.trusted.life);
        let signed = leaf.signed_by(&key, &Issuer::from_params(&own, &self.key))?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        Ok(((vec![signed.der().clone()], key), life))
    }
}

/// PEM block (RFC 7468); keys are PKCS #8, without a password.
fn pem(label: &str, der: &[u8]) -> String {
    encode_string(label, LineEnding::LF, der).expect("a label and a length that the format allows")
}

fn life(now: i64, lifetime: Duration) -> Life {
    let seconds = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
    Life { born: now, ends: now.saturating_add(seconds.max(1)) }
}

fn params(life: Life) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    set_validity(&mut params, life);
    params
}

fn set_validity(params: &mut CertificateParams, life: Life) {
    let epoch = date_time_ymd(1970, 1, 1);
    let at = |seconds: i64| epoch + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    params.not_before = at(life.born - SKEW);
    params.not_after = at(life.ends);
}

/// Names of a Service for its callers; the API server uses the name that ends in `svc` (`ServerName` of
/// `k8s.io/apiserver/pkg/util/webhook`).
pub(super) fn names(service: &str, namespace: &str) -> Vec<String> {
    let short = format!("{service}.{namespace}.svc");
    vec![
        short.clone(),
        format!("{short}.cluster.local"),
        format!("{service}.{namespace}"),
        service.to_owned(),
    ]
}

#[derive(Debug)]
pub(super) struct ServedLeaf {
    pub(super) identity: Arc<ServerIdentity>,
    signer: CertificateDer<'static>,
    life: Life,
}

impl ServedLeaf {
    /// Time of the next certificate: after two thirds of this one's life, or now if another authority signs.
    pub(super) fn due(&self, signer: &Ca) -> i64 {
        if self.signer == signer.trusted.der { self.life.part(2, 3) } else { i64::MIN }
    }
}

/// Replaces the certificate if due. Open connections keep theirs.
pub(super) fn refresh(
    shown: &mut Option<ServedLeaf>,
    signer: &Ca,
    names: &[String],
    now: i64,
    lifetime: Duration,
) -> Result<bool, CaError> {
    if shown.as_ref().is_some_and(|shown| now < shown.due(signer)) {
        return Ok(false);
    }
    let (chain, life) = signer.sign(names, now, lifetime)?;
    let identity = match shown {
        Some(ServedLeaf { identity, .. }) => {
            identity.set(chain)?;
            Arc::clone(identity)
        }
        None => ServerIdentity::new(chain)?,
    };
    *shown = Some(ServedLeaf { identity, signer: signer.trusted.der.clone(), life });
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_305_600;
    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn an_authority_is_read_unchanged() {
        let made = Ca::make(NOW, DAY).expect("an authority");
        let (certificate, key) = made.pem();
        let read = Ca::read(certificate.as_bytes(), key.as_bytes()).expect("as stored");
        assert_eq!(read.trusted, made.trusted);
        assert_eq!(read.trusted.life, Life { born: NOW, ends: NOW + 86_400 });
        assert_eq!(read.pem(), (certificate.clone(), key.clone()));

        let (other, other_key) = Ca::make(NOW, DAY).expect("an authority").pem();
        let refused = |certificate: &str, key: &str| {
            Ca::read(certificate.as_bytes(), key.as_bytes()).expect_err("unusable").to_string()
        };
        assert!(refused(&certificate, &other_key).contains("does not match the certificate"));
        assert!(refused("", &key).contains("no PEM block"));
        assert!(refused(&certificate, &certificate).contains("no PEM block"));
        let both = read_all((certificate + &other).as_bytes()).expect("two");
        assert_eq!(both.len(), 2);
        assert!(read_all(b"").expect("none").is_empty());
    }

    #[test]
    fn nothing_outlives_its_signer() {
        let authority = Ca::make(NOW, DAY).expect("an authority");
        let names = ["a.b.svc".to_owned()];
        let ((chain, _), life) = authority.sign(&names, NOW + 10, DAY).expect("a certificate");
        assert_eq!(life, Life { born: NOW + 10, ends: NOW + 86_400 });
        let written = validity(&chain[0]).expect("a validity");
        assert_eq!((written.start, written.end), (NOW + 10 - SKEW, NOW + 86_400));
    }

    #[test]
    fn parts_of_a_life_are_computed_from_its_ends() {
        let life = Life { born: 100, ends: 400 };
        assert_eq!([life.part(2, 3), life.part(1, 100), life.part(0, 7)], [300, 103, 100]);
        let short = Life { born: 0, ends: 5 };
        assert_eq!([short.part(2, 3), short.part(1, 100)], [3, 0]);
        assert!(short.is_over(5) && !short.is_over(4));
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_certificate_is_exchanged_before_it_ends_and_when_another_signs() {
        let names = names("injector", "mesh");
        assert_eq!(
            names,
            ["injector.mesh.svc", "injector.mesh.svc.cluster.local", "injector.mesh", "injector"]
        );
        let now = 1_795_305_600;
        let (one, two) = (Ca::make(now, 48 * HOUR), Ca::make(now, 48 * HOUR));
        let (one, two) = (one.expect("an authority"), two.expect("an authority"));
        let mut shown = None;
        let mut at = |signer: &Ca, after: i64| {
            refresh(&mut shown, signer, &names, now + after, HOUR).expect("a certificate")
        };
        let exchanged =
            [(&one, 0), (&one, 2399), (&one, 2400), (&one, 4799), (&two, 4799), (&two, 4800), (&two, 7199)];
        let exchanged = exchanged.map(|(signer, after)| at(signer, after));
        assert_eq!(exchanged, [true, false, true, false, true, false, true]);
        assert_eq!(shown.expect("a certificate").identity.expires(), now + 7199 + 3600);
    }
}
